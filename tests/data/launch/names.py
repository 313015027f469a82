"""Entries with names of C++: templates, namespaces, an overload, functions that a macro makes."""

import numpy as np

from cudalab import Budget, Kernel, Launch


def launch(x, y):
    n = x.size
    return Launch(grid=(-(-n // 128),), block=(128,), args=(y, x, np.int32(n)))


NAMES = (
    "scale<2, float>", "scale<(1 < 2) + 1>", "ns::inner::twice", "ns::times<>", "ns::times<2>",
    "add(float*, const float*, int)", "scale_2", "times_2", "plain",
)  # fmt: skip

names = Kernel(
    file=__file__,
    summary="twice x",
    dtypes=("float32",),
    sizes={"small": (1000,)},
    edges=((1,), (129,)),
    reference=lambda x: 2 * x,
    output="y",
    entries=dict.fromkeys(NAMES, launch),
    budgets={"float32": Budget(0, why="a product with 2 is exact")},
)
