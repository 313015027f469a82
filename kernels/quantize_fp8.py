"""Each row in fp8 (e4m3) with a scale of its own."""

import numpy as np

from cudalab import Kernel, Out
from cudalab.kernels._quantized import (
    EDGES,
    EXACT,
    LEAST,
    PEERS,
    QUOTIENT,
    RECIPROCAL,
    SIZES,
    entries,
    quotient,
    rows_of_all_sizes,
    scale,
)

LARGEST = 448.0


def native(x):
    import torch

    wide = x.float()
    scale = (wide.abs().amax(1) / LARGEST).clamp(min=LEAST)
    return scale, (wide / scale[:, None]).clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn)


quantize_fp8 = Kernel(
    file=__file__,
    summary="each row in fp8 (e4m3), and its scale, max |x| / 448",
    dtypes=("float32", "float16", "bfloat16"),
    sizes=SIZES,
    edges=EDGES,
    outputs={
        "scale": Out(lambda x: scale(x, LARGEST), dtype="float32", budgets=QUOTIENT, peers=RECIPROCAL),
        "q": Out(lambda x, scale: np.clip(quotient(x, scale), -LARGEST, LARGEST), dtype="float8_e4m3fn", peers=PEERS),
    },
    entries=entries("quantize_fp8"),
    called=lambda x: "quantize_fp8_vec",
    budgets=EXACT,
    inputs=rows_of_all_sizes,
    shapes={"x": "rows cols", "scale": "rows", "q": "rows cols"},
    independent="rows",
    torch_native=native,
    triton="triton/quantize.py",
)
