"""What each test needs, as marks: its folder and its fixtures say so, and what it does is held to it.

A test without a mark may use LIMIT seconds of processor time, its own and its children's, and starts no program but
compilers: it runs beside others. Processor time does not depend on what else the machine does; how fast the machine is
does count, and is measured where a test is over the limit.
"""

from __future__ import annotations

import os
import re
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pytest

LIMIT = 2.0  # seconds, on a machine that needs REFERENCE for `_work`
REFERENCE = 0.075
MARGIN = 4.0  # over LIMIT a test is named at the end, over MARGIN * LIMIT it fails: a busy machine takes up to twice as
# long, and what several tests share is counted for the first of them
ADVICE = (
    f"a test without a mark may take {LIMIT:g} s: make it smaller, or mark it (`sweep` if it repeats what others show; "
    "docs/develop.md has all marks)"
)
# Marks of tests that are not held to LIMIT.
COSTLY = (
    "process", "wall", "sweep", "torch_compile", "studies", "nvcc", "browser", "network", "tutorial", "gpu", "stand_in",
)  # fmt: skip
FOLDERS = {"fuzz": "sweep", "studies": "studies", "fake_gpu": "stand_in"}
FIXTURES = {
    "gpu": "gpu",
    "workers": "process",  # the workers that a test starts
    "browser": "browser",
    "built": "network",  # a wheel, and an environment that has it
}
# Why a test may be skipped: what the machine, its GPU or its libraries lack. Any other reason fails the run.
SKIPS = (
    "needs a GPU, and ", "there is a GPU", "a GPU is here", "there is one GPU", "this GPU has no ", "no GPU",
    r"[\w+-]+ is not installed", "could not import ", "this PyTorch has no ", r"\w+ has no \w+$", "grimp comes with ",
    r"no C\+\+ compiler", "needs a host compiler", r"no g\+\+ that finds races", r"only g\+\+ finds races",
    r"all other tests are with g\+\+", ".* has no address sanitizer", "cuda_occupancy.h or ",
    "a busy CPU: ",
    "no nvcc", "nvcc ", "needs nvcc ", "the kept machine code is that of nvcc ", "no nvdisasm", "make is not on PATH",
    "needs a package index: ", "needs chromium ", "only root may ", "no (bash|/proc|/dev/full|os.fork)$",
    "Linux alone ", "no MXCSR", "this system has no Landlock", "this system does not tell ", "Python 3.10 ",
    "PYTHONSAFEPATH ",
    "a benchmark's size: ", "no size with more than ", "what libraries do with hard values ",
    "right, and not timed: ", ".* has no published run", r"(liger|quack) has no ",
    "cuda.compute is not installed", "CuPy does not take cluster", "CuPy's array operations have no bfloat16",
    "cupy.fuse cannot trace this formula", r"numba-cuda (cannot compile a kernel|\S+ does not work here)",
    "Liger-Kernel takes rows ",
    "QuACK's .* takes rows ", "this Triton's interpreter does not work with NumPy ",
)  # fmt: skip
# Programs that any test may start: compilers and what comes with them, which only compute; hg and file are
# pytest-benchmark's, where a test runs pytest and this plugin is installed. So may what removes folders, and what
# executes kernels, which only computes too.
COMPILERS = ("g++", "c++", "clang++", "cc", "gcc", "addr2line", "nvcc", "nvdisasm", "cuobjdump", "git", "hg", "file")


def add_marks(items: Iterable[pytest.Item]) -> None:
    """Mark each test by its folder and by the fixtures that it uses; limit its seconds on the wall against hangs."""
    for item in items:
        found = [FOLDERS[part] for part in item.path.parts if part in FOLDERS]
        found += [FIXTURES[name] for name in getattr(item, "fixturenames", ()) if name in FIXTURES]
        for mark in found:
            item.add_marker(mark)
        if not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(600))


def spent() -> float:
    """Seconds of processor time of this process and of its children that have ended."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def slowness() -> float:
    """How much more processor time this machine needs now than the one that LIMIT was chosen on; at least 1.

    Beside other programs it needs up to half as much again: they share its caches, and its cores' units.
    """
    return max(1.0, sorted(_work() for _ in range(5))[2] / REFERENCE)


def _work() -> float:
    start = time.process_time()
    found: dict[int, str] = {}
    for i in range(150_000):
        found[i % 1000] = f"{i} {found.get(i % 77, '')[:10]}"
    return time.process_time() - start


_programs: list[str] = []  # started since the running test began


def _started(event: str, arguments: tuple[object, ...]) -> None:
    if event == "subprocess.Popen":
        program, words = os.path.basename(os.fsdecode(arguments[0])), arguments[1]
        given = words if isinstance(words, (list, tuple)) else ()
        own = any("leftovers.py" in str(word) or word == "cudalab.host.executor.main" for word in given)
        if program not in COMPILERS and not own:
            _programs.append(program)


sys.addaudithook(_started)


@contextmanager
def held_to_its_marks(item: pytest.Item) -> Iterator[None]:
    """Fail a test that uses more than its marks allow; keep its processor time for `slowest`."""
    before = spent()
    _programs.clear()
    yield
    used = spent() - before
    if "case" in getattr(item, "fixturenames", ()):
        return  # cases of kernels share a worker, which is no single test's
    item.user_properties.append(("cpu_seconds", used))
    if any(item.get_closest_marker(mark) for mark in COSTLY):
        return
    if _programs:
        names = ", ".join(sorted(set(_programs)))
        pytest.fail(f"starts {names}: mark it `process`, so that it runs beside few others", pytrace=False)
    if used > LIMIT:
        item.user_properties.append(("over", used))
    if used > MARGIN * LIMIT and used > MARGIN * LIMIT * slowness():
        pytest.fail(f"took {used:.1f} s of processor time; {ADVICE}", pytrace=False)


def slowest(reports: Iterable[pytest.TestReport], count: int = 10) -> list[tuple[float, int, str]]:
    """The files whose tests took the most processor time: seconds, number of tests, file."""
    seconds: dict[str, float] = defaultdict(float)
    tests: dict[str, int] = defaultdict(int)
    for report in reports:
        if report.when == "call":
            file = report.nodeid.partition("::")[0]
            seconds[file] += dict(report.user_properties).get("cpu_seconds", 0.0)
            tests[file] += 1
    return sorted(((seconds[file], tests[file], file) for file in seconds), reverse=True)[:count]


def over_limit(reports: Iterable[pytest.TestReport]) -> list[str]:
    """Tests without a mark that took longer than LIMIT, and how long."""
    calls = ((report, dict(report.user_properties)) for report in reports if report.when == "call")
    return [f"{report.nodeid}: {said['over']:.1f} s" for report, said in calls if "over" in said]


def unknown_skips(reports: Iterable[pytest.TestReport]) -> list[str]:
    """The reasons of skipped tests that SKIPS does not have, each with a test."""
    found = {}
    for report in reports:
        if isinstance(report.longrepr, tuple):
            reason = report.longrepr[2].removeprefix("Skipped: ")
            if not any(re.match(known, reason) for known in SKIPS):
                found.setdefault(reason, f"{report.nodeid}: {reason}")
    return list(found.values())
