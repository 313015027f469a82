"""Why a kernel is as fast as it is, from its machine code; needs no profiler and no GPU.

The names are imported on first use: what asks for a compiler needs none of the steps.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cudalab.tools.inspect.finding import Inspected, Whole, wholes
    from cudalab.tools.inspect.steps import chosen_entries, inspect

_HOMES = {
    **dict.fromkeys(("Inspected", "Whole", "wholes"), "cudalab.tools.inspect.finding"),
    **dict.fromkeys(("chosen_entries", "inspect"), "cudalab.tools.inspect.steps"),
}

__all__ = ["Inspected", "Whole", "chosen_entries", "inspect", "wholes"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
