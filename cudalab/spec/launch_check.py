"""Whether a launch fits CUDA and the parameters that the `.cu` declares."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cudalab.spec.cuda_source import Parameter
from cudalab.spec.dtype import DTYPES, DType, dtype_of, of_c
from cudalab.spec.launch import Launch

STRUCT = (
    "a Launch carries arrays and numbers, no struct: let the kernel take its members as parameters of their own, such "
    "as float a, float b, or as a __constant__ array, which `constants` sets"
)
POINTERS = (
    "a Launch gives the address of an array, not an array of addresses: let the kernel take each array as a parameter "
    "of its own, or all in one array with the place of each"
)
HANDLES = (["cudaTextureObject_t"], ["cudaSurfaceObject_t"], ["CUtensorMap"])
NO_HANDLE = (
    "cudalab makes no textures, surfaces or tensor maps: let the kernel read an array, such as const float* x with "
    "__ldg(x + i), and clamp or interpolate in its code"
)
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
            f"a cluster of {shown} has {blocks} blocks; every GPU with clusters runs up to {PORTABLE_CLUSTER}, and "
            f"none more than {MAX_CLUSTER}"
        )
    if 0 not in grid and any(g % c for g, c in zip(grid, cluster, strict=True)):
        return f"the grid of {'x'.join(map(str, grid))} blocks is not a multiple of the cluster of {shown}"
    return ""


def wrong(
    launch: Launch, declared: Sequence[Parameter], arrays: Mapping[str, Any], written: Sequence[str], of_kernel: str
) -> str:
    """What is wrong with the arguments of a launch on `arrays`, as the end of a sentence about the entry; "" if none.

    It may be their number, an array for a value, another type, or what is `written` for a `const` pointer, as happens
    when two are swapped. `of_kernel`: an array of the kernel's dtype, which `scalar_t` is.
    """
    if len(launch.args) != len(declared):
        takes = ", ".join(parameter.text for parameter in declared)
        return f" takes {len(declared)} arguments, but its launch passes {len(launch.args)}; its signature is ({takes})"
    of_output = dtype_of(arrays[of_kernel]) if of_kernel in arrays else None
    for given, parameter in zip(launch.args, declared, strict=True):
        if not parameter.pointer and parameter.ctype.split()[-1:] in HANDLES:
            return f" wants {parameter.text!r}; {NO_HANDLE}"
        name = next((n for n, a in arrays.items() if a is given), "")
        kind = of_output if parameter.ctype == "scalar_t" and of_output else of_c(parameter.ctype)
        said = (
            _wrong_array(name, given, parameter, kind, name in written)
            if name
            else _wrong_number(given, parameter, kind)
        )
        if said:
            return said
        if name in written and parameter.constant:
            return f": the output {name!r} is passed as the read-only {parameter.text!r}; are two arguments swapped?"
    return ""


def _wrong_array(name: str, given: Any, parameter: Parameter, kind: DType | None, written: bool) -> str:
    if not parameter.pointer:
        return f" wants {parameter.text!r}, but its launch passes the array {name!r}"
    if parameter.to_pointers:
        return f" wants {parameter.text!r}, pointers to pointers, but its launch passes the array {name!r}; {POINTERS}"
    elements = str(given.dtype).removeprefix("torch.")
    if kind and elements != kind.name and not _same_bytes(DTYPES.get(elements), kind):
        own = (
            f'outputs={{"{name}": Out(dtype="{kind.name}")}}' if written else f'inputs={{"{name}": In("{kind.name}")}}'
        )
        return (
            f" wants {parameter.text!r}, but {name!r} has {elements} elements; give {own} for this array alone, or "
            f'dtypes=("{kind.name}",) for all'
        )
    return ""


def _same_bytes(given: DType | None, declared: DType) -> bool:
    """Whether kernels read the bits of one as the other: integers and bool of one width, and anything as unsigned."""
    if given is None or declared.floating or given.itemsize != declared.itemsize:
        return False
    return not given.floating or declared.numpy.kind == "u"


def _wrong_number(given: Any, parameter: Parameter, kind: DType | None) -> str:
    if parameter.pointer:
        return f" wants {parameter.text!r}, but its launch passes {_type_of(given)}; give one of its arrays as it is"
    if isinstance(given, np.void):
        return f" wants {parameter.text!r}, but its launch passes {_type_of(given)}; {STRUCT}"
    if not isinstance(given, np.generic):
        if kind is None:
            number = f"where {parameter.ctype} is a number, give a NumPy scalar of its size, such as np.float32(...)"
            return f" wants {parameter.text!r}, but its launch passes {_type_of(given)}; {number}; {STRUCT}"
        return f": give {parameter.text!r} as a NumPy scalar: np.{kind.numpy.name}(...)"
    if kind and not _fits(given, kind):
        return f" wants {parameter.text!r}, not {_type_of(given)}; give np.{kind.numpy.name}"
    return ""


def _whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and bool(value >= 0)


def _type_of(value: Any) -> str:
    """What a spec gives for a parameter, as a message names it: np.int64, int, a structured value."""
    if isinstance(value, np.void):
        return f"a structured value of {', '.join(value.dtype.names or ())}"
    return f"np.{value.dtype.name}" if isinstance(value, np.generic) else f"a value of type {type(value).__name__}"


def _fits(value: np.generic, declared: DType) -> bool:
    """Whether a parameter of the `declared` type reads the same number from these bytes."""
    return value.dtype.itemsize == declared.itemsize and (value.dtype.kind in "iub") != declared.floating
