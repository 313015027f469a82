"""Shared by the fuzz tests: odd texts, damaged texts, hard values, a run, and the rules for an error's message."""

from __future__ import annotations

import math
import time
from contextlib import contextmanager

import msgspec
import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes

from cudalab.base.errors import CudalabError
from cudalab.checks.expected import expected
from cudalab.checks.parity import compare
from cudalab.kernels.add2d import add2d
from cudalab.kernels.gelu import gelu
from cudalab.kernels.plus_one import plus_one
from cudalab.report.results import Results
from cudalab.results import record
from cudalab.results.record import Case, Machine, Parity
from cudalab.spec.dtype import dtype

ODD = [
    "", " ", "\n", "\0", "\x1b[31mred\x1b[0m", "[red]", "[/red]", "[bold", "\ud800", "\u202e", "\x9b2J", "\x7f",
    "\u0663", "\u00b2", "'", '"', "../..", "/", ".", "-", "--", "$(x)", "%s", "{}", "{0}", "9" * 30, "9" * 5000,
    "1e999", "nan", "inf", "-inf", "1" + "0" * 400, "\uffff", "\U0001f600",
]  # fmt: skip
texts = st.one_of(st.sampled_from(ODD), st.text(st.characters(), max_size=40))


def more(factor: float) -> settings:
    """Settings with a multiple of the profile's examples, for tests with quick or slow examples."""
    return settings(max_examples=max(int(settings.default.max_examples * factor), 5))


@st.composite
def damaged(draw, text: str, pieces: list[str], most: int = 3):
    """`text`, in which a few of the `pieces` it consists of are deleted, doubled, swapped or replaced."""
    parts = list(pieces)
    for _ in range(draw(st.integers(1, most))):
        at = draw(st.integers(0, max(len(parts) - 1, 0)))
        how = draw(st.sampled_from(["delete", "double", "swap", "replace", "insert", "cut"]))
        if how == "insert" or not parts:
            parts.insert(at, draw(texts))
        elif how == "delete":
            del parts[at]
        elif how == "double":
            parts.insert(at, parts[at])
        elif how == "swap":
            other = draw(st.integers(0, len(parts) - 1))
            parts[at], parts[other] = parts[other], parts[at]
        elif how == "replace":
            parts[at] = draw(st.one_of(texts, st.sampled_from(pieces)))
        else:
            del parts[at:]
    return "".join(parts)


def said_clearly(error: CudalabError, given: object = "") -> str:
    """The message of an error, if a person can read it; it may repeat what was `given`."""
    text = str(error)
    assert text.strip()
    assert len(text) <= 1500 + 2 * len(repr(given)), text[:300]
    assert "Traceback" not in text
    assert " object at 0x" not in text
    assert text != "None"
    return text


@contextmanager
def at_most(seconds: float):
    """Fail if the block takes more of this process's own time: a hang, or a search that grows too fast."""
    start = time.process_time()
    yield
    taken = time.process_time() - start
    assert taken < seconds, f"took {taken:.1f} s"


def case(backend, scale=1.0, kinds=("cold", "hot", "graph", "graph_cold", "call"), **more):
    times = {kind: [[scale * 1e-6 * (1 + 0.001 * i)] * 3 for i in range(4)] for kind in kinds}
    given = {
        "size": "small", "shape": (1, 3, 4), "nbytes": 4800, "times": times,
        "parity": Parity(ok=True, n=12, max_ulp=1.5, worst="[1] got 1, want 2", rel_l2=1e-7),
    }  # fmt: skip
    return Case("gelu", dtype="float32", backend=backend, **{**given, **more})


