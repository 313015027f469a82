"""What every cross-check needs: a process of its own, and the variants ready in it, bound as in a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec

from cudalab import timing
from cudalab.base.child import Child, Ended, last
from cudalab.base.errors import LaunchError
from cudalab.device import cuda
from cudalab.device.gpu import Gpu
from cudalab.device.open import open_gpu
from cudalab.device.operands import Bound, Operands
from cudalab.engine.groups import Group
from cudalab.engine.selection import Selection
from cudalab.results.record import COPY
from cudalab.spec import find, tuned
from cudalab.spec.dtype import dtype

START = 300.0  # seconds that importing, compiling and placing may take
T = TypeVar("T")


class Request(msgspec.Struct):
    """The variants of a group, by their labels: `backend`, `backend:variant`, or "copy"."""

    kernel: str  # path of the spec
    size: str
    shape: tuple[int, ...]
    dtype: str
    labels: list[str]
    seed: int
    device: int


class Found(msgspec.Struct):
    """Seconds of a variant by what was measured, such as "cupti cold"; or why there are none."""

    times: dict[str, float] = {}
    why: str = ""


def asked(tool: str, main: str, request: Request, answers: type[T], limit: float) -> T:
    """The answer of a process that does `main`. Raises LaunchError, with what it said, if it fails."""
    with Child[T](main, answers=answers) as process:
        process.send(request)
        try:
            found = process.receive(limit)
        except Ended as ended:
            if ended.hung:
                raise LaunchError(f"{tool} did not finish within {limit:g} s") from None
            said = last(ended.said) or last(process.printed) or "it printed nothing"
            raise LaunchError(f"{tool} {ended.how}: {said}") from None
        process.end()  # a failure of the clean-up costs nothing
    return found


@contextmanager
def device_and_works(request: Request) -> Iterator[tuple[Gpu, dict[str, Bound]]]:
    """In the process: the GPU, and each variant on the arrays of the request's seed, ready and warm."""
    device = open_gpu(request.device, cuda.missing())
    try:
        group = Group(find.kernel(request.kernel), request.size, request.shape, dtype(request.dtype))
        operands = device.place(group.kernel, group.dtype, group.arrays(request.seed))
        yield device, {label: _bound(device, group, operands, label) for label in request.labels}
    finally:
        device.close()


def _bound(device: Gpu, group: Group, operands: Operands, label: str) -> Bound:
    found: Any
    if label == COPY:
        found = device.copy(sum(a.nbytes for a in operands.inputs.values()) + operands.output.nbytes)
    else:
        (variant,) = (v for v in Selection().variants(group, device.kind) if v.label == label)
        kernel, _ = tuned.for_variant(group.kernel, variant.name, variant.parameters, group.dtype, cuda.card_of(device))
        found = variant.backend.bind(kernel, variant.name, group.dtype, operands)
    timing.warm_up(device, found)
    bound: Bound = found
    return bound
