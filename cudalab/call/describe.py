"""What `help(kernel)` says: how a kernel is called, and on which arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    names, output = kernel.input_names, kernel.output
    arrays = _arrays(kernel, shape)
    rank = f"{kernel.rank} dimensions" if kernel.rank is not None else "any number of dimensions"
    facts = {name: f"{_times(array.shape)} {array.dtype.name}" for name, array in arrays.items()}
    if arrays:
        result = kernel.result_shape({name: array.shape for name, array in arrays.items()})
        facts[output] = f"{_times(result)} {kernel.dtypes[0]}"
    width = max(map(len, (*names, output)))
    rows = [f"    {name:{width}}  {facts.get(name, '')}".rstrip() for name in (*names, output)]
    return "\n".join([
        f"{output} = {kernel.name}({', '.join(names)}, out=None)",
        "",
        kernel.summary,
        "",
        f"Arrays at the size {label!r} (a size has {rank}), in {kernel.dtypes[0]}:",
        *rows,
        "",
        f"dtypes:  {', '.join(kernel.dtypes)}",
        f"sizes:   {', '.join(f'{name} {_times(shape)}' for name, shape in kernel.sizes.items())}",
        f"entries: {', '.join(kernel.entries)}",
        "",
        "All arrays are of one library (NumPy, PyTorch, CuPy, PyCUDA), C-contiguous and on one device. `out` is the",
        "array for the result; without it a new one is made.",
    ])  # fmt: skip


def _arrays(kernel: Kernel, shape: Shape) -> Arrays:
    """The inputs at a size; none where the spec cannot make them here."""
    try:
        return kernel.make(shape, dtype(kernel.dtypes[0]))
    except Exception:  # of the spec's author, or for want of memory
        return {}


def _times(shape: Shape) -> str:
    return " x ".join(map(str, shape)) or "scalar"