def whole(device="cuda", timed=True):
    kinds = ("cold", "hot", "graph", "call") if device == "cuda" else ("wall",)
    cases = [
        case("torch_eager", 10, kinds, cross={"nvbench cold": 1e-5, "nvbench wall": 9.0}),
        case("pycuda", 2, kinds, variant="gelu_vec", costs={"bind": 1.0, "first run": 0.1, "graph build": 1e-3}),
        case("copy", 1.9, kinds, status=record.CEILING, parity=None,
             condition={"sm_hz": 1e9, "memory_hz": 1e9, "power_w": 700.0, "throttled": "power cap"}),
        case("host", variant="gelu_scalar", times={}, notes=["a note"]),
        case("pycuda", variant="bad", status=record.WRONG, reason="3 of 12 values differ", times={}),
        case("cupy_eager", status=record.SKIPPED, reason="CuPy is not installed", times={}, parity=None),
        case("cupy_raw", status=record.ERROR, reason="does not compile:\nline 3 | error", times={}, parity=None),
    ]  # fmt: skip
    machine = Machine(device, "Test", {"l2_bytes": 2**26, "driver": "1.2"}, {"python": "3.11"})
    options = {"kernels": ["gelu"], "sizes": "small", "seed": 0, "budget": 1.0, "timeout": 120.0, "device": "auto",
               "fresh_caches": False, "only": "", **({"modes": "launch,graph"} if timed else {})}  # fmt: skip
    return Results(
        record.FORMAT, record.VERSION, "2026-01-01T00:00:00+00:00", options, machine, "no driver", {"gelu.cu": "00"},
        {"empty event pair": [2e-6], "empty kernel": [3e-6]}, cases, {"total": 9.0}, complete=False,
    )  # fmt: skip


def of_study(name="graphs"):
    """A run of a study, of the lab's own or of another."""
    cases = [
        case("default", kinds=("wall",), nbytes=0, quantities={"peak_bytes": 1e9, "launches": 5.0, "items": 32.0}),
        case("graph", 0.5, ("wall", "a kind of its own"), nbytes=0, quantities={"peak_bytes": 5e8, "compile_s": 0.1}),
        case("jit.script", status=record.WRONG, reason="3 of 12 values differ", times={}, nbytes=0),
        case("ours", status=record.SKIPPED, reason="needs a GPU", times={}, nbytes=0, parity=None),
    ]
    for one in cases:
        one.kernel = name
    run = whole("cpu")
    options = {"study": name, "settings": {"calls": 5, "exact": True}, "baseline": "default", "kinds": "wall"}
    return msgspec.structs.replace(run, cases=cases, options=run.options | options, calibration={})


KERNELS = {"gelu": gelu, "add2d": add2d, "plus_one": plus_one}
shapes = st.one_of(
    array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=9),
    array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=40),
    st.sampled_from([(1,), (31,), (33,), (1025,), (4099,), (0,), (3, 0, 2), (1, 1), (1,) * 30, (257, 3)]),
)


def hard(shape, kind, seed):
    """Any bit patterns, with zeros, infinities, NaN, the smallest and the largest numbers among them."""
    rng = np.random.default_rng(seed)
    n = math.prod(shape)
    if kind.numpy.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if kind.numpy.kind == "c":
        return hard((*shape, 2), dtype("float32" if kind.itemsize == 8 else "float64"), seed).view(kind.numpy)[..., 0]
    values = rng.integers(0, 256, n * kind.itemsize, np.uint8).view(kind.numpy)
    if kind.floating:
        with np.errstate(all="ignore"):
            ends = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.0**kind.emin, -(2.0**kind.emin)])
            ends = np.append(
                ends, [kind.ulp(np.zeros(1))[0], (2 - 2.0 ** (1 - kind.precision)) * -(2.0 ** (1 - kind.emin))]
            )
            ends = ends.astype(kind.numpy)
    else:
        ends = np.array([0, 1, np.iinfo(kind.numpy).max, np.iinfo(kind.numpy).min], kind.numpy)
    some = rng.random(n) < rng.choice([0.0, 0.3, 1.0])
    values[some] = rng.choice(ends, int(some.sum()))
    return values.reshape(shape)


def judged(kernel, got, arrays):
    """Fail unless `got` is the reference's answer for these plain arrays."""
    first = next(iter(arrays.values()))
    kind = dtype(str(first.dtype))
    parity = compare(np.array(got), expected(kernel, arrays), kind, kernel.budget(kind))
    assert parity.ok, parity.message
