"""What a spec says of an algorithm of CUB: `cub=("reduce", "sum")`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

OPERATORS = ("sum", "product", "min", "max")
TAKEN = {  # what follows the name of each algorithm
    "reduce": (OPERATORS,), "segmented_reduce": (OPERATORS,), "scan": (OPERATORS,), "exclusive_scan": (OPERATORS,),
    "sort": (), "sort_descending": (), "histogram": (float, float),
}  # fmt: skip
ADVICE = (
    "('reduce', OP), ('segmented_reduce', OP) of each row, ('scan', OP), ('exclusive_scan', OP) with OP one of "
    f"{', '.join(OPERATORS)}, ('sort',), ('sort_descending',), ('histogram', LOWER, UPPER), or None; CUB's top-k is "
    "not in cuda.compute"
)


def fits(value: Any) -> bool:
    """Whether a value names an algorithm, with what it takes."""
    if not isinstance(value, tuple) or not value or value[0] not in TAKEN:
        return False
    wanted = TAKEN[value[0]]
    return len(value) == 1 + len(wanted) and all(map(_fits, value[1:], wanted))


def _fits(given: Any, wanted: Any) -> bool:
    if wanted is float:
        return isinstance(given, (int, float)) and not isinstance(given, bool)
    return isinstance(given, str) and given in wanted


def unfit(inputs: Collection[str], outputs: Collection[str], in_place: Collection[str]) -> str:
    """Why no algorithm of CUB does what a kernel does, by its arrays; "" if one may."""
    if len(inputs) == len(outputs) == 1 and not in_place:
        return ""
    return f"is for one input and one output; this kernel has {', '.join(inputs)}, and writes {', '.join(outputs)}"


def accumulator(given: np.dtype, written: np.dtype) -> np.dtype:
    """The dtype in which an algorithm adds: that of the output or the input, whichever is wider, at least float32."""
    wide = [np.dtype(np.float32) if kind.kind == "V" or kind == np.float16 else kind for kind in (given, written)]
    return np.result_type(*wide)


def identity(operator: str, kind: np.dtype) -> Any:
    """What changes nothing under an operator."""
    if operator in ("sum", "product"):
        return int(operator == "product")
    lowest, largest = (-np.inf, np.inf) if kind.kind == "f" else (np.iinfo(kind).min, np.iinfo(kind).max)
    return lowest if operator == "max" else largest
