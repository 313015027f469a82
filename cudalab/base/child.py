"""Child processes: start a function of the lab in one, exchange messages with it, and learn how it ended.

`Child` is the parent's end: the worker, the sanitizers, the profiler, the ranks of a study, the cross-check and the
drawing of charts all use it. The function gets a `Parent`, which is the child's end. A message is a JSON object or
value on one line (msgspec), and travels through a pair of pipes of its own: standard output and standard error stay
free for what kernels and libraries print. The parent reads both, and quotes the last lines when the child dies. The
child begins each answer with a seal that it draws when it starts: what a kernel writes to the pipe is no answer.

The command is explicit and does not use `multiprocessing`: the user's script does not run a second time, and needs no
`__main__` guard.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import math
import os
import secrets
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from select import select
from threading import Thread
from time import monotonic
from typing import Any, Generic, TypeVar

import msgspec

from cudalab.base import cache, leftovers, program, safe_path, scratch
from cudalab.base.errors import Unavailable

PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
KILLED = "was killed by "
SLICE, SOON = 0.2, 0.01  # seconds between two looks at a child, and at one that has closed its pipe and is ending
OUT, ERR = 1, 2  # a child's standard output and standard error
GRACE = 30.0  # seconds that a child has to end by itself, and that the system has to end it
TAIL = 1 << 16  # bytes of its output that are kept: a whole report of a sanitizer

# The child gets the parent's own sys.path before it imports anything. `python -m` would put the current folder first,
# and run a user's copy.py or json.py in the place of the standard library's.
BOOT = (
    "import sys; end = 4 + int(sys.argv[3]); sys.path[:], given = sys.argv[end:], sys.argv[1:end]; "
    "from cudalab.base.child import begin; begin(given[0], int(given[1]), given[3:])"
)
T = TypeVar("T")


class Ended(Exception):
    """A child has ended, or was killed because it was silent for too long (`hung`).

    `how` is the end of a sentence, `said` the end of its standard error, `code` its exit code, or minus its signal.
    """

    def __init__(self, how: str, said: str = "", hung: bool = False, code: int = 0) -> None:
        super().__init__(how)
        self.how, self.said, self.hung, self.code = how, said, hung, code


class Child(Generic[T]):
    """A running process that does `main`, such as "cudalab.engine.worker.main", and answers with messages of one type.

    `main` is called with a `Parent` and the texts in `given`. The child leads a session of its own, and ends when the
    thread that started it does. `prefix` is the command of a tool that starts it, such as a profiler; `share` are file
    descriptors that it inherits. What it prints to the streams in `echo` appears on this process's standard error. Its
    temporary files go to the scratch folder of the run.

    `end` or `kill` must be called; as a context manager it is killed.
    """

    def __init__(
        self, main: str, *given: str, answers: Any, prefix: Sequence[str] = (), env: Mapping[str, str] | None = None,
        share: Sequence[int] = (), echo: Sequence[int] = (),
    ) -> None:  # fmt: skip
        self._decoder: msgspec.json.Decoder[T] = msgspec.json.Decoder(answers)
        program.heed_children()
        scratch.acquire()
        theirs, self._orders = os.pipe()
        self._answers, answer = os.pipe()
        self._output, stdout = os.pipe()
        self._errors, stderr = os.pipe()
        try:
            names = {**cache.of_libraries(), **(os.environ if env is None else env), **safe_path.VARIABLE}
            self._process = subprocess.Popen(
                [*prefix, *command("cudalab.base.child.serve", main, str(theirs), str(answer), *given)],
                stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, pass_fds=(theirs, answer, *share),
                start_new_session=True, env=scratch.environment(names),
            )  # fmt: skip
        except BaseException:
            for fd in (self._orders, self._answers, self._output, self._errors):
                os.close(fd)
            scratch.release()
            raise
        finally:
            for fd in (theirs, answer, stdout, stderr):
                os.close(fd)
        self._lines = bytearray()
        self._seal: bytes | None = None  # what each answer begins with: the first line that comes
        self._searched = 0  # bytes of `_lines` that are known to hold no newline
        self._tails = {self._output: b"", self._errors: b""}
        self._echo = {{OUT: self._output, ERR: self._errors}[stream] for stream in echo}
        self._open = selectors.EpollSelector()
        for fd in (self._answers, self._output, self._errors):
            os.set_blocking(fd, False)
            self._open.register(fd, selectors.EVENT_READ)

    def __enter__(self) -> Child[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        """Return the number of the child's process, or of the tool that started it."""
        return self._process.pid

    @property
    def ended(self) -> bool:
        """Whether it has ended and all that it left is cleaned up."""
        return self._process.returncode is not None

    @property
    def said(self) -> str:
        """The end of its standard error; before it has ended, as far as it was read."""
        return self._tails[self._errors].decode(errors="replace")

    @property
    def printed(self) -> str:
        """The end of its standard output."""
        return self._tails[self._output].decode(errors="replace")

    def send(self, order: Any) -> None:
        """Send an order. The last words are from now on those that follow it."""
        self._tails = dict.fromkeys(self._tails, b"")
        left = msgspec.json.encode(order) + b"\n"
        with contextlib.suppress(BrokenPipeError):  # it has died: `receive` says how
            while left:
                left = left[os.write(self._orders, left) :]

    def receive(self, limit: float = math.inf, watch: Callable[[], bool] | None = None) -> T:
        """Wait for the next answer. Raises Ended if the child ends, or if it gives no sign of life for `limit` seconds.

        Part of an answer is a sign of life. `watch` is called every SLICE seconds, and says whether it saw another one.
        """
        since, size = monotonic(), len(self._lines)
        while True:
            if answers := self.poll(max(0.0, min(limit, SLICE))):
                return answers[0]
            if len(self._lines) != size or (watch and watch()):
                since, size = monotonic(), len(self._lines)
            if monotonic() - since > limit:
                self.kill()
                raise Ended(f"did not end within {limit:g} s", self.said, hung=True, code=self._process.returncode)

    def poll(self, wait: float = 0.0) -> list[T]:
        """The next answer, or nothing if there is none within `wait` seconds. Raises Ended if the child has ended."""
        gone = self._gone()  # asked before reading: all that it sent is then in the pipe
        if (end := self._line_end()) < 0:
            self._read(0.0 if gone else wait)
            end = self._line_end()
        if self._seal is not None and not self._lines.startswith(self._seal[: len(self._lines)]):
            self.kill()
            text = f"wrote something that is not an answer to its answer pipe: {bytes(self._lines[:40])!r}"
            raise Ended(text, self.said, code=self._process.returncode)
        if end >= 0:
            self._read(0.0)  # what it printed before: the select that saw the answer coming may not have seen that
            line = self._taken(end)
            try:
                return [self._decoder.decode(line)]
            except msgspec.DecodeError as error:
                self.kill()
                text = f"sent an answer that cannot be read: {error}"
                raise Ended(text, self.said, code=self._process.returncode) from None
        if gone:
            self.kill()
            code = self._process.returncode
            raise Ended(how(code), self.said, code=code)
        return []

    def dismiss(self) -> None:
        """Send no more orders: the child ends by itself."""
        if self._orders >= 0:
            os.close(self._orders)
            self._orders = -1

    def end(self, grace: float = GRACE) -> None:
        """Send no more orders, and wait until the child has ended by itself; kill it after `grace` seconds."""
        if self.ended:
            return
        self.dismiss()
        deadline = monotonic() + grace
        try:
            while not self._gone() and monotonic() < deadline:
                self._read(SLICE)
        finally:
            self.kill()

    def kill(self) -> None:
        """End the child and every process of its session, at once."""
        if self.ended:
            return
        self.stop()
        try:
            self._process.wait(GRACE)
        except subprocess.TimeoutExpired:  # it hangs inside the driver, where signals have no effect
            raise Unavailable(f"process {self.pid} cannot be killed: is the GPU's driver stuck? See dmesg") from None
        while self._open.select(0):  # what it wrote is still in the pipes
            self._read(0)
        self._open.close()
        for fd in {self._orders, self._answers, self._output, self._errors} - {-1}:
            os.close(fd)
        self._orders = -1
        scratch.release()

    def stop(self) -> None:
        """Kill the processes, and leave the rest to `kill`: another thread may be waiting in `receive`."""
        if not self.ended:
            leftovers.end_group(self.pid)  # it is not reaped yet, so that the number is still its own

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the child and every process of its group, wait until it lies still, and let them go on at the end.

        One that has just been started is first let to ask the system that it ends with this process.
        """
        while not self._gone() and self._seal is None and self._line_end() < 0:
            self._read(SLICE)
        self._signal(signal.SIGSTOP)
        if not self.ended:
            os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        try:
            yield
        finally:
            self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if not self.ended:  # not reaped: the number is still its own
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def fileno(self) -> int:
        """Readable when there is something to `poll` for."""
        return self._open.fileno()

    def _line_end(self) -> int:
        """Where the first line of `_lines` ends; -1 if it is not whole yet. A byte is searched once."""
        end = self._lines.find(b"\n", self._searched)
        if end < 0:
            self._searched = len(self._lines)
        elif self._seal is None:
            self._seal = self._taken(end)
            return self._line_end()
        return end

    def _taken(self, end: int) -> bytes:
        """The line that ends there, without the seal; it is removed."""
        line = bytes(self._lines[len(self._seal or b"") : end])
        del self._lines[: end + 1]
        self._searched = 0
        return line

    @property
    def _closed(self) -> bool:
        """Whether it has closed its pipe for answers: it is about to end."""
        return self._answers not in self._open.get_map()

    def _gone(self) -> bool:
        """Whether it has ended; it is not reaped, so that its process group can still be killed."""
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return self.ended or os.waitid(os.P_PID, self.pid, flags) is not None

    def _read(self, wait: float) -> None:
        """Take in what the child has written; wait for it for `wait` seconds."""
        for key, _ in self._open.select(min(wait, SOON) if self._closed else wait):
            data = os.read(key.fd, 1 << 16)
            if not data:
                self._open.unregister(key.fd)
            elif key.fd == self._answers:
                self._lines += data
            else:
                self._tails[key.fd] = (self._tails[key.fd] + data)[-TAIL:]
                if key.fd in self._echo:
                    sys.stderr.write(data.decode(errors="replace"))


def wait(children: Iterable[Child[Any]], timeout: float) -> None:
    """Wait until one of them has something to `poll` for, or for `timeout` seconds."""
    with selectors.DefaultSelector() as found:
        for child in children:
            found.register(child, selectors.EVENT_READ)
            timeout = min(timeout, SOON) if child._closed else timeout
        found.select(timeout)


class Parent:
    """The child's end: orders from the process that started it, and answers to them."""

    def __init__(self, orders: int, answers: int) -> None:
        for fd in (orders, answers):
            os.set_inheritable(fd, False)  # a compiler that outlives this process must not hold its pipes open
        self._orders, self._answers = open(orders, "rb"), answers  # noqa: SIM115 (open until the process ends)
        self._seal = secrets.token_hex(8).encode()
        self._write(self._seal + b"\n")

    def orders(self, kind: Any) -> Iterator[Any]:
        """Orders of this type, until the parent sends no more."""
        decoder = msgspec.json.Decoder(kind)
        return map(decoder.decode, self._orders)

    def answer(self, message: Any) -> None:
        self._write(self._seal + msgspec.json.encode(message) + b"\n")

    def _write(self, left: bytes) -> None:
        while left:
            left = left[os.write(self._answers, left) :]


