"""The arrays that a variant runs on, and a variant made ready to run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import numpy as np

from cudalab.spec.declared import NONE
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Kernel, Shape


@dataclass(frozen=True)
class Written:
    """What one run writes, where that is more than one array, or an array that does not begin poisoned.

    `names` are those of `arrays`, the first `results` of which are judged; the others are workspace. `begins` says by
    array what it holds before a run: poison (None), these bytes again and again, or an input's contents (IN_PLACE).
    """

    names: tuple[str, ...]
    arrays: tuple[Any, ...]
    results: int
    begins: tuple[bytes | str | None, ...]

    @property
    def spent(self) -> bool:
        """Whether a run changes what the next one has to find: it must be made new in between."""
        return any(begin is not None for begin in self.begins)

    @property
    def in_place(self) -> tuple[str, ...]:
        return tuple(name for name, begin in zip(self.names, self.begins, strict=True) if begin == IN_PLACE)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays)

    @property
    def size(self) -> int:
        """Elements of the results."""
        return sum(array.size for array in self.arrays[: self.results])

    @property
    def ptr(self) -> int:
        return int(self.arrays[0].ptr)

    def like(self, arrays: Sequence[Any]) -> Written:
        """Return the same of other arrays."""
        return replace(self, arrays=tuple(arrays))


IN_PLACE = "in place"


def output_of(
    kernel: Kernel, dtype: DType, inputs: Mapping[str, Any], make: Callable[[str, Shape, np.dtype], Any],
    scalars: Mapping[str, Any] = NONE,
) -> Any:  # fmt: skip
    """The arrays that a run of a kernel writes: one, or `Written`. `make(name, shape, dtype)` allocates.

    `scalars`: values of a call, by name, where they are not the spec's.
    """
    shapes, own = {name: tuple(array.shape) for name, array in inputs.items()}, (*kernel.outs, *kernel.workspace)
    kinds = {name: kernel.kind_of(name, dtype).numpy for name in own}
    fills = {name: (kernel.outs.get(name) or kernel.workspace[name]).fill for name in own}
    arrays = tuple(
        inputs[name] if name in kernel.in_place else make(name, kernel.shape_of(name, shapes, scalars), kinds[name])
        for name in own
    )
    begins = tuple(
        IN_PLACE if name in kernel.in_place
        else None if (fill := fills[name]) is None
        else np.asarray(fill).astype(kinds[name]).tobytes()
        for name in own
    )  # fmt: skip
    return arrays[0] if begins == (None,) else Written(own, arrays, len(kernel.outs), begins)


def pieces(output: Any) -> tuple[Any, ...]:
    """The arrays that a run leaves to be judged: those of a library's tuple, or one."""
    if isinstance(output, Written):
        return output.arrays[: output.results]
    return tuple(output) if isinstance(output, (tuple, list)) else (output,)


def every(output: Any) -> tuple[tuple[Any, bytes | str | None], ...]:
    """Every array that a run writes, and what it holds before (see `Written.begins`)."""
    if isinstance(output, Written):
        return tuple(zip(output.arrays, output.begins, strict=True))
    return tuple((array, None) for array in pieces(output))


@dataclass(frozen=True)
class Operands:
    """Inputs and output of one case where a device put them: NumPy arrays on the CPU, DeviceArrays on a GPU."""

    inputs: Mapping[str, Any]  # by name, in the order of the reference's parameters
    output: Any  # an array, or Written
    stream: Any = None  # the PyCUDA stream that all GPU work goes to
    device: int = 0  # the GPU's number
    seed: int = 0  # the run's seed, for a backend that shuffles
    limit: float = inf  # seconds that a launch may take, where the CPU executes it
    scalars: Mapping[str, Any] = field(default_factory=dict)  # by name, rounded to their dtypes

    def by_name(self, kernel: Kernel) -> dict[str, Any]:
        """What a launch gets, by name: inputs, outputs, workspace, scalars."""
        if isinstance(self.output, Written):
            return {**self.inputs, **dict(zip(self.output.names, self.output.arrays, strict=True)), **self.scalars}
        return {**self.inputs, next(iter(kernel.outs)): self.output, **self.scalars}

    def updates(self, name: str) -> bool:
        """Whether this input is an output too, written in place."""
        return isinstance(self.output, Written) and name in self.output.in_place

    def writing_to(self, output: Any) -> Operands:
        """The same with another output; what is updated in place is read there."""
        if not isinstance(output, Written):
            return replace(self, output=output)
        own = dict(zip(output.names, output.arrays, strict=True))
        return replace(self, output=output, inputs={n: own.get(n, array) for n, array in self.inputs.items()})


@dataclass(frozen=True)
class Bound:
    """A variant made ready on its operands: compiled, loaded, allocated."""

    run: Callable[[], object]  # enqueues the work once; only this is timed
    output: Callable[[], Any]  # the array that holds the last run's result, of any library
    # Entered around the runs that a CUDA Graph captures: gives the graph memory of its own.
    pool: Callable[[], AbstractContextManager[object]] = nullcontext
    again: Callable[[Operands], Bound] | None = None  # binds the compiled code to other operands of the same shape
    also: Mapping[str, Bound] = field(default_factory=dict)  # other ways to run it, which must be right as well
    # More ways, which take long: run where its result is wrong, to find the cause.
    suspects: Callable[[], Mapping[str, Bound]] = dict
    on: Operands | None = None  # what it writes to; None: it returns a result of its own
    kept: int = 0  # bytes of its code's __device__ variables, which outlive a launch
    local: int = 0  # bytes of local memory that a thread of its code uses, which outlive a launch
    # Binds newly loaded code, whose __device__ variables are as the source initialises them.
    fresh: Callable[[], Bound] | None = None
    # Prepares the call that a user makes: it allocates a result, enqueues the work, returns the result. None: no such
    # call.
    api: Callable[[], Callable[[], Any]] | None = None
    allocates: bool = False  # whether `run` allocates its result
    # What its runs wrote of the code's own that may only be read, in words; it is then as it was. "": nothing.
    altered: Callable[[], str] = str
    remarks: Callable[[], list[str]] = list  # what its runs so far did that is no fault of the result; each once
    # Whether a remark about its runs names the line of what CUDA leaves undefined, other than a value that it reads.
    undefined: Callable[[], bool] = lambda: False
    # By what its last run read that CUDA leaves undefined: a run that finds another value there.
    probes: Callable[[], Mapping[str, Callable[[], object]]] = dict


def writing(
    prepare: Callable[[Operands], Callable[[], object]],
    operands: Operands,
    api: Callable[[Operands], Callable[[], Any]] | None = None,
    kept: int = 0,
    fresh: Callable[[Operands], Bound] | None = None,
    altered: Callable[[], str] = str,
    local: int = 0,
) -> Bound:
    """A variant that writes to `operands.output`: `prepare(operands)` gives its `run`, `api(operands)` a user call.

    `kept`, `fresh`, `altered` and `local` are those of `Bound`, for code with memory of its own.
    """

    def ready(on: Operands) -> Bound:
        return Bound(
            prepare(on), lambda: on.output, again=ready, on=on, api=(lambda: api(on)) if api else None,
            kept=kept, fresh=(lambda: fresh(on)) if fresh else None, altered=altered, local=local,
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
