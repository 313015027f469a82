"""Mutants that no check of answers can kill, each with the reason: a survivor that is not here is a gap in the gate.

One file a kernel. The keys of REASONS are the mutated file, the line before and after the change, without its comment,
and its number among equal lines. Most of these mutants only cost speed: the packed path and the element path of a
kernel write the same values, so only times show which of them an element takes. Mutants for which the compiler makes
the same machine code are not here: bench/mutation/gate.py finds them.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from mutation.equivalent.reasons import Reasons

_NAMES = sorted(path.stem for path in Path(__file__).parent.glob("*.py"))
EQUIVALENT: dict[str, Reasons] = {
    name: import_module(f"{__name__}.{name}").REASONS for name in _NAMES if name not in ("__init__", "reasons")
}
