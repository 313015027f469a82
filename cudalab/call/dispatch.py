"""What a first call does: check its arguments, then run on them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from cudalab.base.errors import InputError, SpecError
from cudalab.call import recorded
from cudalab.call.libraries import LIBRARIES, Done, NumpyArrays, Request, as_tuple, own_outputs
from cudalab.device.arrays import DeviceArray, Plain
from cudalab.spec.dtype import DTYPES, DType, dtype_of
from cudalab.spec.dtype import dtype as dtype_named
from cudalab.spec.kernel import Kernel

Scalars = Mapping[str, Any]  # of a call, by name: those that it gives
NONE: Scalars = MappingProxyType({})


def library_of(kernel: Kernel, arrays: tuple[Any, ...], out: Any = None) -> type[NumpyArrays]:
    """The library of all arrays. Raises InputError unless their number is right and they share a library and device."""
    names = kernel.input_names
    if len(arrays) != len(names):
        raise recorded.other_number(kernel.name, names, tuple(kernel.scalars), arrays)
    every = (*arrays, *as_tuple(out))
    roots = {type(a).__module__.partition(".")[0] for a in every}
    if len(roots) > 1 or not roots <= set(LIBRARIES):
        types = ", ".join(f"{type(a).__module__}.{type(a).__qualname__}" for a in every)
        raise InputError(f"{kernel.name} takes arrays of one library ({', '.join(LIBRARIES)}), got {types}")
    devices = {str(a.device) for a in every if hasattr(a, "device")}
    if len(devices) > 1:
        raise InputError(f"{kernel.name} takes arrays of one device, got {', '.join(sorted(devices))}")
    return LIBRARIES[roots.pop()]


def run(
    kernel: Kernel, library: type[NumpyArrays], arrays: tuple[Any, ...], out: Any = None, scalars: Scalars = NONE
) -> Done:  # fmt: skip
    """Check the rest and run on these arrays. No program is recorded, differentiated or transformed at this point."""
    plain = {name: library.plain(a) for name, a in zip(kernel.input_names, arrays, strict=True)}
    dtype = _check_inputs(kernel, plain)
    every = scalars_of_call(kernel, plain, scalars)
    if kernel.length_scalars:
        kernel.accepts_call({name: a.shape for name, a in plain.items()}, every)
    if out is not None:
        _check_outputs(kernel, plain, [library.plain(one) for one in as_tuple(out)], dtype, every)
    return library.run(Request(kernel, arrays, out, plain, dtype, every))


def scalars_of_call(kernel: Kernel, plain: Mapping[str, Any], given: Scalars) -> dict[str, Any]:
    """Every scalar, rounded to its dtype: those that are given, and the spec's. InputError for an unknown name."""
    for name in given:
        if name not in kernel.scalars:
            known = f"its scalars: {', '.join(kernel.scalars)}" if kernel.scalars else "it has no scalars"
            raise InputError(f"{kernel.name} takes no {name!r}; {known}")
    try:
        return kernel.scalars_of(plain, given)
    except SpecError as error:
        raise InputError(str(error).removeprefix(f"{kernel.file}: ")) if given else error from None


def _check_inputs(kernel: Kernel, plain: dict[str, Plain]) -> DType:
    """The dtype of the kernel. Raises InputError if it lacks it, or if dtypes or shapes do not fit together."""
    first = next(iter(plain.values()))
    dtype = dtype_of_call(kernel, plain)
    for name, array in plain.items():
        if kernel.pointwise and array.shape != first.shape:
            raise InputError(f"{name} is {_kind(array)}, the first array is {_kind(first)}; they must agree")
    for name, array in plain.items():
        _check_alignment(kernel, name, name, array)
        if name in kernel.in_place:
            _check_written(name, array, {n: other for n, other in plain.items() if n != name})
    kernel.accepts_call({name: a.shape for name, a in plain.items()})
    return dtype


