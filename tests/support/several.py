"""Kernels that write several arrays, take scalars and are several launches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from specs import spec

from cudalab import Budget, Launch, Out, Scalar, Work

DATA = Path(__file__).parents[1] / "data" / "several"


def text_of(name: str) -> str:
    return (DATA / f"{name}.cu").read_text()


def step(p, m, v, g, lr, b1, b2):
    m = b1 * m + (1 - b1) * g
    v = b2 * v + (1 - b2) * g * g
    return p - lr * m / (np.sqrt(v) + 1e-8), m, v


def moments(shape, dtype, rng):
    p, m, v, g = rng.standard_normal((4, *shape))
    return {"p": p.astype(dtype), "m": m.astype(np.float32), "v": (v * v).astype(np.float32), "g": g.astype(dtype)}


def adam(folder, **fields):
    """AdamW without decay, in place: three outputs, two dtypes, three scalars."""

    def launch(p, m, v, g, lr, b1, b2):
        return Launch((-(-p.size // 128),), (128,), (p, m, v, g, lr, b1, b2, np.int32(p.size)))

    return spec(folder, cu=text_of("adam"), name="adam", **{
        "reference": step, "dtypes": ("float32", "float16"), "sizes": {"small": (3000,)}, "edges": ((1,), (129,)),
        "inputs": moments, "outputs": {"p": Out(), "m": Out(dtype="float32"), "v": Out(dtype="float32")},
        "scalars": {"lr": Scalar(0.01), "b1": Scalar(0.9), "b2": Scalar(0.999)}, "entries": {"adam": launch},
        "budgets": {"float32": Budget(8, atol=1e-6), "float16": Budget(1)}, **fields})  # fmt: skip


def count(folder, **fields):
    """A sum in two launches over a workspace, and a count of the positive elements in a buffer that begins at zero."""

    def launch(x, total, counts, partial):
        blocks = partial.size
        return (
            Launch((blocks,), (256,), (x, partial, counts, np.uint32(x.size)), entry="part"),
            Launch((1,), (1,), (partial, total, np.uint32(blocks)), entry="whole"),
        )

    return spec(folder, cu=text_of("count"), name="count", **{
        "reference": None, "sizes": {"small": (3000,)}, "edges": ((1,), (257,)),
        "shapes": {"x": "n", "total": "1", "counts": "2", "partial": "(n+255)//256"},
        "outputs": {
            "total": Out(lambda x: x.sum(keepdims=True)),
            "counts": Out(lambda x: np.array([(x <= 0).sum(), (x > 0).sum()]), dtype="int32", fill=0),
        },
        "workspace": {"partial": Work("float32")}, "entries": {"count": launch},
        "budgets": {"float32": Budget(4, atol=1e-3)}, **fields})  # fmt: skip


TAPS = np.array([0.25, 0.5, 0.125], np.float32)


def box(folder, **fields):
    """A filter whose weights are constants from the host, not symmetric: a filter that is flipped is seen."""

    def reference(x):
        padded = np.concatenate([[0.0], x, [0.0]])
        return TAPS[0] * padded[:-2] + TAPS[1] * padded[1:-1] + TAPS[2] * padded[2:]

    return spec(folder, cu=text_of("box"), name="box", **{
        "reference": reference, "sizes": {"small": (3000,)}, "edges": ((1,), (129,)), "constants": {"taps": TAPS},
        "entries": {"box": lambda x, y: Launch((-(-x.size // 128),), (128,), (x, y, np.int32(x.size)))},
        "budgets": {"float32": Budget(2, atol=1e-6)}, **fields})  # fmt: skip


def rms_form(x, w, eps: float):
    wide = x.float()
    scale = (wide.pow(2).mean(1) + eps).rsqrt()
    return (wide * scale[:, None] * w).to(x.dtype), scale


def rms_backward(dy, dscale, x, w, scale):
    """The gradients of x and w, from the output `scale` as the kernel computed it."""
    wide, s, g = x.float(), scale[:, None], dy.float() * w
    inner = (g * wide).sum(1, keepdim=True) + dscale[:, None]
    return (g * s - wide * inner * s**3 / x.shape[1]).to(x.dtype), (dy.float() * wide * s).sum(0).to(w.dtype)


def rms(folder, **fields):
    """Rows of mean square one: a scalar, two outputs of which one is float32, and a gradient that uses an output."""

    def reference(x, w, eps):
        scale = 1 / np.sqrt((x * x).mean(axis=1) + eps)
        return x * scale[:, None] * w, scale

    def launch(x, w, y, scale, eps):
        rows, cols = x.shape
        return Launch((-(-rows // 64),), (64,), (x, w, y, scale, eps, np.int32(rows), np.int32(cols)))

    return spec(folder, cu=text_of("rms"), name="rms", **{
        "reference": reference, "dtypes": ("float32", "float16"), "sizes": {"small": (8, 33)},
        "edges": ((1, 1), (65, 3)), "entries": {"rms": launch},
        "shapes": {"x": "rows cols", "w": "cols", "y": "rows cols", "scale": "rows"},
        "outputs": {"y": Out(), "scale": Out(dtype="float32")}, "scalars": {"eps": Scalar(1e-5)},
        "budgets": {"float32": Budget(8), "float16": Budget(1)}, "torch": rms_form, "backward": rms_backward,
        **fields})  # fmt: skip


FIRST = text_of("first")
FIRST_OF_4 = FIRST.replace("i / k * cols + i % k", "i / 4 * cols + i % 4")


def first(folder, cu=FIRST, **more):
    """The first k columns: a scalar is a length of the output."""

    def launch(x, y, k):
        return Launch((-(-y.size // 64),), (64,), (x, y, *map(np.int32, x.shape), k))

    fields = {
        "sizes": {"small": (9, 20)}, "edges": ((1, 4), (3, 7)), "shapes": {"x": "rows cols", "y": "rows k"},
        "scalars": {"k": Scalar(4, "int32")}, "dims": {"k": "at least 1, at most cols"}, "entries": {"first": launch},
        "reference": lambda x, k: x[:, :k], "budgets": Budget(0),
    }  # fmt: skip
    return spec(folder, cu=cu, name="first", **fields | more)
