"""What a variant runs on, and a variant made ready to run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from cudalab.spec.kernel import Kernel


@dataclass(frozen=True)
class Operands:
    """Inputs and output of one case where a device put them: NumPy arrays on the CPU, DeviceArrays on a GPU."""

    inputs: Mapping[str, Any]  # by name, in the order of the reference's parameters
    output: Any
    stream: Any = None  # the PyCUDA stream that all GPU work goes to
    device: int = 0  # the GPU's number
    seed: int = 0  # of the run, for whatever a backend shuffles

    def named(self, kernel: Kernel) -> dict[str, Any]:
        return {**self.inputs, kernel.output: self.output}


@dataclass(frozen=True)
class Bound:
    """A variant made ready on its operands: compiled, loaded, allocated."""

    run: Callable[[], object]  # enqueue the work once: the one thing that is timed
    output: Callable[[], Any]  # the array, of whatever library, that holds the last run's result
    # Entered around the runs that are captured into a CUDA Graph: gives the graph memory of its own.
    pool: Callable[[], AbstractContextManager[object]] = nullcontext
    again: Callable[[Operands], Bound] | None = None  # the same, compiled once, on other operands of that shape
    also: Mapping[str, Bound] = field(default_factory=dict)  # other ways to run it, all of which must be right as well
    # Makes ready what a user calls: it allocates a result, enqueues the work and returns the result. None: nobody does.
    api: Callable[[], Callable[[], Any]] | None = None


def writing(
    prepare: Callable[[Operands], Callable[[], object]],
    operands: Operands,
    api: Callable[[Operands], Callable[[], Any]] | None = None,
) -> Bound:
    """A Bound of a variant that writes to `operands.output`: `prepare(operands)` gives what runs it, `api` what a user
    calls."""

    def ready(on: Operands) -> Bound:
        return Bound(prepare(on), lambda: on.output, again=ready, api=(lambda: api(on)) if api else None)

    return ready(operands)


def returning(
    function: Callable[..., Any],
    arguments: Callable[[Operands], list[Any]],
    operands: Operands,
    pool: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> Bound:
    """A Bound whose result is what `function(*arguments(operands))` returns, as array libraries have it."""

    def ready(on: Operands) -> Bound:
        args, result = arguments(on), [None]

        def run() -> None:
            result[0] = function(*args)

        return Bound(run, lambda: result[0], pool, ready, api=lambda: lambda: function(*args))

    return ready(operands)
