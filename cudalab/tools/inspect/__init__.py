"""Why a kernel is as fast as it is, from its machine code; needs no profiler and no GPU."""

from cudalab.tools.inspect.finding import Inspected, Whole, wholes
from cudalab.tools.inspect.steps import chosen_entries, inspect

__all__ = ["Inspected", "Whole", "chosen_entries", "inspect", "wholes"]
