"""Loops for the tests of `cudalab inspect`; only their machine code matters."""

import numpy as np

from cudalab import Budget, Kernel, Launch


def launch(x, y):
    return Launch((16,), (256,), (x, y, np.int32(x.size)))


loops = Kernel(
    file=__file__,
    summary="loops by the launch, by data, and by both",
    dtypes=("int32",),
    sizes={"small": (1 << 14,)},
    edges=((1,),),
    inputs=lambda shape, dtype, rng: {"x": rng.integers(0, 255, shape, np.uint8, endpoint=True)},
    reference=lambda x: np.bincount(x, minlength=256),
    shapes={"x": "n", "y": "256"},
    entries=dict.fromkeys(("histogram", "swap_until_kept", "until_zero"), launch),
    budgets={"int32": Budget(0)},
)
