"""The dtypes of `scalar_t` in host code: what PyTorch's AT_DISPATCH macros around a launch choose from."""

from __future__ import annotations

import re
from itertools import islice

from cudalab.spec.comments import blank_comments
from cudalab.spec.dtype import DTYPES

_FLOATS, _WHOLE = ("float32", "float64"), ("uint8", "int8", "int16", "int32", "int64")
_SETS = {  # without complex types: c10::complex is no type of CUDA
    "FLOATING_TYPES": _FLOATS, "REDUCED_FLOATING_TYPES": ("float16", "bfloat16"), "FLOATING_AND_COMPLEX_TYPES": _FLOATS,
    "INTEGRAL_TYPES": _WHOLE, "ALL_TYPES_AND_COMPLEX": (*_FLOATS, *_WHOLE), "ALL_TYPES": (*_FLOATS, *_WHOLE),
}  # fmt: skip
_NAMES = {
    "Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16", "Byte": "uint8", "Char": "int8",
    "Short": "int16", "Int": "int32", "Long": "int64", "Float32": "float32", "Float64": "float64", "Float16": "float16",
    "Float8_e4m3fn": "float8_e4m3fn", "Float8_e5m2": "float8_e5m2",
}  # fmt: skip
_MACRO = re.compile(rf"\bAT_DISPATCH_(?:V2|CASE|(?:CASE_)?({'|'.join(_SETS)})((?:_AND|_HALF|_BFLOAT16|\d)*))\s*\(")
_NAMED = re.compile(rf"\b(?:ScalarType\s*::\s*|k)({'|'.join(_NAMES)})\b|\bAT_EXPAND\s*\(\s*AT_({'|'.join(_SETS)})\s*\)")
_LAUNCH = re.compile(r"\b([A-Za-z_]\w*)\s*(?:<(?!<)[^;{}<]{0,200}>\s*)?<<<")
MOST = 100  # macros that are read
LONGEST = 20_000  # characters of one


def by_kernel(text: str) -> dict[str, tuple[str, ...]]:
    """The names of dtypes for which each kernel is launched, by the last part of its name, in the order of DTYPES.

    A launch belongs to the macro or case around it; one in two macros chooses more than one type, and is left out. One
    of scalar_t elsewhere is in a function that a macro may call: it has those of all macros.
    """
    code = blank_comments(text)
    macros = [(found, *_chosen(code, found)) for found in islice(_MACRO.finditer(code), MOST)]
    everything = {name for _, _, names in macros for name in names}
    found = dict[str, set[str]]()
    for launch in islice(_LAUNCH.finditer(code), MOST) if macros else ():
        around = [(macro[0], names) for macro, end, names in macros if macro.start() < launch.start() < end]
        if len(around) == 1 or (around and "_CASE" in around[-1][0]):
            found.setdefault(launch[1], set()).update(around[-1][1])
        elif not around and "scalar_t" in code[launch.start() :].partition(";")[0]:
            found.setdefault(launch[1], set()).update(everything)
    return {kernel: tuple(name for name in DTYPES if name in names) for kernel, names in found.items()}


def types(text: str) -> str:
    """The C++ types of those dtypes, such as `float __half`."""
    return " ".join(DTYPES[name].macro for names in by_kernel(text).values() for name in names)


def _chosen(code: str, macro: re.Match[str]) -> tuple[int, set[str]]:
    """Where the call of a macro ends, and the dtypes that it chooses from."""
    depth, end = 0, macro.end()
    for bracket in re.compile("[()]").finditer(code, macro.end() - 1, macro.end() + LONGEST):
        depth += 1 if bracket[0] == "(" else -1
        end = bracket.end()
        if not depth:
            break
    inside = code[macro.end() : end]
    given = inside.partition("{")[0] + inside.rpartition("}")[2]  # without the function
    names = {*_SETS.get(macro[1] or "", ()), *(_NAMES[one[1]] for one in _NAMED.finditer(given) if one[1])}
    names |= {name for one in _NAMED.finditer(given) if one[2] for name in _SETS[one[2]]}
    names |= {dtype for word, dtype in (("HALF", "float16"), ("BFLOAT16", "bfloat16")) if word in (macro[2] or "")}
    return end, names
