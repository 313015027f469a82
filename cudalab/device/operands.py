"""The arrays that a variant runs on, and a variant made ready to run."""

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
    seed: int = 0  # the run's seed, for a backend that shuffles

    def named(self, kernel: Kernel) -> dict[str, Any]:
        return {**self.inputs, kernel.output: self.output}


@dataclass(frozen=True)
class Bound:
    """A variant made ready on its operands: compiled, loaded, allocated."""

    run: Callable[[], object]  # enqueues the work once; only this is timed
    output: Callable[[], Any]  # the array that holds the last run's result, of any library
    # Entered around the runs that a CUDA Graph captures: gives the graph memory of its own.
    pool: Callable[[], AbstractContextManager[object]] = nullcontext
    again: Callable[[Operands], Bound] | None = None  # binds the compiled code to other operands of the same shape
    also: Mapping[str, Bound] = field(default_factory=dict)  # other ways to run it, which must be right as well
    on: Operands | None = None  # what it writes to; None: it returns a result of its own
    kept: int = 0  # bytes of its code's __device__ variables, which outlive a launch
    # Binds newly loaded code, whose __device__ variables are as the source initialises them.
    fresh: Callable[[], Bound] | None = None
    # Prepares the call that a user makes: it allocates a result, enqueues the work, returns the result. None: no such
    # call.
    api: Callable[[], Callable[[], Any]] | None = None
    allocates: bool = False  # whether `run` allocates its result
    remarks: Callable[[], list[str]] = list  # what its runs so far did that is no fault of the result; each once


def writing(
    prepare: Callable[[Operands], Callable[[], object]],
    operands: Operands,
    api: Callable[[Operands], Callable[[], Any]] | None = None,
    kept: int = 0,
    fresh: Callable[[Operands], Bound] | None = None,
) -> Bound:
    """A variant that writes to `operands.output`: `prepare(operands)` gives its `run`, `api(operands)` a user call.

    `kept` and `fresh` are those of `Bound`, for code with `__device__` variables.
    """

    def ready(on: Operands) -> Bound:
        return Bound(
            prepare(on), lambda: on.output, again=ready, on=on, api=(lambda: api(on)) if api else None,
            kept=kept, fresh=(lambda: fresh(on)) if fresh else None,
        )  # fmt: skip

    return ready(operands)


def returning(
    function: Callable[..., Any],
    arguments: Callable[[Operands], list[Any]],
    operands: Operands,
    pool: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> Bound:
    """A variant that calls `function(*arguments(operands))`, which returns its result, as array libraries do."""

    def ready(on: Operands) -> Bound:
        args, result = arguments(on), [None]

        def run() -> None:
            result[0] = function(*args)

        return Bound(run, lambda: result[0], pool, ready, api=lambda: lambda: function(*args), allocates=True)

    return ready(operands)
