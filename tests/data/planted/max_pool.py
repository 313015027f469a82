"""The largest value of each 3 by 3 window of an image, two apart."""

import numpy as np
from rows import planted

from cudalab import Launch, blocks


def reference(x):
    p = np.pad(x, ((0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(p, (3, 3), axis=(1, 2))[:, ::2, ::2]
    return windows.max(axis=(3, 4))


def launch(x, y):
    images, rows, cols = x.shape
    _, out_rows, out_cols = y.shape
    grid = blocks(out_cols, 32), blocks(out_rows, 8), images
    return Launch(grid, (32, 8), (x, y, *map(np.int32, (rows, cols, out_rows, out_cols))))


max_pool = planted(
    __file__, __doc__, launch, reference, small=(2, 100, 130), edges=((1, 1, 1), (2, 3, 31), (3, 8, 32), (2, 17, 33)),
    shapes={"x": "images rows cols", "y": "images (rows+1)//2 (cols+1)//2"},
)  # fmt: skip
