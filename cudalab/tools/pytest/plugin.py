"""The plugin that pytest loads where cudalab is installed: `pytest --cudalab mykernels/`, `cudalab.testing`, and the
fixture `cudalab_time`.

It imports nothing else of the lab before a kernel is tested or timed, so other test suites do not get slower.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import nullcontext
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cudalab.base.errors import CudalabError

if TYPE_CHECKING:
    from cudalab.tools.pytest.cases import Bench, Case
    from cudalab.tools.pytest.fixture import TimeFixture
    from cudalab.tools.pytest.timings import Timings

BENCH: pytest.StashKey[Bench] = pytest.StashKey()
TIMINGS: pytest.StashKey[Timings] = pytest.StashKey()
ENDS: pytest.StashKey[bool] = pytest.StashKey()
TIMING = ("on", "only", "skip", "check")
FIXTURE = "cudalab_time"
AGAIN = "as in an earlier test: "  # begins the reason of a skip that is not shown again


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("cudalab", "CUDA kernels (cudalab)")
    group.addoption(
        "--cudalab", action="store_true", help="Also test the kernels found: name.cu with its spec name.py."
    )
    group.addoption("--cudalab-device", default="auto", choices=("auto", "cpu", "cuda"),
                    help="Where to run; auto (the default) uses the GPU for all that can run there.")  # fmt: skip
    group.addoption("--cudalab-only", default="", metavar="GLOBS",
                    help="Test only these variants: backends or backend:entry, such as 'host,torch_*'.")  # fmt: skip
    group.addoption("--cudalab-timeout", type=_seconds, metavar="SECONDS",
                    help="Stop a variant, and fail it, after this long without progress.")  # fmt: skip
    group.addoption("--cudalab-seed", type=_seed, default=0, metavar="N",
                    help="Seed of the random inputs. Default: 0, the same inputs in each test run.")  # fmt: skip
    group.addoption("--cudalab-timing", default="on", choices=TIMING,
                    help="Tests that use the fixture cudalab_time: run them (on, the default), run only them (only), "
                    "leave them out (skip), or check their kernels without timing (check).")  # fmt: skip
    group.addoption("--cudalab-baseline", default="", metavar="FILE|NUMBER|last",
                    help="A test of cudalab_time fails if a time is SLOWER than in the results in FILE, or in a run "
                    "that --cudalab-autosave has saved: its number, or last.")  # fmt: skip
    group.addoption("--cudalab-save", default="", metavar="FILE",
                    help="Write what cudalab_time measures to a results file, such as the next baseline. A FILE that "
                    "is there goes to the folder of saved runs first.")  # fmt: skip
    group.addoption("--cudalab-autosave", action="store_true",
                    help="Save it under a new number in the folder of saved runs: 0001_DATE_COMMIT.json.")  # fmt: skip
    group.addoption("--cudalab-storage", default="", metavar="FOLDER",
                    help="The folder of saved runs. Default: .cudalab in pytest's root folder.")  # fmt: skip
    group.addoption("--cudalab-json", default="", metavar="FILE",
                    help="Write it as JSON in the format of pytest-benchmark.")  # fmt: skip
    group.addoption("--cudalab-min-effect", default="", metavar="SHARE",
                    help="Smallest difference from the baseline that counts, such as 5%%. Default: 2%%.")  # fmt: skip
    group.addoption("--cudalab-force", action="store_true",
                    help="Compare even if machine, driver, clocks, versions or options differ.")  # fmt: skip


def _seconds(text: str) -> float:
    if not float(text) > 0:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number of seconds")
    return float(text)


def _seed(text: str) -> int:
    if int(text) < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative")
    return int(text)


def pytest_configure(config: pytest.Config) -> None:
    if config.option.cudalab and config.option.cudalab_only:
        from cudalab.engine.selection import Selection

        try:
            Selection.parse(config.option.cudalab_only, "")
        except CudalabError as error:
            raise pytest.UsageError(f"--cudalab-only: {error}") from None
    _configure_timing(config)


def _configure_timing(config: pytest.Config) -> None:
    """Read the baseline and try the files to write, so that a mistake is found before anything is measured."""
    option = config.option
    files = [f"--cudalab-{name}" for name in ("baseline", "save", "json") if getattr(option, f"cudalab_{name}")]
    asked = files or option.cudalab_min_effect or option.cudalab_force
    if asked and not _in_xdist(config) and not option.collectonly:
        if files and config.getoption("dist", "no") != "no":
            raise pytest.UsageError(f"{files[0]} needs times, and tests that run in parallel have none: add -n 0")
        try:
            _timings(config)
        except CudalabError as error:
            raise pytest.UsageError(str(error)) from None


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if parent.config.option.cudalab and _may_be_spec(file_path):
        return SpecFile.from_parent(parent, path=file_path)
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Do not import a spec named on the command line as a test module too, unless its name is that of one."""
    config = parent.config
    if ENDS not in config.stash and _near_kernels(module_path):
        _watch_ends(config)
    if not config.option.cudalab or not _may_be_spec(module_path):
        return None
    is_test = any(fnmatch(module_path.name, pattern) for pattern in config.getini("python_files"))
    return None if is_test else NoTests.from_parent(parent, path=module_path)


