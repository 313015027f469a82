"""The parent's end of `cudalab.tools.sanitize.child`: start it under a sanitizer, ask for launches, notice its end."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from time import monotonic
from types import TracebackType

import msgspec

from cudalab.base import child
from cudalab.engine.plan import Group, Work
from cudalab.tools.sanitize.child import Answer, Buffers, Request


class Died(Exception):
    """The process ended in the middle of a launch, or was ended: it was silent for too long (`hung`)."""

    def __init__(self, how: str, buffers: Buffers, hung: bool = False) -> None:
        super().__init__(how)
        self.buffers, self.hung = buffers, hung


class Process:
    """A process that launches one entry at a time. A context manager: at its end the process is gone."""

    def __init__(self, prefix: Sequence[str], environment: Mapping[str, str], timeout: float) -> None:
        self.timeout = timeout
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `close`)
        self._child = subprocess.Popen(
            [*prefix, *child.command("cudalab.tools.sanitize.child.main")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, env={**os.environ, **environment},
            start_new_session=True,
        )  # fmt: skip
        self._lines = bytearray()

    def __enter__(self) -> Process:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: BaseException | TracebackType | None) -> None:
        if kind:
            self.kill()
        self.end()

    def launch(self, group: Group, entry: str, seed: int, gpu: int | None) -> tuple[str, Buffers]:
        """(what went wrong, "" if nothing; where the arrays were). Raises Died if the process does not answer."""
        request = Request(Work.on(group, (), False), entry, seed, gpu)
        assert self._child.stdin
        with contextlib.suppress(BrokenPipeError):  # it has died: reading says so
            self._child.stdin.write(msgspec.json.encode(request) + b"\n")
            self._child.stdin.flush()
        buffers: Buffers = {}
        while True:
            answer = self._answer(buffers)
            if answer.done:
                return answer.error, buffers
            buffers = answer.buffers

    def _answer(self, buffers: Buffers) -> Answer:
        assert self._child.stdout
        deadline = monotonic() + self.timeout
        while b"\n" not in self._lines:
            ready, _, _ = select.select([self._child.stdout], [], [], max(0, min(deadline - monotonic(), 3600)))
            if not ready:
                self.kill()
                raise Died(f"no end within {self.timeout:g} s", buffers, hung=True)
            data = os.read(self._child.stdout.fileno(), 1 << 16)
            if not data:
                self._child.wait()
                raise Died(f"the process {child.how(self._child.returncode)}", buffers)
            self._lines += data
        line, _, rest = self._lines.partition(b"\n")
        self._lines = rest
        return msgspec.json.decode(line, type=Answer)

    def said(self) -> str:
        """All of its standard error so far."""
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")

    def end(self) -> None:
        """Let it end by itself, and wait for that."""
        with contextlib.suppress(BrokenPipeError):
            self._child.stdin and self._child.stdin.close()
        try:
            self._child.wait(self.timeout)
        except subprocess.TimeoutExpired:
            self.kill()
        self._child.stdout and self._child.stdout.close()

    def close(self) -> None:
        """End it, and forget what it said."""
        self.end()
        self._errors.close()

    def kill(self) -> None:
        """End it and what it has started."""
        child.kill(self._child)
        self._child.wait()
