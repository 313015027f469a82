"""On a GPU: NVIDIA's compute-sanitizer. Each of its four tools watches a process that launches the entries once.

That process runs the `.cu` through PyCUDA, compiled with line numbers, on allocations of exactly the arrays' sizes: the
lab's guard bands would hide an overrun from memcheck, and its poison would hide an unwritten element from initcheck.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from cudalab.base import cache, scratch
from cudalab.base.child import last
from cudalab.base.errors import LaunchError, Unavailable
from cudalab.device import cuda
from cudalab.engine.groups import Group, Work
from cudalab.tools.sanitize.child import Buffers, Request
from cudalab.tools.sanitize.process import NOT_SANITIZED, launch, start

COMMON = ("--print-limit", "20", "--error-exitcode", "0")
TOOLS: Mapping[str, tuple[str, ...]] = {
    "memcheck": ("--leak-check", "no", "--report-api-errors", "no"),
    "racecheck": ("--racecheck-report", "analysis"),
    "initcheck": (),
    "synccheck": (),
}
PLACES = ("/usr/local/cuda/bin/compute-sanitizer", "/usr/local/cuda/extras/compute-sanitizer/compute-sanitizer")

_HEAD = re.compile(r"^========= (?! )(.*\S)\s*$")
_MORE = re.compile(r"^=========\s{2,}(.*\S)\s*$|^========= (and .*\S)\s*$")
_QUIET = (
    "COMPUTE-SANITIZER",
    "ERROR SUMMARY",
    "RACECHECK SUMMARY",
    "LEAK SUMMARY",
    "Target application",
    "Program hit",
)
# `at entry(float *)+0x90 in entry.cu:12`, and as older releases have it, `at 0x90 in entry.cu:12:entry(float*)`.
_FRAME = re.compile(r"(?:\bat|Device Frame:)\s*(?P<function>[^+\[\]]*?)(?:\+|:)0x[0-9a-f]+(?: in (?P<place>\S+:\d+))?")
_OLD_FRAME = re.compile(r"\bat 0x[0-9a-f]+ in (?:(?P<place>\S+?:\d+):)?(?P<function>\S.*)")
_THREAD = re.compile(r"by thread (\(\d+,\d+,\d+\)) in block (\(\d+,\d+,\d+\))")
_NEAREST = re.compile(r"and is ([\d,]+) bytes (after|before|inside) the nearest allocation at (0x[0-9a-f]+)")
_ADDRESS = re.compile(r"(?:Address|Access (?:to|at)) (0x[0-9a-f]+)(?: is (.*))?")
_RACE = re.compile(r"Race reported between (\w+) access")
_ALSO = re.compile(r"^and (\w+) access")


@dataclass(frozen=True)
class Report:
    """One error of a tool: its first line, what follows it, and the functions and places that these name."""

    head: str
    more: tuple[str, ...] = ()

    @property
    def frames(self) -> list[tuple[str, str]]:
        """(function without parameters, file:line or ""), as in the report."""
        found = (
            _OLD_FRAME.search(line) or _FRAME.search(line) for line in (self.head, *self.more) if "Host" not in line
        )
        return [(_name(f["function"]), Path(f["place"]).name if f["place"] else "") for f in found if f]

    @property
    def warning(self) -> bool:
        return self.head.lower().startswith(("warn", "info"))


@dataclass
class Log:
    """What a tool wrote in one run: its errors, why it failed, and its own count."""

    reports: list[Report] = field(default_factory=list)
    failed: str = ""
    count: int | None = None  # of errors, by its own summary; None: it wrote no summary


def missing() -> str | None:
    """Why compute-sanitizer cannot be used, and what to install; None if it can."""
    if _program():
        return None
    return "compute-sanitizer is not on PATH; it comes with the CUDA toolkit (Debian, Ubuntu: cuda-sanitizer-12-8, ...)"


def _program() -> str | None:
    beside = [str(Path(nvcc).resolve().with_name("compute-sanitizer"))] if (nvcc := cuda.nvcc()) else []
    return next((found for place in ("compute-sanitizer", *beside, *PLACES) if (found := shutil.which(place))), None)


def findings(group: Group, entries: Sequence[str], seed: int, gpu: int, timeout: float) -> dict[str, str]:
    """What the tools say of each entry, errors of the kernel first; entries of which none says anything are left out.

    Raises Unavailable without compute-sanitizer, LaunchError if it does not work.
    """
    if reason := missing():
        raise Unavailable(reason)
    cuda_cache = cache.folder("pycuda-lineinfo")  # of its own: PyCUDA's cache does not know of nvcc's extra option
    with ThreadPoolExecutor(len(TOOLS)) as pool:
        parts = list(pool.map(lambda t: _by(t, group, list(entries), seed, gpu, timeout, cuda_cache), TOOLS))
    said = {e: [part[e] for part in parts if e in part] for e in entries}
    return {e: "; ".join(sorted(texts, key=_no_verdict)) for e, texts in said.items() if texts}


def _no_verdict(text: str) -> bool:
    return text.startswith(NOT_SANITIZED)


def _by(
    tool: str, group: Group, entries: list[str], seed: int, gpu: int, timeout: float, cuda_cache: Path
) -> dict[str, str]:
    """The findings of one tool, and NOT_SANITIZED for an entry whose launch failed without one.

    After an error that ends the context, a new process launches the remaining entries. Each gets one of its own where
    the tool ended without a summary: what it has not written yet is not known.
    """
    found: dict[str, str] = {}
    left = entries
    while left:
        log, errors, places = _run(tool, group, left, seed, gpu, timeout, cuda_cache)
        said = sentences(tool, log, left, places)
        if log.failed and not said:
            raise LaunchError(f"compute-sanitizer does not work: {log.failed}")
        found |= said
        if log.count and not log.reports:
            raise LaunchError(f"compute-sanitizer's {tool} counts {log.count} errors, but names none")
        whole = log.count is not None
        rest = [e for e in left if e not in said and not (whole and errors.get(e) == "")]
        if not whole and len(left) > 1:
            for entry in rest:
                found |= _by(tool, group, [entry], seed, gpu, timeout, cuda_cache)
            return found
        if rest[:1] == left[:1]:  # the first did not end well, and the tool does not say why
            why = errors.get(rest[0]) or f"{tool} ended without a summary"
            found[rest.pop(0)] = f"{NOT_SANITIZED}the launch under {tool} failed: {why}"
        left = rest
    return found


def _run(
    tool: str, group: Group, entries: list[str], seed: int, gpu: int, timeout: float, cuda_cache: Path
) -> tuple[Log, dict[str, str], dict[str, Buffers]]:
    """The tool's log, and by entry: how each launch failed that was tried ("": not), and where its arrays were."""
    errors: dict[str, str] = {}
    places: dict[str, Buffers] = {}
    with scratch.folder() as folder:
        file = folder / "log"
        program = _program()
        assert program
        command = (program, "--tool", tool, *TOOLS[tool], *COMMON, "--log-file", str(file))
        flags = f"{os.environ.get('NVCC_APPEND_FLAGS', '')} -lineinfo".strip()
        environment = {"NVCC_APPEND_FLAGS": flags, "PYCUDA_CACHE_DIR": str(cuda_cache)}
        with start(environment, command) as process:
            for entry in entries:
                done = launch(process, Request(Work.on(group, (), False), entry, seed, gpu), timeout)
                places[entry] = done.buffers
                errors[entry] = f"the process {done.ended.how}" if done.ended else done.error or done.missing
                if errors[entry]:
                    break  # the context may be gone
            process.end(timeout)
        text = file.read_text(errors="replace") if file.exists() else ""
    log = read(text)
    if not text and "" not in errors.values():
        log.failed = last(process.said) or next(iter(errors.values()))
    return log, errors, places