@pytest.fixture
def cudalab_time(request: pytest.FixtureRequest) -> Iterator[TimeFixture]:
    """Check and time a kernel on the GPU: `result = cudalab_time("gelu", size="large")`, then `result.median` in
    microseconds, `result.low`, `result.high`, `result.ratio("torch_eager")`. See docs/pytest.md."""
    from cudalab.tools.pytest.cases import absent, need_gpu
    from cudalab.tools.pytest.fixture import TimeFixture

    config = request.config
    check_only = config.option.cudalab_timing == "check"

    def need() -> None:
        if _in_xdist(config):
            raise absent("tests run in parallel (pytest-xdist), which changes times; to time them, add -n 0")
        if config.option.cudalab_device != "cpu":
            need_gpu("--cudalab-device cpu takes wall times of NumPy and PyTorch instead")
        if bench := config.stash.get(BENCH, None):
            bench.close()  # its workers keep memory of the GPU

    try:
        timings = _timings(config)
    except CudalabError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
    timing = TimeFixture(timings, request.node.nodeid, request.path.parent, need, check_only)
    yield timing
    timing.close()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests by `--cudalab-timing`, and cases that cannot run here: each backend keeps the first of them."""
    if config.option.cudalab_timing in ("only", "skip"):
        timed = {item for item in items if FIXTURE in getattr(item, "fixturenames", ())}
        _leave_out(items, timed if config.option.cudalab_timing == "skip" else {*items} - timed)
    if bench := config.stash.get(BENCH, None):
        cases = [(case, isinstance(item, CaseItem)) for item in items for case in _cases_of(item)]
        repeated = bench.repeated(cases)
        _leave_out(items, {item for item in items if not repeated.isdisjoint(_cases_of(item))})


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Count a skip as a test that was left out where an earlier one of its kernel and backend has given the reason."""
    told = report.skipped and isinstance(report.longrepr, tuple) and report.longrepr[2].startswith(f"Skipped: {AGAIN}")
    return ("deselected", "", "LEFT OUT") if told else None


def _leave_out(items: list[pytest.Item], unwanted: set[pytest.Item]) -> None:
    if unwanted:
        items[0].config.hook.pytest_deselected(items=[item for item in items if item in unwanted])
        items[:] = [item for item in items if item not in unwanted]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the files; a session that could not is no success. After a usage error there is nothing to write or say."""
    timings = session.config.stash.get(TIMINGS, None) if session.exitstatus != pytest.ExitCode.USAGE_ERROR else None
    if timings and not timings.finish() and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if timings := config.stash.get(TIMINGS, None):
        from cudalab.tools.pytest import times_table

        times_table.write(terminalreporter, timings)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize the tests that `cudalab.tools.pytest.cases.cases` has marked."""
    wanted = getattr(metafunc.function, "__dict__", {}).get("cudalab")
    if wanted is None:
        return
    try:
        cases = wanted.cases(_bench(metafunc.config), metafunc.definition.path.parent)
    except CudalabError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
    params = [pytest.param(case, id=repr(case), marks=_marks(metafunc.config, case)) for case in cases]
    metafunc.parametrize("case", params)


