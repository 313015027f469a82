from dataclasses import replace

import numpy as np

from cudalab import Budget, Kernel, Launch


def go(x, y):
    return Launch((-(-x.size // 64),), (64,), (x, y, np.int32(x.size)))


def dynamic(x, y):
    return replace(go(x, y), shared=256)


planted = Kernel(
    file=__file__,
    summary="2 x, once right and then with a bug each that the result does not show",
    dtypes=("float32",),
    sizes={"small": (1000,)},
    edges=((65,),),
    reference=lambda x: 2 * x,
    entries={
        "right": go,
        "reads_past": go,
        "shared_past": go,
        "dynamic_past": dynamic,
        "overflows": go,
        "races": go,
        "reads_unwritten": go,
        "diverges": go,
    },
    budgets={"float32": Budget(0.5)},
)
