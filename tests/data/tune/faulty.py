"""A kernel whose configurations do not compile, crash, or cannot be launched; the default is right."""

import numpy as np

from cudalab import Budget, Kernel, Launch, blocks


def launch(x, y, HOW):
    threads = 4096 if HOW == 3 else 128  # more than a block can have
    return Launch((blocks(x.size, threads),), (threads,), (x, y, np.int32(x.size)))


faulty = Kernel(
    file=__file__,
    summary="y = 3 x",
    dtypes=("float32",),
    sizes={"small": (1 << 12,)},
    edges=((100,),),
    reference=lambda x: 3 * x,
    entries={"faulty": launch},
    budgets={"float32": Budget(0.5, why="one product")},
    tunables={"HOW": (0, 1, 2, 3, 4)},
    restrictions=lambda HOW: HOW != 4,
)
