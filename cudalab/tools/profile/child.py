"""The process that is profiled: it makes each variant ready, then torch.profiler records it, or it runs once for ncu.

A variant may end it at any moment, and ncu may be the program that starts it. It answers one `Request` with many
`Answer`s; what kernels and libraries print goes to standard error.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from cudalab import backends, timing
from cudalab.backends import _torch
from cudalab.base.child import Parent
from cudalab.base.errors import CudalabError, Unavailable
from cudalab.device import cuda
from cudalab.device.arrays import torch_missing
from cudalab.device.open import open_device
from cudalab.device.operands import Bound, Operands
from cudalab.device.protocol import Device
from cudalab.engine.groups import Group, Variant, Work
from cudalab.engine.rows import said
from cudalab.engine.selection import Selection
from cudalab.spec import tuned
from cudalab.tools.profile import events, found
from cudalab.tools.profile.found import Row

NO_OPERATORS = "no operators: PyTorch does not run this variant, and a CPU has no GPU kernels to count"


class Request(msgspec.Struct):
    """The variants of a group. `runs` of each are recorded; `trace`: the file for a Chrome trace, "" for none.

    `counters`: nothing is recorded. Each variant runs once under ncu, after an empty kernel as a mark.
    """

    work: Work
    device: str
    only: tuple[str, ...]
    skip: tuple[str, ...]
    seed: int
    runs: int
    trace: str = ""
    counters: bool = False


class Answer(msgspec.Struct):
    """First the device; then a variant's label when its work begins, and its row at the end; or an error for all.

    The last one is `done`. Without it something else has ended the process, whatever its exit code.
    """

    device: str = ""
    name: str = ""
    begun: str = ""
    row: Row | None = None
    error: str = ""
    kind: str = ""  # of the error: its class
    done: bool = False


def main(parent: Parent) -> None:
    os.dup2(2, 1)
    for request in parent.orders(Request):
        try:
            _profiled(request, parent.answer)
        except CudalabError as error:
            parent.answer(Answer(error=str(error), kind=type(error).__name__))
        parent.answer(Answer(done=True))
        return  # and be watched no more


def _profiled(request: Request, say: Callable[[Answer], None]) -> None:
    device, _ = open_device(request.device)
    try:
        if reason := torch_missing(device.kind):
            raise Unavailable(f"kernels and operators are counted by PyTorch's profiler: {reason}")
        say(Answer(device=device.kind, name=device.name))
        group = request.work.group()
        operands = device.place(group.kernel, group.dtype, group.arrays(request.seed), group.offsets)
        _let_torch_use(operands)
        at_work = _AtWork(request, device, group, operands, say)
        variants = Selection(request.only, request.skip).variants(group, device.kind)
        ready = at_work.prepare([v for v in variants if v.label not in request.work.omit])
        at_work.counted(ready) if request.counters else at_work.recorded(ready)
    finally:
        device.close()


def _let_torch_use(operands: Operands) -> None:
    """Make this GPU and this stream PyTorch's current ones: its profiler needs that."""
    if operands.stream is not None:
        _torch.tensors(operands)


@dataclass
class _AtWork:
    request: Request
    device: Device
    group: Group
    operands: Operands
    say: Callable[[Answer], None]

    def prepare(self, variants: list[Variant]) -> dict[str, Bound]:
        """The variants that can run, compiled and warm. The rows of the others are sent."""
        ready = {}
        for variant in variants:
            self.say(Answer(begun=variant.label))
            try:
                ready[variant.label] = self._bound(variant)
            except Unavailable as error:
                self.say(Answer(row=Row(variant.label, found.SKIPPED, str(error))))
            except Exception as error:  # any library's
                self._failed(variant.label, error)
        return ready

    def _bound(self, variant: Variant) -> Bound:
        if reason := backends.missing(variant.backend, self.device.kind):
            raise Unavailable(reason)
        if self.device.kind == "cpu" and not variant.backend_name.startswith("torch"):
            raise Unavailable(NO_OPERATORS)
        card = cuda.card_of(self.device)
        kernel, _ = tuned.for_variant(self.group.kernel, variant.name, variant.parameters, self.group.dtype, card)
        bound = variant.backend.bind(kernel, variant.name, self.group.dtype, self.operands)
        timing.warm_up(self.device, bound)
        return timing.again(self.device, bound)

    def _failed(self, label: str, error: Exception) -> None:
        self.say(Answer(row=Row(label, found.ERROR, said(error, self.group.kernel))))
        if not self.device.alive():
            os._exit(1)  # libraries cannot clean up without a context: PyCUDA aborts

    def _synchronize(self) -> None:
        if self.device.kind == "cuda":
            import pycuda.driver as driver

            driver.Context.synchronize()

    def recorded(self, ready: dict[str, Bound]) -> None:
        """Record each variant alone. For the trace, record all of them once more together, under their labels."""
        cuda, runs = self.device.kind == "cuda", self.request.runs
        for label, bound in ready.items():
            self.say(Answer(begun=label))
            try:
                recording = events.record(bound.run, self._synchronize, cuda, runs)
            except Exception as error:  # the variant's, or the profiler's
                self._failed(label, error)
                continue
            longest = [found.Longest(row.name, row.count, row.seconds) for row in recording.top()]
            self.say(Answer(row=Row(label, counts=recording.counts(), longest=longest)))
        if self.request.trace and ready:
            self._trace(ready, cuda)

    def _trace(self, ready: dict[str, Bound], cuda: bool) -> None:
        from torch.profiler import record_function

        def once_each() -> None:
            for label, bound in ready.items():
                with record_function(label):
                    bound.run()
                    self._synchronize()

        events.record(once_each, self._synchronize, cuda).write(self.request.trace)

    def counted(self, ready: dict[str, Bound]) -> None:
        """Run each once for ncu, which measures between start and stop only."""
        import pycuda.driver as driver

        mark = _mark(self.operands.stream)
        self._synchronize()
        driver.start_profiler()
        for label, bound in ready.items():
            self.say(Answer(begun=label))
            mark()
            bound.run()
            self._synchronize()
            self.say(Answer(row=Row(label)))
        driver.stop_profiler()


def _mark(stream: Any) -> Callable[[], None]:
    """A function that launches the lab's empty kernel: in ncu's list the kernels of the next variant follow it."""
    from cudalab.device import cuda

    function = cuda.compiled(cuda.LAB.read_text(), cuda.LAB.name).get_function("empty").prepare("")
    return lambda: function.prepared_async_call((1, 1), (1, 1, 1), stream)
