"""What a kernel is: the record, its launches, dtypes and sizes, and how specs are found.

Specs of users take their names from `cudalab`; `from cudalab.spec import Kernel` still works.
"""

from cudalab.spec.kernel import (
    MAX_GRID_Y,
    Budget,
    Kernel,
    Launch,
    blocks,
    counted,
    counted_sides,
    deep_grid,
    draw,
)

__all__ = [
    "MAX_GRID_Y",
    "Budget",
    "Kernel",
    "Launch",
    "blocks",
    "counted",
    "counted_sides",
    "deep_grid",
    "draw",
]
