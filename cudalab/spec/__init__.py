"""What a kernel is: the record, its launches, inputs, dtypes and sizes, and how specs are found.

The names that a spec uses come from `cudalab`. Older specs import them from here: `from cudalab.spec import Kernel`.
`__getattr__` looks such a name up in `cudalab`, so that the kernels of these specs can be called too. Nothing in the
lab imports a name this way.
"""

from importlib import import_module
from typing import Any

_IN_CUDALAB = ("Budget", "Kernel", "Launch", "blocks", "counted", "counted_sides", "deep_grid", "draw")
_IN_LAUNCH = ("MAX_GRID_Y",)


def __getattr__(name: str) -> Any:
    if name in _IN_CUDALAB:
        return getattr(import_module("cudalab"), name)
    if name in _IN_LAUNCH:
        return getattr(import_module("cudalab.spec.launch"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_IN_CUDALAB, *_IN_LAUNCH})