def dtype_of_call(kernel: Kernel, plain: Mapping[str, Any]) -> DType:
    """The kernel's dtype at which the inputs of its spec have the dtypes of these arrays."""
    got = {name: dtype_of(array) for name, array in plain.items()}
    due = {
        name: {k: dtype_named(v.name) for k, v in kernel.input_kinds(DTYPES[name]).items()} for name in kernel.dtypes
    }
    for name, kinds in due.items():
        if kinds == got:
            return DTYPES[name]
    varying = [name for name in got if len({kinds[name] for kinds in due.values()}) > 1 or len(due) == 1]
    first = varying[0] if varying else next(iter(got))
    fitting = [name for name, kinds in due.items() if kinds[first] == got[first]]
    if not fitting:
        known = list(dict.fromkeys(kinds[first].name for kinds in due.values()))
        to = known[0] if len(known) == 1 else f"one of {', '.join(known)}"
        what = "" if first == next(iter(got)) else f" for {first}"
        raise InputError(f"{kernel.name} has no {got[first].name}{what}; convert to {to}")
    kinds = due[fitting[0]]
    wrong = next(name for name in got if kinds[name] != got[name])
    raise InputError(
        f"{wrong} is {_kind(plain[wrong])}, and must be {kinds[wrong].name} because {first} is {got[first].name}; "
        "convert it"
    )


def _check_outputs(
    kernel: Kernel, plain: dict[str, Plain], targets: list[Plain], dtype: DType, scalars: Scalars
) -> None:  # fmt: skip
    """Raise InputError if `out` does not fit. A pointwise kernel may write over an input; other overlaps are races."""
    names, shapes = own_outputs(kernel), {name: a.shape for name, a in plain.items()}
    if len(targets) != len(names):
        due = f"a tuple of {len(names)} arrays ({', '.join(names)})" if len(names) > 1 else f"{len(names)} array"
        raise InputError(f"out has {len(targets)} arrays; {kernel.name} takes {due}")
    for name, target in zip(names, targets, strict=True):
        kind, shape = kernel.kind_of(name, dtype), kernel.shape_of(name, shapes, scalars)
        what = "out" if len(names) == 1 else f"{name} of out"
        if target.shape != shape or dtype_of(target) != kind:
            raise InputError(f"{what} has {_kind(target)}, {kernel.name} gives {kind.name} {shape}")
        _check_alignment(kernel, what, name, target)
        others = {n: t for n, t in zip(names, targets, strict=True) if n != name}
        _check_written(what, target, plain | others, in_place=kernel.simple and kernel.pointwise)


def _check_written(what: str, target: Plain, others: dict[str, Plain], in_place: bool = False) -> None:
    """Raise InputError for an array that cannot be written, or shares memory with another of the call."""
    if isinstance(target, np.ndarray) and not target.flags.writeable:
        raise InputError(f"{what} is read-only; pass an array that can be written")
    start, stop = _span(target)
    for name, array in others.items():
        first, last = _span(array)
        apart = last <= start or stop <= first
        if not apart and not (in_place and (first, last) == (start, stop)):
            raise InputError(f"{what} overlaps {name!r} in memory; give it memory of its own")


def _check_alignment(kernel: Kernel, what: str, name: str, array: Plain) -> None:
    """Raise InputError for an array off the alignment that the spec asks for.

    On the CPU no more is asked for than its allocators give, 16 bytes. Where the spec asks for more, a call copies.
    """
    least, (start, _) = kernel.alignment(name), _span(array)
    if array.nbytes and start % min(least, 256 if isinstance(array, DeviceArray) else 16):
        raise InputError(
            f"{what} starts {start % least} bytes after a multiple of {least}, as a slice does, and {kernel.name} "
            f"takes arrays aligned to {least} bytes; pass a copy: x.clone() of a tensor, x.copy() of another array"
        )


def _span(array: Plain) -> tuple[int, int]:
    start = array.ptr if isinstance(array, DeviceArray) else array.ctypes.data
    return start, start + array.nbytes


def _kind(array: Plain) -> str:
    return f"{dtype_of(array).name} {tuple(array.shape)}"
