"""Kernels in PyTorch's machinery: gradients, and operators `torch.ops.cudalab.NAME` for what records a program.

Plain tensors do not come here: they are launched at once. torch.compile, export, tensor subclasses and modes see an
operator, which is registered when it is first needed.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Mapping
from functools import cache, cached_property
from itertools import chain, count
from pathlib import Path
from typing import Any

from cudalab.base.errors import InputError, SpecError
from cudalab.call import recorded
from cudalab.call.dispatch import Scalars, dtype_of_call, scalars_of_call
from cudalab.call.libraries import TorchTensors, as_tuple, form_of, form_on_cpu, without_autocast
from cudalab.spec import find
from cudalab.spec.dtype import DTYPES
from cudalab.spec.kernel import Kernel
from cudalab.spec.reference import plain
from cudalab.spec.validate import called_with

NAMESPACE = "cudalab"
_operators: dict[str, Any] = {}  # by name; kept, since PyTorch holds them by weak references only
_lock = threading.RLock()


class TorchOperator:
    """One kernel in PyTorch programs. `run` runs it on plain tensors and nothing more."""

    def __init__(self, kernel: Kernel, run: Callable[[tuple[Any, ...], Scalars], Any]) -> None:
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
            made = torch.library.custom_op(
                f"{NAMESPACE}::{name}",
                lambda *given: self._run_strided(*_parted(kernel, given)),
                mutates_args=[_ascii(n, i) for i, n in enumerate(kernel.input_names) if n in kernel.in_place],
                device_types=("cpu", "cuda"),
                schema=_schema(kernel),
            )
            made.register_fake(lambda *given: _fake(kernel, *_parted(kernel, given)))
            if kernel.backward:
                made.register_autograd(
                    lambda ctx, *dys: (*gradients(ctx, dys, ctx.needs_input_grad), *(None for _ in kernel.scalars)),
                    setup_context=lambda ctx, inputs, output: keep(ctx, kernel, *_parted(kernel, inputs), output),
                )
            _operators[name] = made
        return name

    @cached_property
    def layout(self) -> recorded.Layout:
        """How the operator is called."""
        names = self.kernel.input_names
        places = tuple(names.index(n) if n in self.kernel.in_place else -1 for n in self.kernel.outs)
        return self.name, names, tuple(self.kernel.scalars), places

    @property
    def overload(self) -> Any:
        """Return the operator itself: for gelu `torch.ops.cudalab.gelu.default`."""
        import torch

        return getattr(getattr(torch.ops, NAMESPACE), self.name).default

    def _run_strided(self, inputs: tuple[Any, ...], scalars: Scalars) -> Any:
        """Run on inputs of any strides, which a compiler may choose; returns the new arrays."""
        import torch

        kernel, packed = self.kernel, tuple(x.contiguous() for x in inputs)
        with torch.no_grad():
            results = as_tuple(self.run(packed, scalars))
            for name, given, used in zip(kernel.input_names, inputs, packed, strict=True):
                if name in kernel.in_place and used is not given:
                    given.copy_(used)
        new = tuple(one for name, one in zip(kernel.outs, results, strict=True) if name not in kernel.in_place)
        return new[0] if len(new) == 1 else new or None

    def differentiable(self, arrays: tuple[Any, ...], scalars: Scalars) -> Any:
        """Run on plain tensors, with a gradient. In a program that nothing records it costs less than the operator."""
        return _function().apply(self, scalars, *arrays)

    def call(self, arrays: tuple[Any, ...], out: Any, scalars: Scalars) -> Any:
        """A call that `concerns` PyTorch. torch.func and forward-mode differentiation get the torch form."""
        kernel, every = self.kernel, (*arrays, *as_tuple(out))
        if transformed():
            if not (form := form_of(kernel)):
                raise InputError(
                    f"{kernel.name} cannot be used with torch.func and forward-mode differentiation: "
                    "its spec has no torch="
                )
            numbers = plain(scalars_of_call(kernel, dict(zip(kernel.input_names, arrays, strict=True)), scalars))
            with without_autocast(arrays[0]):
                result = form(*arrays, **numbers)
            for target, one in zip(as_tuple(out), as_tuple(result), strict=False):
                target.copy_(one)
            return result if out is None else out
        if differentiates(every) and kernel.backward is None:
            raise InputError("this kernel is not differentiable; pass x.detach(), or call it under torch.no_grad()")
        if differentiates(every) and out is not None:
            raise InputError("a result written to out has no gradient; call it without out, or under torch.no_grad()")
        if special(every):
            return recorded.call(self.layout, arrays, out, scalars)
        if form_on_cpu(kernel) and not TorchTensors.on_gpu(arrays[0]):
            return self.run(arrays, scalars)  # PyTorch itself differentiates the form
        return self.differentiable(arrays, scalars)


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


SCALAR = {"b": "bool", "i": "int", "u": "int", "f": "float", "c": "complex"}  # by the kind of a NumPy dtype


def _ascii(name: str, place: int) -> str:
    """The name of an operator's parameter."""
    return name if name.isascii() else f"input{place}"


