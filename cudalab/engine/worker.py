"""The worker process of a run: it owns the device and does one task after the other. Any task may crash it.

`cudalab.engine.start` calls it; it reads and writes what `cudalab.engine.messages` defines. Kernels and libraries
may print to standard output and standard error.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import dataclasses
import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import NoReturn

import msgspec

from cudalab import backends, timing
from cudalab.base import garbage, genuine, memory
from cudalab.base.child import Parent
from cudalab.base.errors import CudalabError, InputError
from cudalab.base.globs import split
from cudalab.device import driver, machine
from cudalab.device.open import open_device
from cudalab.device.protocol import Device
from cudalab.engine import ahead, kernel_round, messages, rows
from cudalab.engine.groups import Work
from cudalab.engine.job import ContextLost, Job
from cudalab.engine.messages import (
    WORKER,
    Done,
    Failed,
    Glimpse,
    Go,
    Lost,
    Prepared,
    Ready,
    Report,
    Setup,
    Step,
    Task,
    named,
)
from cudalab.engine.selection import Selection
from cudalab.host import processes
from cudalab.results.record import Case, Parity
from cudalab.spec import cuda_source, find, plain

OOM_SCORE = "500"  # of 1000: if memory runs out, the system ends this process and not the one that has the results


def main(parent: Parent, shared: str, *kernels: str) -> None:
    board = int(shared)
    os.set_inheritable(board, False)
    garbage.seldom()
    _set_apart()
    if kernels and driver.absent():  # else the device is opened before a spec loads libraries that use it
        processes.prepare()
        with contextlib.suppress(CudalabError):  # the parent, which is reading the specs too, tells what is wrong
            find.chosen(kernels, bad=lambda error: None)
    backends.by_name()  # loads them meanwhile
    setup = next(parent.orders(Setup))
    beats = count(1)
    worker = _Worker(
        setup,
        lambda step: messages.write_board(board, next(beats), step),
        lambda found: messages.write_glimpses(board, found),
        parent,
    )
    try:
        parent.answer(_guarded(worker.open))
        for task in parent.orders(Task):
            parent.answer(_guarded(lambda: worker.do(task)))  # noqa: B023 (called at once)
    except ContextLost as lost:
        parent.answer(Lost(lost.step, lost.reason))
        _leave(1)
    worker.close()
    if worker.on_cpu:
        atexit._run_exitfuncs()
        _leave(0)


def _set_apart() -> None:
    """Leave Ctrl-C to the parent; let the system end this process first if memory runs out."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(OOM_SCORE)


def _leave(code: int) -> NoReturn:
    """Exit without clean-up: PyCUDA aborts if it frees anything after its context is lost, and the parent waits."""
    for stream in sys.stdout, sys.stderr:
        with contextlib.suppress(Exception):  # a spec may have closed it, or put something else in its place
            stream.flush()
    ctypes.CDLL(None).fflush(None)  # what kernels have printed
    os._exit(code)


def _guarded(work: Callable[[], Report]) -> Report:
    try:
        return work()
    except CudalabError as error:
        return Failed(type(error).__name__, str(error))
    except Exception as error:  # a fault of the lab, or of a library that opens the device
        traceback.print_exc()
        return Failed("CudalabError", f"{type(error).__name__}: {error}")


def _load(names: Sequence[str], device: Device) -> None:
    """Load what these backends need later, and let them compile something small: both take seconds, once a process."""
    for name in names:
        backend = backends.by_name()[name]
        if not backends.missing(backend, device.kind):
            with contextlib.suppress(Exception):  # the rows say what is missing, or fails
                getattr(backend, "load", _nothing)()
                if device.kind == "cuda":
                    getattr(backend, "warm_up", _nothing)(device.index)  # type: ignore[attr-defined]


def _nothing(*_: int) -> None:
    """Stand for `load` of a backend whose library `missing` has imported, and for `warm_up` of one that needs none."""


class _Worker:
    """The device, and the job that all tasks are part of."""

    def __init__(
        self, setup: Setup, progress: Callable[[Step], None], glimpse: Callable[[Mapping[str, Glimpse]], None],
        parent: Parent,
    ) -> None:  # fmt: skip
        self.setup, self.progress, self.glimpse, self.parent = setup, progress, glimpse, parent
        self.job: Job | None = None

    def open(self) -> Ready:
        setup = self.setup
        self.progress(Step(WORKER, "opening the device"))
        device, note = open_device(setup.device, setup.key)
        if device.kind == "cuda" or not setup.modes:
            memory.keep()
        if device.kind == "cpu" and "host" in setup.backends:
            processes.prepare()  # while this process does other things
        selection = Selection(split(setup.only), split(setup.skip))  # the parent has checked the options
        count = setup.count(device.kind)
        self.job = Job(
            device, selection, setup.modes, setup.seed, setup.share(device.kind), self.progress, order=setup.order,
            glimpse=self.glimpse, processes=count, process=setup.process, named=setup.named,
            left_out=setup.left_out if device.kind == "cpu" else {},
        )  # fmt: skip
        self.job.turn = self.turn
        if setup.process:
            self.progress(Step(WORKER, "loading libraries"))
            _load(setup.backends, device)
        if setup.modes:
            timing.prepare(device, setup.flush)
        self.progress(Step(WORKER, "calibrating"))
        with self.job.phase("calibration"):
            calibration = timing.calibrate(device, setup.modes) if setup.modes and setup.calibrate else {}
        return Ready(machine.describe(device), note, calibration, self._wall(), device.free_bytes)

    def do(self, task: Task) -> Done:
        assert self.job is not None
        for name, path in task.files.items():
            known = self.setup.sources.get(name)  # none of a module that was first imported during the run
            if known and cuda_source.digest(Path(path)) != known:
                raise InputError(f"{path} has changed since this run began")
        self.job.known, self.job.unloaded = dict(task.known), task.unloaded
        self.job.made = tuple(ahead.mapped(task.made))
        found = named(task.handler)(self.job, task.payload)
        self.job.made = ()
        return Done(msgspec.Raw(msgspec.json.encode(found)), self._wall(), self._right())

    def turn(self, bad: tuple[str, ...]) -> tuple[str, ...]:
        """Tell that all is ready to be timed, and wait for `Go`."""
        assert self.job is not None
        self.parent.answer(Prepared(self._right(), bad))
        go = next(self.parent.orders(Go), None)
        if go is None:  # the parent gives no more orders
            _leave(1)
        self.job.known.update(go.known)
        self.job.unloaded = go.unloaded
        return go.omit

    def _right(self) -> dict[str, Parity]:
        """What other processes of the run need not compare again."""
        assert self.job is not None
        return {name: parity for name, parity in self.job.known.items() if parity.ok and self.job.processes > 1}

    def close(self) -> None:
        if self.job is not None:
            self.job.device.close()

    @property
    def on_cpu(self) -> bool:
        """Whether no device is left to close."""
        return self.job is None or self.job.device.kind == "cpu"

    def _wall(self) -> dict[str, float]:
        assert self.job is not None
        taken = dict(self.job.wall)
        self.job.wall.clear()
        return taken


def cases(job: Job, payload: msgspec.Raw) -> list[Case]:
    """Handle a `Group`: return the rows of its selected variants."""
    work = msgspec.json.decode(payload, type=Work)
    job = job if work.timed else dataclasses.replace(job, modes=())  # `wall` and `known` are shared
    found = kernel_round.cases(job, work.group(), work.omit)
    replaced = genuine.replaced()
    return rows.refused(found, genuine.refusal(replaced) if replaced else plain.wrong(find.kernel(work.kernel)))
