"""What a kernel is: the record, its launches, dtypes and sizes, and how specs are found.

Specs of users take their names from `cudalab`; `from cudalab.spec import Kernel` still works.
"""

from cudalab.spec.kernel import (
    AT_ONCE,
    MAX_GRID_Y,
    Budget,
    Kernel,
    Launch,
    blocks,
    counted,
    deep_grid,
    draw,
    even_threads,
)

__all__ = [
    "AT_ONCE",
    "MAX_GRID_Y",
    "Budget",
    "Kernel",
    "Launch",
    "blocks",
    "counted",
    "deep_grid",
    "draw",
    "even_threads",
]