def _schema(kernel: Kernel) -> str:
    """The operator's parameters and results: tensors, then scalars, of which None is the spec's value."""
    written = {name: f"({letter}!)" for name, letter in zip(kernel.in_place, map(chr, count(ord("a"))), strict=False)}
    tensors = [f"Tensor{written.get(name, '')} {_ascii(name, i)}" for i, name in enumerate(kernel.input_names)]
    numbers = [
        f"{SCALAR.get(DTYPES[one.dtype].numpy.kind, 'float')}? {_ascii(name, i)}=None"
        for i, (name, one) in enumerate(kernel.scalars.items(), len(tensors))
    ]
    new = ["Tensor"] * sum(name not in kernel.in_place for name in kernel.outs)
    return f"({', '.join([*tensors, *numbers])}) -> {new[0] if len(new) == 1 else '(' + ', '.join(new) + ')'}"


def _parted(kernel: Kernel, given: tuple[Any, ...]) -> tuple[tuple[Any, ...], Scalars]:
    """An operator's arguments: its tensors, and those scalars that are given."""
    count = len(kernel.input_names)
    numbers = zip(kernel.scalars, given[count:], strict=False)
    return given[:count], {name: value for name, value in numbers if value is not None}


def _fake(kernel: Kernel, inputs: tuple[Any, ...], scalars: Scalars) -> Any:
    """The new arrays without elements, for shapes that may be symbols."""
    import torch

    named = dict(zip(kernel.input_names, inputs, strict=True))
    kind, shapes = dtype_of_call(kernel, named), {name: tuple(x.shape) for name, x in named.items()}
    new = tuple(
        inputs[0].new_empty(
            kernel.shape_of(name, shapes, scalars), dtype=getattr(torch, kernel.kind_of(name, kind).name)
        )
        for name in kernel.outs if name not in kernel.in_place
    )  # fmt: skip
    return new[0] if len(new) == 1 else new or None


# ---- gradients -------------------------------------------------------------------------------------------------------


@cache
def _function() -> Any:
    import torch

    class Differentiable(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, operator: TorchOperator, scalars: Scalars, *inputs: Any) -> Any:
            results = operator.run(inputs, scalars)
            keep(ctx, operator.kernel, inputs, scalars, results)
            return results

        @staticmethod
        def backward(ctx: Any, *dys: Any) -> Any:
            return None, None, *gradients(ctx, dys, ctx.needs_input_grad[2:])

    return Differentiable


def keep(ctx: Any, kernel: Kernel, inputs: tuple[Any, ...], scalars: Scalars, results: Any) -> None:
    """Keep what the kernel's `backward` takes by name, and no other array."""
    arrays = dict(zip(kernel.input_names, inputs, strict=True))
    ctx.kernel, ctx.numbers = kernel, plain(scalars_of_call(kernel, arrays, scalars)) if kernel.scalars else {}
    arrays |= zip(kernel.outs, as_tuple(results), strict=True)
    ctx.kept = tuple(name for name in kernel.backward_names if name in arrays)
    ctx.save_for_backward(*(arrays[name] for name in ctx.kept))


def gradients(ctx: Any, dys: tuple[Any, ...], needed: tuple[bool, ...]) -> tuple[Any, ...]:
    """The gradient of each input, None where there is none, for `dys`, the gradient of each output."""
    import torch

    kernel, arrays = ctx.kernel, dict(zip(ctx.kept, ctx.saved_tensors, strict=True))
    needed = needed[: len(kernel.input_names)]
    if torch.is_grad_enabled():
        return _differentiable_gradients(kernel, dys, arrays, ctx.numbers, needed)
    due = {name: dy.resolve_neg().contiguous() for name, dy in zip(kernel.gradient_names, dys, strict=True)}
    found = called_with(kernel.backward, {**ctx.numbers, **{n: x.contiguous() for n, x in arrays.items()}, **due})
    found = found if isinstance(found, tuple) else (found,)
    if len(found) != len(kernel.input_names):
        raise SpecError(
            f"{kernel.file}: backward returns {len(found)} gradients, expected one for each of "
            f"{len(kernel.input_names)} inputs"
        )
    return found


def _differentiable_gradients(
    kernel: Kernel, dys: tuple[Any, ...], arrays: Mapping[str, Any], numbers: Scalars, needed: tuple[bool, ...]
) -> tuple[Any, ...]:
    """The gradients of the torch form, for `create_graph=True`: a kernel has a first derivative only."""
    import torch

    form = kernel.torch_native or kernel.torch
    if form is None:
        raise InputError(f"{kernel.name} has no second derivative: its spec has no torch=; leave out create_graph")
    if lacking := [name for name in kernel.input_names if name not in arrays]:
        raise InputError(
            f"{kernel.name} has no second derivative: its backward does not take {lacking[0]}, so that input is "
            "not saved; leave out create_graph"
        )
    # Separate views: if one input depends on another, autograd adds that path.
    inputs = tuple(arrays[name].view_as(arrays[name]) for name in kernel.input_names)
    wanted = [x for x, need in zip(inputs, needed, strict=True) if need]
    with without_autocast(dys[0]):
        pairs = zip(as_tuple(form(*inputs, **numbers)), dys, strict=True)
        results, due = zip(*((y, dy) for y, dy in pairs if y.requires_grad), strict=True)
        found = iter(torch.autograd.grad(results, wanted, due, create_graph=True, allow_unused=True))
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
