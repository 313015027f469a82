"""Sanitizers find faults that leave the results right: a read beyond an array, or a race without a wrong result.

`asan.py` is for the CPU, `compute.py` for NVIDIA's compute-sanitizer on a GPU. Both launch every entry once on the
inputs of each group, in a child process (`child.py`), without the lab's guard bands and poison.
"""

from __future__ import annotations

from cudalab.base.child import KILLED
from cudalab.base.errors import CudalabError, Unavailable
from cudalab.base.text import without_questions
from cudalab.engine.groups import Group
from cudalab.engine.supervisor import LOST
from cudalab.results.record import ERROR, OK, WRONG, Case
from cudalab.tools.sanitize import asan, compute
from cudalab.tools.sanitize.process import NOT_LOOKED_AT, NOT_SANITIZED

NOTHING = {
    "cpu": "sanitizer: nothing found (on a CPU it looks for bad accesses, undefined behaviour and races)",
    "cuda": "sanitizer: nothing found",
}
BACKENDS = {"cpu": "host", "cuda": "pycuda"}  # the backend whose rows a device's sanitizers check


def require(kind: str) -> None:
    """Raise Unavailable, with what to install, where a kind of device ("cpu", "cuda") has no sanitizers."""
    if kind == "cpu":
        from cudalab import host

        host.address_sanitizer()
    elif reason := compute.missing():
        raise Unavailable(reason)


class Sanitizer:
    """The sanitizers of one run. A context manager."""

    def __init__(self, kind: str, device: str, seed: int, timeout: float) -> None:
        """`kind` is "cpu" or "cuda", `device` as `--device` says it; `timeout` is seconds of silence for a launch."""
        require(kind)
        self.kind, self.seed, self.timeout = kind, seed, timeout
        self.gpu = int(device.partition(":")[2] or 0)
        self._watch = asan.Watch(timeout) if kind == "cpu" else None

    def __enter__(self) -> Sanitizer:
        return self

    def __exit__(self, *_: object) -> None:
        if self._watch:
            self._watch.close()

    def add(self, cases: list[Case], group: Group) -> None:
        """Launch the entries again under the sanitizers. A finding makes a row WRONG, and comes first in its reason;
        a row without one gets a note, and an error where the sanitizer itself fails.

        A row whose process or GPU context was lost stays an error. Groups of hard values are left out: they are many,
        and differ in values only.
        """
        rows = {case.variant: case for case in cases if case.backend == BACKENDS[self.kind] and _ran(case)}
        if not rows or group.values:
            return
        try:
            findings = self._findings(group, list(rows))
            for entry, case in rows.items():
                if (text := findings.get(entry, "")).startswith(NOT_LOOKED_AT):
                    case.notes.append(text)
                elif text.startswith(NOT_SANITIZED):
                    if case.status == OK:
                        case.status, case.reason = ERROR, text
                elif text:
                    case.status = ERROR if case.status == ERROR else WRONG
                    if text not in case.reason:  # the check alone sees a race too
                        case.reason = f"{text}; {without_questions(case.reason)}" if case.reason else text
                else:
                    case.notes.append(NOTHING[self.kind])
        except CudalabError as error:
            for case in rows.values():
                if case.status == OK:
                    case.status, case.reason = ERROR, str(error)

    def _findings(self, group: Group, entries: list[str]) -> dict[str, str]:
        if self._watch:
            return self._watch.findings(group, entries, self.seed)
        return compute.findings(group, entries, self.seed, self.gpu, self.timeout)


def _ran(case: Case) -> bool:
    """Whether a launch ended, well or badly: not after a compiler's error, nor where the launch hung."""
    return case.status in (OK, WRONG) or (case.status == ERROR and any(end in case.reason for end in (KILLED, LOST)))
