"""Quantisation: int8 values, judged with the scales that the kernel wrote."""

import numpy as np

from cudalab import Budget, Kernel, Launch, Out, blocks


def rows_of_all_sizes(shape, dtype, rng):
    x = rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 4, (shape[0], 1))
    x[1:2] = 0
    return {"x": x.astype(dtype)}


def launch(x, q, scale):
    rows, cols = x.shape
    return Launch((blocks(rows, 4),), (32, 4), (x, q, scale, np.int32(rows), np.int32(cols)))


def eager(x):
    wide = x.float()
    scale = wide.abs().amax(1) / 127
    q = (wide / scale.clamp(min=1e-30)[:, None]).round().clamp(-127, 127)
    return scale, q.char()


quantise = Kernel(
    file=__file__,
    summary="int8 values and a scale of each row",
    dtypes=("float32", "float16"),
    sizes={"small": (100, 300), "large": (8192, 4096)},
    edges=((1, 1), (3, 31), (5, 33), (6, 100)),
    shapes={"x": "rows cols", "q": "rows cols", "scale": "rows"},
    inputs=rows_of_all_sizes,
    outputs={
        "scale": Out(lambda x: abs(x).max(axis=1) / 127, dtype="float32", budgets=Budget(1, why="one division")),
        "q": Out(
            lambda x, scale: np.rint(x / np.where(scale, scale, 1)[:, None]),
            dtype="int8",
            budgets=Budget(1, why="x / scale may lie between two integers"),
        ),
    },
    entries={"quantise_rows": launch},
    budgets=Budget(1, why="see outputs"),
    torch=eager,
)
