"""The child of a run: owns the device, does one group after the other, and may die of any of them.

`cudalab.engine.process` starts it; it reads and writes what `cudalab.engine.messages` defines. Standard output and
standard error are free for whatever a kernel or a library prints.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import NoReturn

import msgspec

from cudalab.base.errors import CudalabError, InputError
from cudalab.base.globs import split
from cudalab.device import machine, open_device
from cudalab.engine import group as groups
from cudalab.engine import messages
from cudalab.engine.job import ContextLost, Job
from cudalab.engine.messages import Failed, Finished, Glimpse, Lost, Ready, Report, Setup, Step, StudyWork, Work
from cudalab.engine.plan import Group, Selection
from cudalab.spec import cuda_source
from cudalab.study.found import Workload

OOM_SCORE = "500"  # of 1000: if memory runs out, this process is to die and not the one that has the results


def main(*given: str) -> None:
    commands, reports, board = map(int, given)
    for fd in (commands, reports, board):
        os.set_inheritable(fd, False)  # a compiler that outlives this process must not hold its pipes open
    _set_apart()
    with open(commands, "rb") as orders, open(reports, "wb") as answers:

        def answer(report: Report) -> None:
            answers.write(messages.line(report))
            answers.flush()

        setup = msgspec.json.decode(orders.readline(), type=Setup)
        beats = count(1)
        worker = _Worker(
            setup,
            lambda step: messages.write_board(board, next(beats), step),
            lambda found: messages.write_glimpses(board, found),
        )
        try:
            answer(_guarded(worker.open))
            for text in orders:
                order = msgspec.json.decode(text, type=Work | StudyWork | messages.Search)
                answer(_guarded(lambda: worker.do(order)))  # noqa: B023 (called at once)
        except ContextLost as lost:
            answer(Lost(lost.step, lost.reason))
            _leave()
        worker.close()


def _set_apart() -> None:
    """Leave Ctrl-C to the parent, and die before it does where memory runs out."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(OOM_SCORE)


def _leave() -> NoReturn:
    """End without clean-up, which libraries cannot do after the context is lost: PyCUDA aborts."""
    sys.stdout.flush()
    sys.stderr.flush()
    ctypes.CDLL(None).fflush(None)  # what kernels have printed
    os._exit(1)


def _guarded(work: Callable[[], Report]) -> Report:
    try:
        return work()
    except CudalabError as error:
        return Failed(type(error).__name__, str(error))
    except Exception as error:  # a fault of the lab, or of a library that opens the device
        traceback.print_exc()
        return Failed("CudalabError", f"{type(error).__name__}: {error}")


class _Worker:
    """The device and the job that all groups are part of."""

    def __init__(
        self, setup: Setup, progress: Callable[[Step], None], glimpse: Callable[[Mapping[str, Glimpse]], None]
    ) -> None:
        self.setup, self.progress, self.glimpse = setup, progress, glimpse
        self.job: Job | None = None

    def open(self) -> Ready:
        setup = self.setup
        self.progress(Step("worker", "opening the device"))
        device, note = open_device(setup.device)
        selection = Selection(split(setup.only), split(setup.skip))  # the parent has looked at the words
        self.job = Job(
            device, selection, setup.modes, setup.seed, setup.budget, self.progress, order=setup.order,
            glimpse=self.glimpse,
        )  # fmt: skip
        self.progress(Step("worker", "calibrating"))
        with self.job.phase("calibration"):
            calibration = device.calibrate(setup.modes) if setup.modes and setup.calibrate else {}
        return Ready(machine.describe(device), note, calibration, self._wall())

    def do(self, order: Work | StudyWork | messages.Search) -> Finished | messages.Searched:
        assert self.job is not None
        work = order.work if isinstance(order, messages.Search) else order
        group = work.group()
        self._unchanged(group)
        job = self.job if work.timed else dataclasses.replace(self.job, modes=())  # `wall` is shared
        if isinstance(order, messages.Search):
            from cudalab.tools.tune.kernel_tuner import search  # which needs a GPU

            assert isinstance(group, Group)

            return messages.Searched(search(order, group, job), self._wall())
        if isinstance(group, Workload):
            from cudalab.study import engine

            return Finished(engine.cases(job, group, work.omit), self._wall())
        return Finished(groups.cases(job, group, work.omit), self._wall())

    def close(self) -> None:
        if self.job is not None:
            self.job.device.close()

    def _wall(self) -> dict[str, float]:
        assert self.job is not None
        taken = dict(self.job.wall)
        self.job.wall.clear()
        return taken

    def _unchanged(self, group: Group | Workload) -> None:
        """Raise InputError if the kernel's or the study's files are not those that the run began with."""
        for name, path in group.files.items():
            if cuda_source.digest(path) != self.setup.sources[name]:
                raise InputError(f"{path} has changed since this run began")
