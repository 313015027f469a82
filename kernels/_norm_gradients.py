"""What the gradients of the norms share: how the rows are divided among teams of threads, and inputs."""

from __future__ import annotations

import numpy as np

from cudalab import Launch, blocks, counted, draw
from cudalab.kernels._rows import teams

HELD = 8  # elements of each of the two matrices that a thread keeps in registers
SQUARE = (32, 32)  # threads of a block that adds columns


def by_rows(arrays, shape, eps):
    """The launch that goes through the rows of a matrix with teams of threads; `arrays` end with the partial sums."""
    rows, cols = shape
    grid, together, threads = teams(rows, cols, HELD)
    arguments = *arrays, np.int64(rows), counted(cols, np.int32), eps
    return Launch((grid,), (threads, together), arguments)


def by_columns(arrays, rows, cols, entry, sums=1):
    """The launch that adds `rows` rows of each column; `sums`: how many vectors result."""
    return Launch((blocks(cols, 32), sums), SQUARE, (*arrays, rows, counted(cols, np.int32)), entry=entry)


def partial_rows(shape):
    """Rows of the matrix of partial sums of columns, one for each team."""
    grid, together, _ = teams(*shape, HELD)
    return grid * together


def gradient_matrix_row(shape, dtype, rng, small):
    """A gradient, a matrix and a row, standard normal, except one row of the matrix, which is `small` times that."""
    dy, x = draw(shape, dtype, rng), draw(shape, dtype, rng)
    x[1:2] *= small
    return dy, x, draw(shape[1:], dtype, rng)
