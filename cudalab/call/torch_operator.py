"""Kernels in PyTorch's machinery: operators `torch.ops.cudalab.NAME` for what records or transforms a program, and
gradients.

Plain tensors do not come here: they are launched at once. torch.compile, export, tensor subclasses and modes see an
operator, which is registered when it is first needed.
"""

from __future__ import annotations

import hashlib
import importlib
import re
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cudalab.base.errors import InputError, SpecError

if TYPE_CHECKING:
    from cudalab.spec.kernel import Kernel

NAMESPACE = "cudalab"
_operators: dict[str, Any] = {}  # by name; kept, since PyTorch holds them by weak references only
_lock = threading.RLock()


# ---- the operator ----------------------------------------------------------------------------------------------------


def operator(kernel: Kernel) -> Any:
    """The kernel's operator: `operator(gelu)` is `torch.ops.cudalab.gelu.default`. Registers it if need be."""
    import torch

    return getattr(getattr(torch.ops, NAMESPACE), kernel._calls.operator).default


def register(kernel: Kernel) -> str:
    """Register a new operator for the kernel and return its name.

    A kernel of the lab gives it its own name, another file has a digest of its place in it. A file that is loaded again
    is another kernel with another operator, since programs that were compiled with the first may still run.
    """
    import torch

    with _lock:
        name = _free_name(kernel)
        names = ", ".join(f"Tensor {n if n.isascii() else f'input{i}'}" for i, n in enumerate(kernel.input_names))
        made = torch.library.custom_op(
            f"{NAMESPACE}::{name}",
            lambda *inputs: _run(kernel, inputs),
            mutates_args=(),
            device_types=("cpu", "cuda"),
            schema=f"({names}) -> Tensor",
        )
        made.register_fake(lambda *inputs: _fake(kernel, inputs))
        if kernel.backward:
            made.register_autograd(_backward_of(kernel), setup_context=_save)
        _operators[name] = made
    return name


def _free_name(kernel: Kernel) -> str:
    folders = importlib.import_module("cudalab.kernels").__path__
    path = Path(kernel.file).resolve()
    stem = re.sub(r"\W", "_", kernel.name, flags=re.ASCII)
    if path.parent not in (Path(folder).resolve() for folder in folders):
        stem = f"{stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    stem = f"_{stem}" if stem[:1].isdigit() else stem
    again = (f"{stem}_{i}" for i in count(2))
    return next(name for name in chain([stem], again) if name not in _operators)


def _run(kernel: Kernel, inputs: tuple[Any, ...]) -> Any:
    """What the operator does: as the function, but with inputs of any strides, which a compiler may choose."""
    import torch

    with torch.no_grad():
        return kernel._calls.plainly(tuple(x.contiguous() for x in inputs))


def _fake(kernel: Kernel, inputs: tuple[Any, ...]) -> Any:
    """An output without elements, for shapes that may be symbols."""
    first = inputs[0]
    if (name := str(first.dtype).removeprefix("torch.")) not in kernel.dtypes:
        raise InputError(f"{kernel.name} has no {name}; convert to one of {', '.join(kernel.dtypes)}")
    shapes = dict(zip(kernel.input_names, (tuple(x.shape) for x in inputs), strict=True))
    return first.new_empty(kernel.output_shape(**shapes) if kernel.output_shape else first.shape)


# ---- gradients -------------------------------------------------------------------------------------------------------


def differentiable(kernel: Kernel, arrays: tuple[Any, ...], out: None = None) -> Any:
    """Run on plain tensors, with a gradient. In a program that nothing records this costs less than the operator."""
    return _function().apply(kernel, *arrays)


@cache
def _function() -> Any:
    import torch

    class Differentiable(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, kernel: Kernel, *inputs: Any) -> Any:
            ctx.kernel = kernel
            ctx.save_for_backward(*inputs)
            return kernel._calls.plainly(inputs)

        @staticmethod
        def backward(ctx: Any, dy: Any) -> Any:
            return None, *gradients(ctx.kernel, dy, ctx.saved_tensors, ctx.needs_input_grad[1:])

    return Differentiable


def _save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(*inputs)


def _backward_of(kernel: Kernel) -> Any:
    return lambda ctx, dy: gradients(kernel, dy, ctx.saved_tensors, ctx.needs_input_grad)


