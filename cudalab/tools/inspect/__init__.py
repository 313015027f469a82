"""Why a kernel is as fast as it is, from its machine code: no profiler and no GPU are needed."""

from cudalab.tools.inspect.inspected import Inspected, inspect

__all__ = ["Inspected", "inspect"]
