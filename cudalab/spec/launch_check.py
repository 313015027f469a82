"""Whether a launch fits CUDA and the parameters that the `.cu` declares."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cudalab.spec.cuda_source import Parameter
from cudalab.spec.dtype import C_DTYPES, DType, dtype_of
from cudalab.spec.launch import Launch

PORTABLE_CLUSTER, MAX_CLUSTER = 8, 16  # blocks: CUDA programming guide, "Thread Block Clusters"


def wrong_geometry(launch: Launch) -> str:
    """What is wrong with the grid, the block or the shared memory; "" if they can be launched."""
    for what, dims in (("grid", launch.grid), ("block", launch.block)):
        if not isinstance(dims, (tuple, list)):
            return f"{what} is {dims!r}; write ({dims!r},)"
        if not (1 <= len(dims) <= 3 and all(_whole(d) for d in dims)):
            return f"{what} is {dims}; give one to three whole numbers"
    if not _whole(launch.shared):
        return f"shared is {launch.shared!r}; give a whole number of bytes"
    if not isinstance(launch.cooperative, (bool, np.bool_)):
        return f"cooperative is {launch.cooperative!r}; give True or False"
    if launch.cluster is None:
        return ""
    if not (isinstance(launch.cluster, (tuple, list)) and 1 <= len(launch.cluster) <= 3):
        return f"cluster is {launch.cluster!r}; give one to three block counts, such as (2,), or None"
    return wrong_cluster(launch.dims[0], (*launch.cluster, 1, 1)[:3])


def wrong_cluster(grid: Sequence[int], cluster: Sequence[int]) -> str:
    """What is wrong with a cluster, both in three dimensions; "" if it can be launched."""
    shown = "x".join(map(str, cluster))
    if not all(_whole(d) and d for d in cluster):
        return f"cluster is {tuple(cluster)}; give whole numbers of 1 or more"
    if (blocks := math.prod(map(int, cluster))) > MAX_CLUSTER:
        return (
            f"a cluster of {shown} has {blocks} blocks; {PORTABLE_CLUSTER} run on every GPU that has clusters, and "
            f"{MAX_CLUSTER} are the most on any"
        )
    if 0 not in grid and any(g % c for g, c in zip(grid, cluster, strict=True)):
        return f"the grid of {'x'.join(map(str, grid))} blocks is no multiple of the cluster of {shown}"
    return ""


def wrong(
    launch: Launch, declared: Sequence[Parameter], arrays: Mapping[str, Any], written: Sequence[str], of_kernel: str
) -> str:
    """What is wrong with the arguments of a launch on `arrays`, as the end of a sentence about the entry; "" if none.

    It may be their number, an array for a value, another type, or what is `written` for a `const` pointer, as happens
    when two are swapped. `of_kernel`: an array of the kernel's dtype, which `scalar_t` is.
    """
    if len(launch.args) != len(declared):
        return f" takes {len(declared)} arguments, its launch gives {len(launch.args)}"
    of_output = dtype_of(arrays[of_kernel]) if of_kernel in arrays else None
    for given, parameter in zip(launch.args, declared, strict=True):
        name = next((n for n, a in arrays.items() if a is given), "")
        kind = of_output if parameter.ctype == "scalar_t" and of_output else C_DTYPES.get(parameter.ctype)
        said = _wrong_array(name, given, parameter, kind) if name else _wrong_number(given, parameter, kind)
        if said:
            return said
        if name in written and parameter.constant:
            return f": the output {name!r} is given for the read-only {parameter.text!r}; swapped?"
    return ""


def _wrong_array(name: str, given: Any, parameter: Parameter, kind: DType | None) -> str:
    if not parameter.pointer:
        return f" wants {parameter.text!r}, its launch gives the array {name!r}"
    elements = str(given.dtype).removeprefix("torch.")
    if kind and elements != kind.name and (elements, kind.name) != ("bool", "uint8"):
        return f" wants {parameter.text!r}, but {name!r} has {elements} elements"
    return ""


def _wrong_number(given: Any, parameter: Parameter, kind: DType | None) -> str:
    if parameter.pointer:
        return f" wants {parameter.text!r}, its launch gives a number ({_type_of(given)})"
    fitting = kind.numpy.name if kind else "int64"
    if not isinstance(given, np.generic):
        return f": give {parameter.text!r} as a NumPy scalar: np.{fitting}(...)"
    if kind and not _fits(given, kind):
        return f" wants {parameter.text!r}, not {_type_of(given)}; give np.{fitting}"
    return ""


def _whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and bool(value >= 0)


def _type_of(value: Any) -> str:
    """A number's type as a spec writes it: np.int64, int."""
    return f"np.{value.dtype.name}" if isinstance(value, np.generic) else type(value).__name__


def _fits(value: np.generic, declared: DType) -> bool:
    """Whether a parameter of the `declared` type reads the same number from these bytes."""
    return value.dtype.itemsize == declared.itemsize and (value.dtype.kind in "iub") != declared.floating
