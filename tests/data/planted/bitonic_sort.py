"""Each row in rising order."""

import numpy as np
from rows import block_a_row, planted

bitonic_sort = planted(
    __file__, __doc__, block_a_row(256), lambda x: np.sort(x, axis=1), small=(33, 200),
    edges=((1, 1), (3, 31), (2, 256), (5, 255)),
)  # fmt: skip
