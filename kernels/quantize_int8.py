"""Each row in int8 with a scale of its own."""

import numpy as np

from cudalab import Kernel, Out
from cudalab.kernels._quantized import (
    EDGES,
    EXACT,
    PEERS,
    QUOTIENT,
    RECIPROCAL,
    SIZES,
    entries,
    quotient,
    rows_of_all_sizes,
    scale,
)

LARGEST = 127.0


def composite(x):
    wide = x.float()
    scale = (wide.abs().amax(1) / 127.0).clamp(min=2.0**-100)
    return scale, (wide / scale[:, None]).round().char()


quantize_int8 = Kernel(
    file=__file__,
    summary="each row in int8, and its scale, max |x| / 127",
    dtypes=("float32", "float16", "bfloat16"),
    sizes=SIZES,
    edges=EDGES,
    outputs={
        "scale": Out(lambda x: scale(x, LARGEST), dtype="float32", budgets=QUOTIENT, peers=RECIPROCAL),
        "q": Out(lambda x, scale: np.rint(quotient(x, scale)), dtype="int8", peers=PEERS),
    },
    entries=entries("quantize_int8"),
    called=lambda x: "quantize_int8_vec",
    budgets=EXACT,
    inputs=rows_of_all_sizes,
    shapes={"x": "rows cols", "scale": "rows", "q": "rows cols"},
    independent="rows",
    torch=composite,
    triton="triton/quantize.py",
)
