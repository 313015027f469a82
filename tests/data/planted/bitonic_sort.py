"""Each row in rising order."""

import numpy as np
from rows import block_a_row

from cudalab import Budget, Kernel

bitonic_sort = Kernel(
    file=__file__, summary="each row in rising order", dtypes=("float32",), sizes={"small": (33, 200)},
    shapes={"x": "rows cols"},
    edges=((1, 1), (3, 31), (2, 256), (5, 255)), reference=lambda x: np.sort(x, axis=1),
    entries={"bitonic_sort": block_a_row(256)}, budgets={"float32": Budget(0, why="values are moved")},
)  # fmt: skip
