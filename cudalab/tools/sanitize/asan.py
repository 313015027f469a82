"""On the CPU: the `.cu` runs with the compiler's address sanitizer and its checks for undefined behaviour.

Undefined behaviour fails the launch with a message of ours (host/undefined.h). An access outside of the kernel's memory
ends the process, and this module reads the sanitizer's report. Then it runs once more, to find races (host/races.h,
host/global_races.h). Reads of unwritten memory are not found.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from cudalab import host
from cudalab.base.child import Child, last
from cudalab.engine.groups import Group, Work
from cudalab.tools.sanitize.child import Answer, Request
from cudalab.tools.sanitize.process import NOT_LOOKED_AT, NOT_SANITIZED, launch, start

_OPTIONS = ":".join(
    (
        "detect_leaks=0",  # Python's own leaks
        "detect_stack_use_after_return=0",  # the threads' stacks outlive what the sanitizer would keep for them
        "allow_addr2line=1",  # clang++ without llvm-symbolizer
        "handle_sigill=1",
        "alloc_dealloc_mismatch=0",  # this and the next are faults of other libraries
        "new_delete_type_mismatch=0",
    )
)
_HEADERS = f"{Path(host.__file__).parent}/"

_ADDRESS = re.compile(r"ERROR: AddressSanitizer: .* address (0x[0-9a-f]+)")
_ACCESS = re.compile(r"^(READ|WRITE) of size (\d+)", re.MULTILINE)
_FRAME = re.compile(r"^ +#\d+ 0x[0-9a-f]+ in .* (?P<file>/[^:\n]*|[^\s:]+):(?P<line>\d+)(?::\d+)?$", re.MULTILINE)
_WHERE = re.compile(r"^cudalab: in (.*)$", re.MULTILINE)
_SHARED = re.compile(r"^cudalab: shared memory at (0x[0-9a-f]+), (\d+) bytes$", re.MULTILINE)
_GLOBAL = re.compile(
    r"located (?P<far>\d+) bytes (?P<side>.*?) (?:of )?global variable '(?P<name>[^'*]+)'.* size (?P<size>\d+)"
)
_LOCAL = re.compile(r"'(?P<name>[^']+)'(?: \(line \d+\))? <== Memory access at offset \d+ (?P<side>\w+)")

NO_MEMORY = ("out", "allocation-size-too-big", "calloc-overflow")  # reports of the sanitizer about its own memory


class Watch:
    """Launches entries on the CPU under the sanitizers. `close` must be called."""

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self._environment = {"LD_PRELOAD": str(host.address_sanitizer()), "ASAN_OPTIONS": _OPTIONS}
        self._process: Child[Answer] | None = None

    def close(self) -> None:
        if self._process:
            self._process.end(self.timeout)

    def findings(self, group: Group, entries: list[str], seed: int) -> dict[str, str]:
        """What is wrong with each of the entries; those that are right are left out."""
        found = {entry: self._finding(group, entry, seed) for entry in entries}
        return {entry: text for entry, text in found.items() if text}

    def _finding(self, group: Group, entry: str, seed: int) -> str:
        self._process = self._process or start(self._environment)
        done = launch(self._process, Request(Work.on(group, (), False), entry, seed, None), self.timeout)
        if ended := done.ended:
            self._process = None
            if ended.hung:
                return f"{NOT_SANITIZED}{ended.how} under the address sanitizer"
            return read(ended.said, done.buffers, f"the process {ended.how}")
        if done.missing:
            return NOT_LOOKED_AT + done.missing
        return f"undefined behaviour: {done.error}" if done.error and not done.named else done.error


def read(report: str, buffers: Mapping[str, tuple[int, int]], otherwise: str = "") -> str:
    """One line for an address sanitizer's report. `buffers`: address and bytes of each array by name.

    Without a report about the kernel it says `otherwise`, and that the kernel is not sanitized.
    """
    report = report[max(0, report.rfind("ERROR: AddressSanitizer:")) :]
    kind = re.match(r"ERROR: AddressSanitizer: (\S+)", report)
    if not kind or kind[1] in NO_MEMORY:
        words = last(report) if not kind else report.splitlines()[0]
        return f"{NOT_SANITIZED}{otherwise}" + (f"; its last output: {words}" if words else "")
    access = _ACCESS.search(report)
    what = f"{access[1].lower()} of {access[2]} bytes" if access else "an access"
    found = f"address sanitizer: {what} {_place(report, kind[1], buffers)}"
    if line := _line(report):
        found += f" at {line}"
    where = _WHERE.search(report)
    return f"{found} ({where[1]})" if where else found


def _place(report: str, kind: str, buffers: Mapping[str, tuple[int, int]]) -> str:
    """Where the address is: relative to the nearest array or to a variable, or outside of all memory."""
    at = _ADDRESS.search(report)
    address = int(at[1], 16) if at else 0
    known = dict(buffers)
    if shared := _SHARED.search(report):
        known[""] = (int(shared[1], 16), int(shared[2]))
    if kind == "use-after-poison" and known:
        name = min(known, key=lambda n: _distance(address, *known[n]))
        start, nbytes = known[name]
        thing = f"{name!r}" if name else f"the {nbytes} bytes of dynamic shared memory"
        return f"{_beyond(start - address, address - start - nbytes)} of {thing}"
    if kind == "global-buffer-overflow" and (variable := _GLOBAL.search(report)):
        before = variable["side"].split()[-1] in ("left", "before") or "before" in variable["side"]
        far, size = int(variable["far"]), int(variable["size"])
        return f"{_beyond(far if before else 0, far)} of {variable['name']!r} ({size} bytes)"
    if kind.startswith("stack-") and (variable := _LOCAL.search(report)):
        return f"{'before the start' if variable['side'] == 'underflows' else 'past the end'} of {variable['name']!r}"
    return "at an unmapped address" if kind == "SEGV" else f"({kind})"


def _distance(address: int, start: int, nbytes: int) -> int:
    return max(start - address, address - start - nbytes, 0)


def _beyond(before: int, past: int) -> str:
    if before > 0:
        return f"{before} bytes before the start"
    return f"{past} bytes past the end" if past else "just past the end"


def _line(report: str) -> str:
    """The first line in the report's stack that is outside of our headers: the user's."""
    for frame in _FRAME.finditer(report):
        if not frame["file"].startswith(_HEADERS) and "libsanitizer" not in frame["file"]:
            return f"{Path(frame['file']).name}:{frame['line']}"
    return ""
