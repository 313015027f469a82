"""Kernels in PyTorch's machinery: gradients, and operators `torch.ops.cudalab.NAME` for what records a program.

Plain tensors do not come here: they are launched at once. torch.compile, export, tensor subclasses and modes see an
operator, which is registered when it is first needed.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable
from functools import cache, cached_property
from itertools import chain, count
from pathlib import Path
from typing import Any

from cudalab.base.errors import InputError, SpecError
from cudalab.call.libraries import TorchTensors, without_autocast
from cudalab.spec import find
from cudalab.spec.kernel import Kernel

NAMESPACE = "cudalab"
_operators: dict[str, Any] = {}  # by name; kept, since PyTorch holds them by weak references only
_lock = threading.RLock()


class TorchOperator:
    """One kernel in PyTorch programs. `run` runs it on plain tensors and nothing more."""

    def __init__(self, kernel: Kernel, run: Callable[[tuple[Any, ...]], Any]) -> None:
        self.kernel, self.run = kernel, run

    @cached_property
    def name(self) -> str:
        """The operator's name in `torch.ops.cudalab`; registers it.

        A kernel of the lab gives it its own name; that of another file ends in a digest of its path. A file that is
        loaded again is another kernel with another operator, since programs compiled with the first may still run.
        """
        import torch

        kernel = self.kernel
        with _lock:
            name = _free_name(kernel)
            names = ", ".join(f"Tensor {n if n.isascii() else f'input{i}'}" for i, n in enumerate(kernel.input_names))
            made = torch.library.custom_op(
                f"{NAMESPACE}::{name}",
                lambda *inputs: self._run_strided(inputs),
                mutates_args=(),
                device_types=("cpu", "cuda"),
                schema=f"({names}) -> Tensor",
            )
            made.register_fake(lambda *inputs: _fake(kernel, inputs))
            if kernel.backward:
                made.register_autograd(
                    lambda ctx, dy: gradients(kernel, dy, ctx.saved_tensors, ctx.needs_input_grad),
                    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
                )
            _operators[name] = made
        return name

    @property
    def overload(self) -> Any:
        """The operator itself: for gelu `torch.ops.cudalab.gelu.default`."""
        import torch

        return getattr(getattr(torch.ops, NAMESPACE), self.name).default

    def _run_strided(self, inputs: tuple[Any, ...]) -> Any:
        """Run on inputs of any strides, which a compiler may choose."""
        import torch

        with torch.no_grad():
            return self.run(tuple(x.contiguous() for x in inputs))

    def differentiable(self, arrays: tuple[Any, ...]) -> Any:
        """Run on plain tensors, with a gradient. In a program that nothing records it costs less than the operator."""
        return _function().apply(self, *arrays)

    def call(self, arrays: tuple[Any, ...], out: Any) -> Any:
        """A call that `concerns` PyTorch. torch.func and forward-mode differentiation get the torch form."""
        kernel, every = self.kernel, arrays if out is None else (*arrays, out)
        form = kernel.torch_native or kernel.torch
        if transformed():
            if form is None:
                raise InputError(f"{kernel.name} has no torch form for torch.func and forward-mode differentiation")
            with without_autocast(arrays[0]):
                result = form(*arrays)
            return result if out is None else out.copy_(result)
        if differentiates(every) and kernel.backward is None:
            raise InputError("this kernel does not differentiate; pass x.detach(), or call it in torch.no_grad()")
        if differentiates(every) and out is not None:
            raise InputError("a result written to out has no gradient; call it without out, or in torch.no_grad()")
        if special(every):
            result = self.overload(*arrays)
            return result if out is None else out.copy_(result)
        if form and not TorchTensors.on_gpu(arrays[0]):
            return self.run(arrays)  # PyTorch itself differentiates the form
        return self.differentiable(arrays)


def operator(kernel: Any) -> Any:
    """The operator of a `cudalab.Kernel`: `operator(gelu)` is `torch.ops.cudalab.gelu.default`. Registers it."""
    return kernel._calls.operator.overload


def _free_name(kernel: Kernel) -> str:
    stem = re.sub(r"\W", "_", kernel.name, flags=re.ASCII)
    if not find.of_lab(kernel):
        path = Path(kernel.file).resolve()
        stem = f"{stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    stem = f"_{stem}" if stem[:1].isdigit() else stem
    again = (f"{stem}_{i}" for i in count(2))
    return next(name for name in chain([stem], again) if name not in _operators)


def _fake(kernel: Kernel, inputs: tuple[Any, ...]) -> Any:
    """An output without elements, for shapes that may be symbols."""
    first = inputs[0]
    if (name := str(first.dtype).removeprefix("torch.")) not in kernel.dtypes:
        raise InputError(f"{kernel.name} has no {name}; convert to one of {', '.join(kernel.dtypes)}")
    shapes = dict(zip(kernel.input_names, (tuple(x.shape) for x in inputs), strict=True))
    return first.new_empty(kernel.result_shape(shapes))


# ---- gradients -------------------------------------------------------------------------------------------------------


@cache
def _function() -> Any:
    import torch

    class Differentiable(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, operator: TorchOperator, *inputs: Any) -> Any:
            ctx.kernel = operator.kernel
            ctx.save_for_backward(*inputs)
            return operator.run(inputs)

        @staticmethod
        def backward(ctx: Any, dy: Any) -> Any:
            return None, *gradients(ctx.kernel, dy, ctx.saved_tensors, ctx.needs_input_grad[1:])

    return Differentiable


def gradients(kernel: Kernel, dy: Any, inputs: tuple[Any, ...], needed: tuple[bool, ...]) -> tuple[Any, ...]:
    """The gradient of each input, None where there is none, for the output's gradient `dy`."""
    import torch

    assert kernel.backward
    if torch.is_grad_enabled():
        return _differentiable_gradients(kernel, dy, inputs, needed)
    found = kernel.backward(dy.resolve_neg().contiguous(), *(x.contiguous() for x in inputs))
    found = found if isinstance(found, tuple) else (found,)
    if len(found) != len(inputs):
        raise SpecError(
            f"{kernel.file}: backward gives {len(found)} gradients, not one for each of {len(inputs)} inputs"
        )
    return found