def pytest_collection_finish(session: pytest.Session) -> None:
    if bench := session.config.stash.get(BENCH, None):
        bench.expect(case for item in session.items for case in _cases_of(item))


class SpecFile(pytest.File):
    """A spec beside its `.cu`."""

    def collect(self) -> Iterator[CaseItem]:
        from cudalab.tools.pytest.cases import Wanted

        option = self.config.option
        wanted = Wanted((str(self.path),), only=option.cudalab_only, device=option.cudalab_device)
        try:
            cases = wanted.cases(_bench(self.config), self.path.parent, fit=False)
        except CudalabError as error:
            raise self.CollectError(str(error)) from None
        for case in cases:
            yield CaseItem.from_parent(self, name=f"{case.variant.label}[{case.at}]", case=case)


class CaseItem(pytest.Item):
    """One case: a variant at one dtype and shape."""

    def __init__(self, case: Case, **options: Any) -> None:
        super().__init__(**options)
        self.case = case
        for mark in _marks(self.config, case):
            self.add_marker(mark)

    def runtest(self) -> None:
        self.case.check(entry_due=True)

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, self.name


class NoTests(pytest.File):
    """Replaces a module that must not be imported."""

    def collect(self) -> tuple[()]:
        return ()


def _may_be_spec(path: Path) -> bool:
    """Whether a `.cu` lies beside it and its text mentions cudalab's record; other pairs of files are left alone."""
    if path.suffix != ".py" or not path.with_suffix(".cu").is_file():
        return False
    text = path.read_text("utf-8", errors="replace")
    return "cudalab" in text and "Kernel" in text


def _bench(config: pytest.Config) -> Bench:
    if BENCH not in config.stash:
        from cudalab.base import bounded
        from cudalab.engine.supervisor import TIMEOUT
        from cudalab.tools.pytest.cases import Bench

        _watch_ends(config)
        timeout, seed = config.option.cudalab_timeout or TIMEOUT, config.option.cudalab_seed
        bounded.allow(timeout, "--cudalab-timeout")  # each function of a spec, too
        config.stash[BENCH] = bench = Bench(timeout, seed, AGAIN)
        config.add_cleanup(bench.close)
        config.add_cleanup(lambda: bounded.allow(None))
    return config.stash[BENCH]


def _watch_ends(config: pytest.Config) -> None:
    """From now on what a kernel's module does to end this process is an error."""
    if ENDS not in config.stash:
        from cudalab.tools.pytest import ends

        config.stash[ENDS] = True
        capture = config.pluginmanager.getplugin("capturemanager")
        ends.watch(capture.global_and_fixture_disabled if capture else nullcontext)
        config.add_cleanup(ends.release)


def _near_kernels(test: Path) -> bool:
    """Whether a test module mentions the lab, or lies beside a `.cu`: it may import a kernel's module."""
    return "cudalab" in test.read_text("utf-8", errors="replace") or any(test.parent.glob("*.cu"))


def _timings(config: pytest.Config) -> Timings:
    if TIMINGS not in config.stash:
        from cudalab.tools.pytest.timings import Timings

        config.stash[TIMINGS] = Timings(config.option, config.rootpath)
    return config.stash[TIMINGS]


def _in_xdist(config: pytest.Config) -> bool:
    """Whether this process is one of several that run tests."""
    return hasattr(config, "workerinput")


def _cases_of(item: pytest.Item) -> Iterator[Case]:
    if isinstance(item, CaseItem):
        yield item.case
    elif isinstance(item, pytest.Function) and hasattr(item, "callspec"):
        from cudalab.tools.pytest.cases import Case

        yield from (value for value in item.callspec.params.values() if isinstance(value, Case))


def _marks(config: pytest.Config, case: Case) -> list[pytest.MarkDecorator]:
    """The mark `gpu` for cases that run on a GPU, in a suite that has registered this mark."""
    known = {line.partition(":")[0].partition("(")[0].strip() for line in config.getini("markers")}
    return [pytest.mark.gpu] if case.device == "cuda" and "gpu" in known else []
