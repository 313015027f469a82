"""The dtypes of a kernel's inputs, which may differ from that of its output."""

from __future__ import annotations

from cudalab.spec.dtype import DTYPES, DType
from cudalab.spec.kernel import Arrays, Kernel


def floating(kernel: Kernel, dtype: DType) -> tuple[DType, ...]:
    """The dtypes of the inputs, if hard values can take their places: if all are floating-point ones; else ()."""
    found = [DTYPES.get(kind.name) for kind in kernel.input_kinds(dtype).values()]
    return tuple(kind for kind in found if kind) if all(kind and kind.floating for kind in found) else ()


def not_floating(arrays: Arrays) -> list[str]:
    """Why hard values cannot take the places of these inputs: at most one reason."""
    if len(arrays) > 2:
        return ["they are for one input or two"]
    found = (name for name, a in arrays.items() if not (known := DTYPES.get(a.dtype.name)) or not known.floating)
    return [f"input {name!r} is {arrays[name].dtype}; let inputs= give its special values" for name in found][:1]