def _differentiable_gradients(
    kernel: Kernel, dy: Any, inputs: tuple[Any, ...], needed: tuple[bool, ...]
) -> tuple[Any, ...]:
    """The gradients of the torch form, for `create_graph=True`: a kernel has a first derivative only."""
    import torch

    form = kernel.torch_native or kernel.torch
    if form is None:
        raise InputError(f"{kernel.name} has no second derivative: its spec has no torch form; leave out create_graph")
    inputs = tuple(x.view_as(x) for x in inputs)  # separate: if one depends on another, autograd adds that path
    wanted = [x for x, need in zip(inputs, needed, strict=True) if need]
    with without_autocast(dy):
        found = iter(torch.autograd.grad(form(*inputs), wanted, dy, create_graph=True, allow_unused=True))
    return tuple(next(found) if need else None for need in needed)


# ---- what PyTorch does around a call ---------------------------------------------------------------------------------


def concerns(tensors: tuple[Any, ...]) -> bool:
    """Whether PyTorch has to do more with a call than to launch it: record, transform or differentiate it."""
    return special(tensors) or differentiates(tensors)


def differentiates(tensors: tuple[Any, ...]) -> bool:
    import torch

    return torch.is_grad_enabled() and any(getattr(x, "requires_grad", False) for x in tensors)


def special(tensors: tuple[Any, ...]) -> bool:
    """Whether a program is recorded or transformed, or a subclass of tensors handles the call."""
    import torch

    plain = torch.Tensor.__torch_dispatch__
    modes, tracing, _, _ = recording()
    recorded = modes() > 0 or tracing() or transformed()
    return recorded or any(getattr(type(x), "__torch_dispatch__", plain) is not plain for x in tensors)


def transformed() -> bool:
    """Whether torch.func or forward-mode differentiation is active."""
    _, _, transforming, forward_ad = recording()
    return bool(transforming()) or forward_ad._current_level >= 0


def recording() -> tuple[Callable[[], int], Callable[[], bool], Callable[[], bool], Any]:
    """Quick tests of whether operators are recorded or changed, which a launch would not notice.

    They are functions for the number of modes, for whether the JIT traces, and for whether torch.func transforms; and
    the module whose `_current_level` is not negative in forward-mode differentiation.
    """
    import torch
    from torch.autograd import forward_ad

    c = torch._C
    return c._len_torch_dispatch_stack, c._is_tracing, c._are_functorch_transforms_active, forward_ad