def serve(main: str, orders: str, answers: str, *given: str) -> None:
    """Call `main` with the parent's pipes, in a process that `Child` started."""
    _named(main)(Parent(int(orders), int(answers)), *given)


def command(main: str, *given: str) -> list[str]:
    """The command of a process that calls a function, such as "cudalab.engine.worker.main", with these texts.

    That process ends when the one that asks for this command ends.
    """
    return [sys.executable, "-c", BOOT, main, str(os.getpid()), str(len(given)), *given, *sys.path]


def begin(main: str, parent: int, given: Sequence[str]) -> None:
    """What such a process does."""
    end_with(parent)
    safe_path.enforce()
    _named(main)(*given)


def _named(function: str) -> Callable[..., object]:
    module, _, name = function.rpartition(".")
    found: Callable[..., object] = getattr(importlib.import_module(module), name)
    return found


def end_with(pid: int) -> None:
    """Exit when process `pid` ends; at once, if it has ended."""
    if os.getppid() == pid:
        with contextlib.suppress(AttributeError, OSError):  # not Linux
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != pid:  # it ended before this call
                os._exit(1)
            return
    try:
        alive = os.pidfd_open(pid)
    except ProcessLookupError:
        os._exit(1)
    except OSError:  # an old kernel, or a container that does not allow it
        return
    Thread(target=lambda: (select([alive], [], []), os._exit(1)), daemon=True).start()


def how(code: int) -> str:
    """How a process with this `returncode` ended, as the end of a sentence."""
    if code >= 0:
        return f"ended with exit code {code}"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    return f"{KILLED}{name}"


def last(text: str, lines: int = 1) -> str:
    """The last lines of `text` that are not blank, joined with " | "."""
    return " | ".join([line.strip() for line in text.splitlines() if line.strip()][-lines:])
