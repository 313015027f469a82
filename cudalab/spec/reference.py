"""What a spec's references make of inputs and scalars: every output by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cudalab.base.errors import SpecError, short
from cudalab.spec.kernel import Kernel
from cudalab.spec.validate import called_with


def judged(kernel: Kernel) -> tuple[str, ...]:
    """The outputs that a reference decides; a property of its own decides the others."""
    return tuple(name for name, out in kernel.outs.items() if not out.check)


def shared(kernel: Kernel) -> tuple[str, ...]:
    """The outputs that the kernel's `reference` gives, in the order of its items."""
    return tuple(name for name in judged(kernel) if not kernel.outs[name].reference)


def on_earlier(kernel: Kernel, name: str) -> tuple[str, ...]:
    """The earlier outputs that the reference of an output takes, as the kernel computed them."""
    if (function := kernel.outs[name].reference) is None:
        return ()
    before = list(kernel.outs)[: list(kernel.outs).index(name)]
    return tuple(n for n in kernel.named_by(function) if n in before and n not in kernel.input_names)


def of_kernel(kernel: Kernel, values: Mapping[str, Any]) -> dict[str, Any]:
    """What the kernel's `reference` gives for inputs and scalars (by name), by output. SpecError for too few items."""
    names = shared(kernel)
    if not names or kernel.reference is None:
        return {}
    result = called_with(kernel.reference, values)
    if len(names) == 1 and not isinstance(result, dict):
        return {names[0]: result}
    if isinstance(result, dict) and set(result) == set(names):
        return {name: result[name] for name in names}
    if isinstance(result, (tuple, list)) and len(result) == len(names):
        return dict(zip(names, result, strict=True))
    raise SpecError(f"{kernel.file}: reference returns {short(result)}; return a tuple of {', '.join(names)}")


def of_output(kernel: Kernel, name: str, values: Mapping[str, Any]) -> Any:
    """What the own reference of an output gives for inputs, scalars and the earlier outputs that it takes, by name."""
    function = kernel.outs[name].reference
    assert function
    return called_with(function, values)


def plain(scalars: Mapping[str, Any]) -> dict[str, Any]:
    """Scalars as Python's numbers: a reference computes in float64 from the rounded values."""
    return {name: value.item() if hasattr(value, "item") else value for name, value in scalars.items()}
