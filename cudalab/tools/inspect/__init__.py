"""Why a kernel is as fast as it is, from its machine code; needs no profiler and no GPU."""

from cudalab.tools.inspect.finding import Inspected
from cudalab.tools.inspect.steps import inspect

__all__ = ["Inspected", "inspect"]
