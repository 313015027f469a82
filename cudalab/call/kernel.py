"""Kernels as functions: `from cudalab.kernels.gelu import gelu; y = gelu(x)`.

A call goes down: `Kernel.__call__`, `fast_path` (calls like an earlier one), `dispatch` (the checks of a first call),
`libraries` (how each library's arrays are made and run on), and below them `device.driver`, which launches.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from cudalab.base.errors import SpecError
from cudalab.call import describe, recorded
from cudalab.spec import find
from cudalab.spec import kernel as spec

if TYPE_CHECKING:
    from cudalab.call.fast_path import Calls


def _compiled_by_torch(arrays: tuple[Any, ...]) -> bool:
    """Whether torch.compile reads the program. Where this function runs, it does not."""
    return False


def _read_by_torch(arrays: tuple[Any, ...]) -> bool:
    import torch

    return len(arrays) > 0 and isinstance(arrays[0], torch.Tensor)


# torch.compile reads this function instead. A call itself asks nothing of torch, which may not be imported.
_compiled_by_torch._torchdynamo_inline = _read_by_torch  # type: ignore[attr-defined]


class Kernel(spec.Kernel):
    # `help(kernel)` of one kernel describes that kernel.
    __doc__ = describe.Doc(f"""A kernel as a function on arrays: `y = kernel(x)`, or `kernel(x, out=y)`.

On arrays of PyTorch, CuPy and PyCUDA it runs on their GPU; on NumPy arrays and on tensors of PyTorch on the CPU it
runs on the CPU, compiled by g++. The lab's own kernels run the torch form of their spec on such tensors.
torch.compile treats it as one operator.

{spec.Kernel.__doc__}""")

    def __repr__(self) -> str:
        return f"<kernel {self.name}({', '.join(self.input_names)}): {self.summary}>"

    def __call__(self, *arrays: Any, out: Any = None, **scalars: Any) -> Any:
        """Run on arrays of one library, in the order of the reference's parameters; returns `out`, or a new array.

        Scalars are given by name, such as `eps=1e-6`; those of the spec apply otherwise. Of several outputs it returns
        a tuple, in which what is updated in place is the input itself; `out` is a tuple of the others.
        The entry is the one that `called` names, or the last. All arrays are of one dtype that the kernel has,
        C-contiguous, and on one device; nothing is copied. The work is ordered on the caller's current stream (torch's
        or CuPy's; the default stream for PyCUDA) and not waited for; on the CPU it is done when the call returns.
        Tensors that require a gradient get one if the spec has `backward`. Raises InputError for arguments that do not
        fit, before anything is launched.
        """
        if _compiled_by_torch(arrays):
            return recorded.call(self._operator(), arrays, out, scalars)
        if scalars or not self.simple:
            return self._calls.of_several(arrays, out, scalars)
        return self._calls[type(arrays[0]) if arrays else type(None)](arrays, out)

    @cached_property
    def _calls(self) -> Calls:
        from cudalab.call.fast_path import Calls  # here, so that a spec can be read without the modules of a call

        return Calls(self)

    def _operator(self) -> recorded.Layout:
        """How the kernel's operator in `torch.ops.cudalab` is called; registers it if need be."""
        return self._calls.operator.layout

    # What torch.compiler.assume_constant_result sets: torch.compile calls it, once, and does not look inside.
    _operator._dynamo_marked_constant = True  # type: ignore[attr-defined]

    def __deepcopy__(self, memo: dict[int, Any]) -> Kernel:
        return self  # it is immutable; a copied model may hold it


def by_name(name: str) -> Kernel:
    """A kernel that can be called, by its name in the lab or the path of its spec."""
    found = find.kernel(name)
    if not isinstance(found, Kernel):
        raise SpecError(f"{found.file}: {found.name} cannot be called; write `from cudalab import Kernel`")
    return found