def read(text: str) -> Log:
    """The reports in what compute-sanitizer writes."""
    log = Log()
    block: list[str] = []
    for line in [*text.splitlines(), "========= COMPUTE-SANITIZER"]:
        if more := _MORE.match(line):
            block.append(more[1] or more[2])
        elif head := _HEAD.match(line):
            _take(log, block)
            block = [head[1]]
    return log


def _take(log: Log, block: list[str]) -> None:
    if not block:
        return
    head = block[0]
    if summary := re.match(r"(?:ERROR|RACECHECK) SUMMARY: (\d+) (?:errors?|hazards?)(?! (?:was|were) not)", head):
        log.count = int(summary[1])
    elif re.match(r"(?:Internal Sanitizer )?Error: (?!Race reported)", head):
        log.failed = head
    elif not head.startswith(_QUIET):
        log.reports.append(Report(head, tuple(block[1:])))


def sentences(tool: str, log: Log, entries: Sequence[str], places: Mapping[str, Buffers]) -> dict[str, str]:
    """For each entry with errors: the first one in a line, and how many more there are.

    `places`: by entry, address and bytes of each array by name.
    """
    by_entry: dict[str, list[Report]] = {}
    for report in log.reports:
        named = next((name for name, _ in reversed(report.frames) if name in entries), "")
        if not report.warning and (named or len(entries) == 1):
            by_entry.setdefault(named or entries[0], []).append(report)
    return {e: f"{tool}: {_sentence(found[0], places.get(e, {}))}{_others(found)}" for e, found in by_entry.items()}


