"""The parent's end of one worker process: start it, talk to it, notice its death or silence, end it.

The worker has pipes of its own for messages, so that prints of kernels and libraries cannot get between them; what it
prints is passed on to standard error. It is started by an explicit command and not by `multiprocessing`: a user's
script is not run a second time, and needs no `__main__` guard.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable
from time import monotonic

import msgspec

from cudalab.base import child
from cudalab.base.errors import Unavailable
from cudalab.engine import messages
from cudalab.engine.messages import Glimpse, Order, Report, Step

SLICE, SOON = 0.2, 0.01  # seconds between two looks at the board, and at a worker that is ending
KILLED = f"the worker process {child.KILLED}"
GRACE = 30.0  # seconds that a worker has to end by itself, and the system to end it
# glibc gives memory of a few megabytes back to the system as soon as it is free; to fault its pages in anew for each
# temporary took a third of a comparison's time on 2 cores.
ALLOCATOR = {"MALLOC_TRIM_THRESHOLD_": str(1 << 30), "MALLOC_MMAP_THRESHOLD_": str(1 << 25)}
TAIL, MOST = 2000, 200  # bytes of its standard error that are kept, and characters that are quoted if it dies


class Ended(Exception):
    """A worker is no more: how it ended, the step that it was at, the last line of its standard error, and whether it
    had to be killed for its silence.
    """

    def __init__(self, how: str, step: Step, said: str = "", hung: bool = False) -> None:
        super().__init__(how)
        self.how, self.step, self.said, self.hung = how, step, said, hung


class Process:
    """A running worker. `end` or `kill` must be called."""

    def __init__(self) -> None:
        theirs, self._orders = os.pipe()
        self._reports, answers = os.pipe()
        self._output, stdout = os.pipe()
        self._errors, stderr = os.pipe()
        self._board = os.memfd_create("cudalab-board")
        given = (theirs, answers, self._board)
        try:
            self._child = subprocess.Popen(
                child.command("cudalab.engine.worker.main", *map(str, given)),
                stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, pass_fds=given, start_new_session=True,
                env={**ALLOCATOR, **os.environ},
            )  # fmt: skip
        finally:
            for fd in (theirs, answers, stdout, stderr):
                os.close(fd)
        self._lines = bytearray()
        self._tail = b""
        self._open = selectors.DefaultSelector()
        for fd in (self._reports, self._output, self._errors):
            os.set_blocking(fd, False)
            self._open.register(fd, selectors.EVENT_READ)

    @property
    def pid(self) -> int:
        return self._child.pid

    def send(self, order: Order, step: Step) -> None:
        """Give an order. Until the worker says something else, it is at `step`."""
        messages.write_board(self._board, 0, step)
        messages.write_glimpses(self._board, {})
        self._tail = b""
        with contextlib.suppress(BrokenPipeError):  # it has died: `receive` will find out how
            os.write(self._orders, messages.line(order))

    def receive(self, limit: float, progress: Callable[[Step], None]) -> Report:
        """The next report. Raises Ended if the worker dies, or gives no sign of life for `limit` seconds.

        Any new step or message is a sign of life. `progress` is told the step about every SLICE.
        """
        beat, since = -1, monotonic()
        while True:
            gone = self._gone()  # asked before reading: what it sent before its end is then all there
            if self._read():
                since = monotonic()
            if report := self._report():
                return report
            if gone:
                raise self._ended()
            now, step = messages.read_board(self._board)
            if now != beat:
                beat, since = now, monotonic()
            if now >= 0:
                progress(step)
            if monotonic() - since > limit:
                self.kill()
                raise Ended(f"no end within {limit:g} s", step, hung=True)

    def glimpses(self) -> dict[str, Glimpse]:
        """What is known so far of the variants of the group that is at work."""
        return messages.read_glimpses(self._board)

    def end(self) -> None:
        """Let the worker finish in its own time, and wait for it. For one that has answered everything."""
        os.close(self._orders)
        self._orders = -1
        deadline = monotonic() + GRACE
        try:
            while not self._gone() and monotonic() < deadline:
                self._read()
        finally:
            self.kill()

    def kill(self) -> None:
        """End the worker and every process that it has started, at once."""
        if self._child.returncode is not None:
            return
        child.kill(self._child)
        try:
            self._child.wait(GRACE)
        except subprocess.TimeoutExpired:  # it hangs inside the driver, where no signal is taken
            raise Unavailable(f"process {self.pid} cannot be ended: is the GPU's driver stuck? See dmesg") from None
        while self._open.select(0):  # what it had written is still in the pipes
            self._read(0)
        self._open.close()
        for fd in {self._orders, self._reports, self._output, self._errors, self._board} - {-1}:
            os.close(fd)

    def _gone(self) -> bool:
        """Whether the worker has ended; it is not reaped, so that its process group can still be named."""
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return self._child.returncode is not None or os.waitid(os.P_PID, self._child.pid, flags) is not None

    def _ended(self) -> Ended:
        _, step = messages.read_board(self._board)
        self.kill()
        code = self._child.returncode
        memory = " (has the machine run out of memory?)" if -code == signal.SIGKILL else ""
        return Ended(f"the worker process {child.how(code)}{memory}", step, self._said())

    def _said(self) -> str:
        lines = self._tail.decode(errors="replace").split("\n")
        return next((line.strip()[:MOST] for line in reversed(lines) if line.strip()), "")

    def _report(self) -> Report | None:
        text, newline, rest = self._lines.partition(b"\n")
        if not newline:
            return None
        self._lines = rest
        try:
            return msgspec.json.decode(text, type=Report)
        except msgspec.DecodeError as error:
            return messages.Failed("CudalabError", f"the worker's answer cannot be read: {error}")

    def _read(self, wait: float = SLICE) -> bool:
        """Take in what the worker has written, waiting for it if need be. Says whether a message grew."""
        if self._reports not in self._open.get_map():
            wait = min(wait, SOON)  # it has closed its end: it is about to be gone
        grew = False
        for key, _ in self._open.select(wait):
            data = os.read(key.fd, 1 << 16)
            if not data:
                self._open.unregister(key.fd)
            elif key.fd == self._reports:
                self._lines += data
                grew = True
            else:
                if key.fd == self._errors:
                    self._tail = (self._tail + data)[-TAIL:]
                sys.stderr.write(data.decode(errors="replace"))
        return grew
