"""A `.cu` runs in a process of its own: what it does there reaches the arrays, and nothing else of the judge."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from pathlib import Path
from time import sleep

import numpy as np
import pytest
from on_cpu import run, source

from cudalab import host
from cudalab.base.errors import CrashError, InputError, LaunchError, NotFound, OverrunError, RaceError, Unavailable
from cudalab.device.cpu import HUGE_PAGES, Guarded
from cudalab.host import confined, executor, processes
from cudalab.host import reserved as reserved_memory
from cudalab.host.isolated import Isolated
from cudalab.host.reserved import reserved

SOURCE = source("isolated.cu")
ONE = 1
F32 = np.dtype(np.float32)


@pytest.fixture(scope="module")
def built():
    return host.compile_source(SOURCE, name="tried.cu")


@pytest.fixture
def module(built):
    processes.begin()
    yield Isolated(built, workers=1)
    processes.end()


@pytest.fixture(scope="module")
def watching():
    return Isolated(host.compile_source(SOURCE, name="tried.cu", races=True), workers=1, reach=1 << 16)


def running(pid):
    """Whether a process has not ended; whoever adopted it may not have reaped it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def placed(size):
    array = Guarded((size,), F32).array
    array[...] = np.arange(size)
    return array


@pytest.mark.parametrize("make", [placed, lambda size: np.arange(size, dtype=F32)], ids=["shared", "anybody's"])
@pytest.mark.parametrize("size", [1, 1000, HUGE_PAGES // 4 + 5])
def test_a_kernel_reads_and_writes_the_arrays_of_another_process(module, make, size):
    x, y = make(size), make(size)
    run(module, "add", -(-size // 256), 256, x, y, np.int32(size))
    assert (y == x + 1).all()
    run(module, "add", -(-size // 256), 256, x, x, np.int32(size))  # in place
    assert (x == y).all()


def test_views_of_one_array_are_views_of_one_array_there(module):
    x = np.arange(10, dtype=F32)
    run(module, "add", ONE, 4, x[:4], x[5:], np.int32(4))
    assert x[5:9].tolist() == [1, 2, 3, 4]
    run(module, "add", ONE, 4, x[::-2], x[::2], np.int32(0))
    run(module, "add", ONE, 4, x[:0], x, np.int32(0))
    assert x[5:9].tolist() == [1, 2, 3, 4]


def test_memory_that_is_only_reserved_is_shared_and_not_filled(module):
    x, y = placed(1), reserved((1 << 32,), F32)
    run(module, "last", ONE, ONE, x, y, np.int64(y.size - 1))
    assert y[-1] == 1


def test_a_write_far_beside_an_array_is_seen(module):
    x, y = placed(1), Guarded((8,), F32)
    if not y.watched:
        pytest.skip("this system does not tell which memory was touched")
    run(module, "last", ONE, ONE, x, y.array, np.int64(1 << 20))
    assert y.overrun() == "reads or writes more than 64 KB after"
    y.mend()
    run(module, "last", ONE, ONE, x, y.array, np.int64(3))
    assert y.overrun() is None
    run(module, "last", ONE, ONE, x, y.array, np.int64(-1))
    assert y.overrun() == "wrote 4 bytes before"


def test_what_a_kernel_keeps_ends_with_its_process(module):
    y = placed(1)
    for expected in (1, 2):
        run(module, "count", ONE, ONE, y)
        assert y[0] == expected
    processes.begin()
    run(module, "count", ONE, ONE, y)
    assert y[0] == 1


def test_variants_have_processes_of_their_own(module):
    y, seen = placed(1), []
    for variant in "abab":
        processes.begin(variant)
        run(module, "count", ONE, ONE, y)
        seen.append(y[0])
    assert seen == [1, 1, 2, 2]
    for i in range(processes.LIVING + 1):
        processes.begin(i)
    assert len(processes.running.executors) == processes.LIVING
    processes.begin("a")  # which was ended in between
    run(module, "count", ONE, ONE, y)
    assert y[0] == 1
    large = placed(HUGE_PAGES)
    run(module, "count", ONE, ONE, large)
    processes.release()
    assert "a" not in processes.running.executors
    run(module, "count", ONE, ONE, y)


def test_an_executor_forgets_memory_that_is_given_back(module):
    for i in range(3):
        y = placed(1000)
        run(module, "count", ONE, ONE, y)
        assert y[0] == i + 1
    assert processes.running.executors[None].nbytes < 3 * Guarded((1000,), F32).whole.nbytes


def test_where_there_is_little_address_space_the_memory_alone_is_mapped(monkeypatch):
    real, file = reserved_memory.space, os.memfd_create("array")
    os.ftruncate(file, mmap.PAGESIZE)

    def little(size):
        if size > 1 << 20:
            raise Unavailable("no address space")
        return real(size)

    monkeypatch.setattr(reserved_memory, "space", little)
    region = reserved_memory.region_of(executor._mapped(executor.Shared(7, mmap.PAGESIZE, 1 << 27, True), file))
    assert (region.around, region.watched, region.fd) == (0, False, file)


def test_constants_are_set_for_the_launches_that_follow(module):
    x, y = placed(4), placed(4)
    module.set_constant("step", np.float32(5))
    run(module, "add", ONE, 4, x, y, np.int32(4))
    assert (y == x + 5).all()
    with pytest.raises(InputError, match="constant step: got 8 bytes"):
        module.set_constant("step", np.ones(2, F32))
    with pytest.raises(NotFound, match="pace"):
        module.set_constant("pace", np.float32(5))


@pytest.mark.parametrize(
    ("entry", "block", "args"),
    [
        ("ad", 1, [placed(1)]),
        ("add", 2000, [placed(1), placed(1), np.int32(1)]),
        ("add", 1, [placed(1), placed(1), np.int64(1)]),
        ("count", 1, []),
    ],
)
def test_errors_are_those_of_a_launch_in_this_process(built, module, entry, block, args):
    with pytest.raises((LaunchError, NotFound)) as known:
        run(host.Module(built), entry, ONE, block, *args)
    with pytest.raises(type(known.value)) as found:
        run(module, entry, ONE, block, *args)
    assert str(found.value) == str(known.value)


@pytest.mark.parametrize(
    ("entry", "args", "how"),
    [
        ("last", [placed(1), placed(1), np.int64(-(1 << 44))], "was killed by SIGSEGV"),
        ("stops", [placed(1)], "was killed by SIGABRT"),
        ("leaves", [placed(1)], "ended with exit code 0"),
    ],
)
def test_a_kernel_that_ends_its_process_costs_its_launch(module, entry, args, how):
    with pytest.raises(CrashError, match=rf"^{entry}: the process that ran it {how}$"):
        run(module, entry, ONE, ONE, *args)
    x, y = placed(4), placed(4)
    run(module, "add", ONE, 4, x, y, np.int32(4))
    assert (y == x + 1).all()


def test_the_module_that_looks_for_races_names_the_line_of_a_crash(watching):
    far = "last: writes 4 bytes far outside all arrays at tried.cu:15: block (0,0,0), thread (0,0,0)"
    with pytest.raises(OverrunError) as found:
        run(watching, "last", ONE, ONE, placed(1), placed(1), np.int64(-(1 << 44)))
    assert str(found.value) == far
    with pytest.raises(RaceError, match=r"sum: race on .* at tried\.cu:16"):
        run(watching, "sum", ONE, 32, placed(32), placed(1))


def test_a_kernel_cannot_answer_for_its_process(module):
    with pytest.raises(CrashError, match="answers wrote to a file that is not its own"):
        run(module, "answers", ONE, ONE, placed(1))


@pytest.mark.skipif(not confined.version(), reason="this system has no Landlock")
def test_a_kernel_reaches_no_file_and_no_other_process(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    y = np.full(5, -1, F32)
    run(module, "attacks", ONE, ONE, y, np.int32(os.getpid()))
    assert y[:3].tolist() == [1, 1, 1]
    assert y[3:].all() or confined.version() < min(confined.SCOPES)
    assert not any(tmp_path.iterdir())


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="no MXCSR")
def test_a_kernel_does_not_change_how_the_judge_computes(module):
    x, y = placed(4), placed(4)
    x[...] = np.float32(1e-40)
    run(module, "flushes", ONE, 4, x, y)
    assert (y == 0).all()
    assert (x * np.float32(0.5) != 0).all()


def test_the_code_is_not_loaded_here():
    built = host.compile_source("__global__ void alone(float* y) { y[0] = 7; }")
    y = placed(1)
    run(Isolated(built), "alone", ONE, ONE, y)
    assert y[0] == 7
    assert built.library.name not in Path("/proc/self/maps").read_text()


@pytest.mark.process
def test_a_launch_without_a_process_to_run_it_failed_and_was_not_skipped(module):
    """A row that is skipped is no failure: a kernel would pass that was not run at the size where it is wrong."""
    processes.begin()
    nursery = processes.running.nursery
    nursery._process.kill()
    with pytest.raises(LaunchError, match="the process that executes kernels on the CPU was killed by SIGKILL"):
        nursery.wait(nursery.ask(processes.FORK))
    y = placed(1)
    run(module, "count", ONE, ONE, y)  # in a new one
    assert y[0] == 1


@pytest.mark.process
def test_no_process_is_left_when_a_program_ends(built, tmp_path):
    program = f"""
import numpy as np, os, subprocess
from cudalab import host
from cudalab.host import confined, executor, processes
from cudalab.host import reserved as reserved_memory
from cudalab.host.isolated import Isolated
module = Isolated(host.compile_source({SOURCE!r}, name="tried.cu"), workers=1)
module.launch("count", (1, 1, 1), (1, 1, 1), [np.zeros(1, np.float32)])
print(processes.running.executors[None]._forked.value, processes.running.nursery._process.pid, flush=True)
"""
    for end in ("", "os._exit(0)", "os.kill(os.getpid(), 9)"):
        done = subprocess.run([sys.executable, "-c", program + end], capture_output=True, text=True, timeout=60)
        assert done.stderr == ""
        for pid in map(int, done.stdout.split()):
            while running(pid):
                sleep(0.01)
