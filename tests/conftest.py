"""The tests' own cache, the mark and fixture `gpu`, and settings that keep tests quick."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
from dataclasses import replace

import needs
import pytest
from platformdirs import user_cache_path

from cudalab import timing
from cudalab.base import cache, scratch
from cudalab.device import cuda
from cudalab.device.open import open_gpu
from cudalab.tools.pytest.cases import need_gpu

if "PYTEST_XDIST_WORKER" in os.environ:  # several that share the cores: threads of PyTorch would spin, waiting for one
    os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory):
    """Nothing compiled by an earlier version of the lab is found, and the user's cache and locks stay as they are."""
    if "CUDALAB_CACHE" not in os.environ:
        base = tmp_path_factory.getbasetemp()
        shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base  # shared by all workers
        os.environ["CUDALAB_CACHE"] = str(shared / "cache")
    bases = user_cache_path("cudalab"), cache.TEMPORARY / f"cudalab-{os.geteuid()}"  # of locks, whichever cache is used
    absent = [folder for base in bases for folder in (base / "claims", base) if not folder.exists()]
    yield
    for folder in absent:
        with contextlib.suppress(OSError):  # not there, or another run uses it
            folder.rmdir()


@pytest.fixture(scope="session", autouse=True)
def _ctrl_c():
    """A shell's background jobs ignore Ctrl-C, and programs that tests interrupt would inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _no_width():
    """Remove the terminal width that readline and pytest-xdist set: without one the lab uses its own."""
    for name in ("COLUMNS", "LINES"):
        os.environ.pop(name, None)
        os.unsetenv(name)  # what a C library set, which os.environ does not know


if not os.environ.get("CUDALAB_FAKE_GPU"):
    collect_ignore = ["fake_gpu"]  # needs the stand-in for libcuda: make test-stand-in


@pytest.fixture(scope="session", autouse=True)
def _one_scratch_folder():
    """Hold the folder of compilers for the session: a process that removes it would start with every compilation."""
    with scratch.held():
        yield


def pytest_runtest_setup(item):
    if item.get_closest_marker("gpu"):
        need_gpu()


@pytest.hookimpl(tryfirst=True)  # before `-m` deselects tests
def pytest_collection_modifyitems(items):
    needs.add_marks(items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    with needs.held_to_its_marks(item):
        return (yield)


def pytest_terminal_summary(terminalreporter):
    reports = [one for kind in ("passed", "failed") for one in terminalreporter.stats.get(kind, [])]
    if files := needs.slowest(reports):
        terminalreporter.section("files that took the most processor time")
        for seconds, tests, file in files:
            terminalreporter.line(f"{seconds:7.1f} s  {tests:5} tests  {file}")
    if over := needs.over_limit(reports):
        terminalreporter.line(f"over the limit of processor time ({needs.ADVICE}):")
        for one in over:
            terminalreporter.line(f"    {one}")
    for skip in needs.unknown_skips(terminalreporter.stats.get("skipped", [])):
        terminalreporter.line(f"skipped for a reason that is not in SKIPS of tests/support/needs.py: {skip}", red=True)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    """A skip for a reason that nobody has listed is a failure: the tests that it hides may be needed."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter and session.exitstatus == pytest.ExitCode.OK and needs.unknown_skips(reporter.stats.get("skipped", [])):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


gc.disable()  # while thousands of tests are collected


def pytest_collection_finish():
    gc.enable()


@pytest.fixture(scope="module", autouse=True)
def _little_garbage():
    """Freeze what lives: runs collect garbage often, and need not scan collected tests and imported libraries."""
    gc.collect()
    gc.freeze()


def pytest_report_header():
    return f"GPU: {cuda.missing() or 'ready'}"


@pytest.fixture(scope="session")
def gpu():
    """The GPU as the lab opens it, one for the session."""
    device = open_gpu(0, cuda.missing())
    yield device
    device.close()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """Chromium without a window, with a profile of its own."""
    import browsing

    driver = browsing.started(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()


@pytest.fixture
def lying_clocks(monkeypatch):
    """A function that makes a device's clocks report `factor` times the seconds they measure."""

    def lie(device, factor):
        real = timing.clocks

        def clocks(asked, bound, modes, notes):
            times = factor if asked is device else 1
            return {
                kind: replace(clock, sample=lambda clock=clock: [times * t for t in clock.sample()])
                for kind, clock in real(asked, bound, modes, notes).items()
            }

        monkeypatch.setattr(timing, "clocks", clocks)

    return lie


@pytest.fixture(scope="module")
def one_torch_thread():
    """PyTorch on one thread: several would wait for each other on a busy machine."""
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def quick_studies(one_torch_thread):
    """Studies whose samples last a microsecond, where a test does not look at the times."""
    from cudalab.study import lab

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lab, "SPAN", 1e-6)
        yield
