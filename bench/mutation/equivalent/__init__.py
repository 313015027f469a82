"""Mutants that no check of answers can kill, each with the reason: what survives and is not here is a gap in the gate.

A file a kernel. Its REASONS are keyed by the mutant's line before and after, and by which of the lines like it that is.
Most give up speed and nothing else: the packed path and the element path of a kernel write the same values, so which of
them an element takes shows in times alone. Not here are those of which the compiler makes the same machine code, which
bench/mutation/gate.py sees by itself.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from mutation.equivalent.reasons import Reasons

_NAMES = sorted(path.stem for path in Path(__file__).parent.glob("*.py"))
EQUIVALENT: dict[str, Reasons] = {
    name: import_module(f"{__name__}.{name}").REASONS for name in _NAMES if name not in ("__init__", "reasons")
}
