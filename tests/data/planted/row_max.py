"""The largest value of each row."""

from rows import EDGES, SIZES, warp_a_row

from cudalab import Budget, Kernel

row_max = Kernel(
    file=__file__, summary="the largest value of each row", dtypes=("float32",), sizes=SIZES, edges=EDGES,
    shapes={"x": "rows cols", "y": "rows"},
    reference=lambda x: x.max(axis=1), entries={"row_max": warp_a_row(4)},
    budgets={"float32": Budget(0, why="a value is moved")}, nans="ignored",
)  # fmt: skip