def gradients(kernel: Kernel, dy: Any, inputs: tuple[Any, ...], needed: tuple[bool, ...]) -> tuple[Any, ...]:
    """The gradient of each input, None where there is none, for the output's gradient `dy`."""
    import torch

    assert kernel.backward
    if torch.is_grad_enabled():
        return _with_gradients_of_their_own(kernel, dy, inputs, needed)
    found = kernel.backward(dy.resolve_neg().contiguous(), *(x.contiguous() for x in inputs))
    found = found if isinstance(found, tuple) else (found,)
    if len(found) != len(inputs):
        raise SpecError(
            f"{kernel.file}: backward gives {len(found)} gradients, not one for each of {len(inputs)} inputs"
        )
    return found


def _with_gradients_of_their_own(
    kernel: Kernel, dy: Any, inputs: tuple[Any, ...], needed: tuple[bool, ...]
) -> tuple[Any, ...]:
    """Of the torch form, since kernels have one derivative: for `create_graph=True`."""
    import torch

    form = kernel.torch_native or kernel.torch
    if form is None:
        raise InputError(f"{kernel.name} has no second derivative: its spec has no torch form; leave out create_graph")
    inputs = tuple(x.view_as(x) for x in inputs)  # apart: where one comes of another, autograd itself adds that path
    wanted = [x for x, need in zip(inputs, needed, strict=True) if need]
    with unchanged(dy):
        found = iter(torch.autograd.grad(form(*inputs), wanted, dy, create_graph=True, allow_unused=True))
    return tuple(next(found) if need else None for need in needed)


# ---- calls that are not plain ----------------------------------------------------------------------------------------


def call(kernel: Kernel, arrays: tuple[Any, ...], out: Any) -> Any:
    """A call for which `special` or `differentiates` holds.

    torch.func and forward-mode differentiation get the torch form, which PyTorch can transform.
    """
    from cudalab.call.dispatch import run
    from cudalab.call.libraries import TorchTensors

    every = arrays if out is None else (*arrays, out)
    form = kernel.torch_native or kernel.torch
    if transformed():
        if form is None:
            raise InputError(f"{kernel.name} has no torch form for torch.func and forward-mode differentiation")
        with unchanged(arrays[0]):
            result = form(*arrays)
        return result if out is None else out.copy_(result)
    if differentiates(every) and kernel.backward is None:
        raise InputError("this kernel does not differentiate; pass x.detach(), or call it in torch.no_grad()")
    if differentiates(every) and out is not None:
        raise InputError("what is written to out has no gradient; leave out away, or call it in torch.no_grad()")
    if special(every):
        result = operator(kernel)(*arrays)
        return result if out is None else out.copy_(result)
    if form and not TorchTensors.on_gpu(arrays[0]):
        return run(kernel, arrays)  # PyTorch differentiates that form itself
    return differentiable(kernel, arrays)


def unchanged(tensor: Any) -> AbstractContextManager[Any]:
    """Where a torch form gives the tensors' own dtype, as a kernel does: autocast does not reach inside."""
    import torch

    kind = tensor.device.type
    reached = kind in ("cpu", "cuda") and torch.is_autocast_enabled(kind)
    return torch.autocast(kind, enabled=False) if reached else nullcontext()


def differentiates(tensors: tuple[Any, ...]) -> bool:
    import torch

    return torch.is_grad_enabled() and any(getattr(x, "requires_grad", False) for x in tensors)


def special(tensors: tuple[Any, ...]) -> bool:
    """Whether more is to happen than a launch: a program is recorded or transformed, a subclass does as it likes."""
    import torch

    plain = torch.Tensor.__torch_dispatch__
    modes, tracing, _, _ = recording()
    recorded = modes() > 0 or tracing() or transformed()
    return recorded or any(getattr(type(x), "__torch_dispatch__", plain) is not plain for x in tensors)


def transformed() -> bool:
    """Whether torch.func or forward-mode differentiation is at work."""
    _, _, transforming, forward_ad = recording()
    return bool(transforming()) or forward_ad._current_level >= 0


def recording() -> tuple[Callable[[], int], Callable[[], bool], Callable[[], bool], Any]:
    """What says whether operators are recorded or changed, which a launch would pass by.

    The number of modes, whether the JIT traces, whether torch.func transforms, and the module whose `_current_level` is
    not negative in forward-mode differentiation: all quick to ask.
    """
    import torch
    from torch.autograd import forward_ad

    c = torch._C
    return c._len_torch_dispatch_stack, c._is_tracing, c._are_functorch_transforms_active, forward_ad