def _others(found: list[Report]) -> str:
    places = {tuple(r.frames) for r in found} - {tuple(found[0].frames)}
    return f", and {len(places)} more places" if len(places) > 1 else ", and 1 more place" if places else ""


def _sentence(report: Report, buffers: Buffers) -> str:
    places = [place for _, place in report.frames if place]
    if race := _RACE.search(report.head):
        others = [m[1] for line in report.more if (m := _ALSO.match(line))]
        accesses = [race[1], *others][:2]
        told = [f"a {a.lower()}" + (f" at {p}" if p else "") for a, p in zip(accesses, [*places, "", ""])]
        return f"race between {' and '.join(told)}"
    line = report.head.rstrip(".")
    text = line[0].lower() + line[1:] + (f" at {_users(report)}" if places else "")
    thread = next((m for more in report.more if (m := _THREAD.search(more))), None)
    if thread:
        text += f" (block {thread[2]}, thread {thread[1]})"
    return text + "".join(f", {where}" for where in _where(report, buffers))


def _users(report: Report) -> str:
    """The innermost place in a `.cu`, if there is one: the innermost of all may be in one of CUDA's headers."""
    places = [place for _, place in report.frames if place]
    return next((p for p in places if p.split(":")[0].endswith(".cu")), places[0])


def _where(report: Report, buffers: Buffers) -> Iterator[str]:
    """Text about the address: misaligned, or how far from an array."""
    names = {address: name for name, (address, _) in buffers.items()}
    for line in report.more:
        if address := _ADDRESS.search(line):
            inside = next((n for n, (start, size) in buffers.items() if 0 <= int(address[1], 16) - start < size), "")
            yield from [f"{address[2]}"] if address[2] else [f"in {inside!r}"] if inside else []
        if nearest := _NEAREST.search(line):
            name = names.get(int(nearest[3], 16), "")
            yield f"{nearest[1]} bytes {nearest[2]} {name!r}" if name else f"{nearest[1]} bytes {nearest[2]} an array"


def _name(function: str) -> str:
    """Return `softmax` of `void softmax<float>(const float *, float *)`."""
    found = re.match(r"(?:void )?\s*([\w:]+)", function.strip())
    return found[1] if found else ""
