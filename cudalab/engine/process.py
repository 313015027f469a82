"""The parent's end of one worker process: orders and reports, and the step at which the worker ended or fell silent."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic

from cudalab.base import child
from cudalab.base.child import Child
from cudalab.engine import messages
from cudalab.engine.messages import Glimpse, Go, Order, Report, Step
from cudalab.spec import imported

KILLED = f"the worker process {child.KILLED}"
# glibc gives memory of a few megabytes back to the system as soon as it is free. To fault its pages in anew for each
# temporary took a third of a comparison's time on 2 cores.
ALLOCATOR = {"MALLOC_TRIM_THRESHOLD_": str(1 << 30), "MALLOC_MMAP_THRESHOLD_": str(1 << 25)}
MOST = 200  # characters of the worker's last words
_waiting: list[tuple[str, Process]] = []  # that were started ahead, with their surroundings


class Ended(child.Ended):
    """A worker has ended: `step` is what it was doing, `said` the last line of its standard error."""

    def __init__(self, how: str, step: Step, said: str = "", hung: bool = False) -> None:
        super().__init__(how, said, hung)
        self.step = step


@contextmanager
def ahead(kernels: Sequence[str] = ()) -> Iterator[None]:
    """Start a worker now, for the first that `started` is asked for: it loads its modules while specs are loaded.

    Without a driver of a GPU it also loads the specs of `kernels`, which are names as `find.chosen` takes them. One
    that waits already is enough.
    """
    if _waiting:
        yield
        return
    _waiting.append((_surroundings(), Process(kernels)))
    try:
        yield
    finally:
        while _waiting:
            _waiting.pop()[1].kill()


def started() -> Process:
    """A running worker: the one that was started ahead, unless what a new one would inherit has changed since."""
    while _waiting:
        surroundings, process = _waiting.pop()
        if surroundings == _surroundings():
            return process
        process.kill()
    return Process()


def _surroundings() -> str:
    """What a worker inherits, and does not add by itself."""
    path = [folder for folder in sys.path if folder not in imported.added]
    return repr((os.getcwd(), path, sorted(os.environ.items())))


def wait(processes: Iterable[Process]) -> None:
    """Wait until one of them may have something to report, for `child.SLICE` seconds at most."""
    child.wait((process._child for process in processes), child.SLICE)


class Process:
    """A running worker. `end` or `kill` must be called.

    Both processes see the board, a file in memory. The worker writes its step there, so that no message is sent, and
    no process is woken up, between two samples. `kernels` are those of `ahead`.
    """

    def __init__(self, kernels: Sequence[str] = ()) -> None:
        self.ahead = bool(kernels)
        self._board = os.memfd_create("cudalab-board")
        os.lseek(
            self._board, messages.END, os.SEEK_SET
        )  # what a kernel writes to a file that it does not know goes there
        try:
            self._child: Child[Report] = Child(
                "cudalab.engine.start.main", str(self._board), *kernels, answers=Report,
                env={**ALLOCATOR, **os.environ}, share=(self._board,), echo=(child.OUT, child.ERR),
            )  # fmt: skip
        except BaseException:
            os.close(self._board)
            raise

        self._beat, self._since = -1, monotonic()  # the last sign of life, and when it was seen

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def ended(self) -> bool:
        return self._child.ended

    def send(self, order: Order, step: Step) -> None:
        """Give an order. Until the worker writes another step, it is at `step`."""
        messages.write_board(self._board, 0, step)
        messages.write_glimpses(self._board, {})
        self._beat, self._since = -1, monotonic()
        self._child.send(order)

    def receive(self, limit: float, progress: Callable[[Step], None]) -> Report:
        """Wait for the next report. Raises Ended if the worker ends, or gives no sign of life for `limit` seconds.

        A new step and a message are signs of life. `progress` is called with the step about every `child.SLICE`.
        """
        seen = -1

        def watch() -> bool:
            nonlocal seen
            beat, step = messages.read_board(self._board)
            if beat >= 0:
                progress(step)
            moved, seen = beat != seen, beat
            return moved

        try:
            return self._child.receive(limit, watch)
        except child.Ended as ended:
            raise self._ended(ended) from None

    def go(self, order: Go) -> None:
        """Let the worker go on with its task."""
        self._since = monotonic()
        self._child.send(order)

    def look(self, limit: float, progress: Callable[[Step], None]) -> Report | None:
        """The next report, or None if it is not there yet. Raises Ended as `receive` does."""
        if (report := self.poll()) is not None:
            return report
        beat, step = messages.read_board(self._board)
        if beat >= 0:
            progress(step)
        now = monotonic()
        if beat != self._beat:
            self._beat, self._since = beat, now
        if now - self._since > limit:
            self._child.kill()
            raise self._ended(child.Ended(f"did not end within {limit:g} s", hung=True))
        return None

    def poll(self) -> Report | None:
        """The next report, or None if it is not there yet. Raises Ended if the worker has ended."""
        try:
            return next(iter(self._child.poll()), None)
        except child.Ended as ended:
            raise self._ended(ended) from None

    def _ended(self, ended: child.Ended) -> Ended:
        """What is told of a worker that has ended or was silent; kill what is left of it."""
        _, step = messages.read_board(self._board)
        self.kill()
        if ended.hung:
            return Ended(ended.how, step, hung=True)
        killed = ended.how == child.how(-signal.SIGKILL)  # by the system: this process says so in other words
        memory = " (has the machine run out of memory?)" if killed else ""
        return Ended(f"the worker process {ended.how}{memory}", step, child.last(ended.said)[:MOST])

    def glimpses(self) -> dict[str, Glimpse]:
        """Preliminary numbers of the variants of the running group."""
        return messages.read_glimpses(self._board)

    def dismiss(self) -> None:
        """Send no more orders to a worker that has answered everything: it ends by itself."""
        self._child.dismiss()

    def end(self) -> None:
        """Dismiss the worker, and wait until it has ended."""
        try:
            self._child.end()
        finally:
            self.kill()

    def kill(self) -> None:
        """End the worker and every process that it started, at once."""
        if self._board >= 0:
            self._child.kill()
            os.close(self._board)
            self._board = -1
