"""What `help(kernel)` says: how a kernel is called, and on which arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudalab.spec import find
from cudalab.spec.dtype import dtype
from cudalab.spec.kernel import Kernel, Shape

if TYPE_CHECKING:
    from cudalab.spec.inputs import Arrays


class Doc:
    """The `__doc__` of a class of kernels, and of each of its kernels its own."""

    def __init__(self, of_class: str) -> None:
        self.of_class = of_class

    def __get__(self, kernel: Kernel | None, owner: type) -> str:
        return self.of_class if kernel is None else described(kernel)


def described(kernel: Kernel) -> str:
    """The call, the summary, and the shapes and dtypes of inputs and output at the spec's first size."""
    label, shape = next(iter(kernel.sizes.items()))
    names, outputs = kernel.input_names, [name for name in kernel.outs if name not in kernel.in_place]
    arrays = _arrays(kernel, shape)
    rank = f"{kernel.rank} dimensions" if kernel.rank is not None else "any number of dimensions"
    facts = {name: f"{_times(array.shape)} {array.dtype.name}" for name, array in arrays.items()}
    if arrays:
        shapes = {name: array.shape for name, array in arrays.items()}
        for name in outputs:
            facts[name] = (
                f"{_times(kernel.shape_of(name, shapes))} {kernel.kind_of(name, dtype(kernel.dtypes[0])).name}"
            )
    for name in kernel.in_place:
        facts[name] = f"{facts.get(name, '')}, updated in place".removeprefix(", ")
    width = max(map(len, (*names, *outputs)))
    rows = [f"    {name:{width}}  {facts.get(name, '')}".rstrip() for name in (*names, *outputs)]
    scalars = [f"{name}={'...' if callable(one.value) else one.value}" for name, one in kernel.scalars.items()]
    taken = ", ".join([*names, *scalars, *(["out=None"] if outputs else [])])
    return "\n".join([
        f"{', '.join(kernel.outs)} = {kernel.name}({taken})",
        "",
        kernel.summary,
        "",
        f"Arrays at the size {label!r}, in {kernel.dtypes[0]} (a size of this kernel has {rank}):",
        *rows,
        "",
        f"dtypes:  {', '.join(kernel.dtypes)}",
        f"sizes:   {', '.join(f'{name} {_times(shape)}' for name, shape in kernel.sizes.items())}",
        *(f"dims:    {name} {text}" for name, text in kernel.dims.items()),
        f"entries: {', '.join(kernel.entries)}",
        "",
        _runs(kernel),
        "All arrays are of one library (NumPy, PyTorch, CuPy, PyCUDA), C-contiguous and on one device. `out` is the",
        "array for the result; without it a new one is made.",
    ])  # fmt: skip


def _runs(kernel: Kernel) -> str:
    """What runs on the CPU."""
    if find.of_lab(kernel) and (kernel.torch_native or kernel.torch) and not kernel.in_place:
        return "The .cu runs: on a GPU, and compiled by g++ for NumPy arrays. Tensors on the CPU get the torch form."
    return "The .cu runs: on a GPU, and compiled by g++ for NumPy arrays and for tensors of PyTorch on the CPU."


def _arrays(kernel: Kernel, shape: Shape) -> Arrays:
    """The inputs at a size; none where the spec cannot make them here."""
    try:
        return kernel.make(shape, dtype(kernel.dtypes[0]))
    except Exception:  # of the spec's author, or for want of memory
        return {}


def _times(shape: Shape) -> str:
    return " x ".join(map(str, shape)) or "scalar"
