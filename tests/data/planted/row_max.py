"""The largest value of each row."""

from rows import planted, warp_a_row

row_max = planted(
    __file__, __doc__, warp_a_row(4), lambda x: x.max(axis=1), shapes={"x": "rows cols", "y": "rows"}, nans="ignored",
)  # fmt: skip
