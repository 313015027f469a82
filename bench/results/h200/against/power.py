"""y = 2 x + 1, with entries that bench/power.py makes slower."""

import numpy as np

from cudalab import Budget, Kernel, Launch, blocks


def packed(x, y):
    return Launch((blocks(x.size, 1024),), (256,), (x, y, np.int32(x.size)))


def scalar(x, y):
    return Launch((blocks(x.size, 256),), (256,), (x, y, np.int32(x.size)))


power = Kernel(
    file=__file__,
    summary="y = 2 x + 1",
    dtypes=("float32",),
    edges=((4,),),
    sizes={name: (n,) for name, n in {"large": 4816896, "xlarge": 154140672}.items()},
    reference=lambda x: 2 * x + 1,
    budgets=Budget(1),
    entries={"even": packed, "even_scalar": scalar, **dict.fromkeys(("one_percent", "three_percent"), packed)},
)
