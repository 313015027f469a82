"""The cross-check end to end on the CPU stand-in, with a stand-in for NVBench: its process, its stream, its file."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

from cudalab.base.errors import LaunchError
from cudalab.device import cuda
from cudalab.device.open import open_gpu
from cudalab.device.operands import Bound
from cudalab.engine import cross_check, plan
from cudalab.engine.cross_check import nvbench
from cudalab.engine.cross_check.ready import Request
from cudalab.engine.rows import row


@pytest.fixture
def _stub(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parent / "nvbench")
    importlib.invalidate_caches()


def timed(*labels, timeout=3.0):
    (group,) = plan.groups(["plus_one"], "1000", "")
    request = Request(group.file, "1000", (1000,), "float32", list(labels), 0, 0)
    return {label: found.times for label, found in nvbench.times(request, timeout).items()}


@pytest.mark.usefixtures("_stub")
def test_labels_come_back_with_their_times():
    found = timed("pycuda:plus_one_scalar", "copy")
    assert set(found) == {"pycuda:plus_one_scalar", "copy"}
    for times in found.values():
        assert set(times) == {nvbench.COLD, nvbench.BATCH, nvbench.WALL}
        assert all(t > 0 for t in times.values())
        assert times[nvbench.WALL] > times[nvbench.COLD]


@pytest.mark.usefixtures("_stub")
def test_the_rows_of_a_group_are_filled_in():
    (group,) = plan.groups(["plus_one"], "1000", "")
    cases = [row(group, "pycuda:plus_one_vec"), row(group, "numpy")]
    cases[0].times = {"cold": [[1e-6]]}
    cross_check.add("nvbench", cases, group, 0, "cuda")
    assert cases[0].cross[nvbench.COLD] > 0
    assert not cases[0].notes
    assert cases[1].cross == {}


@pytest.mark.usefixtures("_stub")
def test_a_failure_says_what_the_process_said():
    with pytest.raises(LaunchError, match=r"exit code 1: .+"):
        timed("pycuda:no_such_entry")


def test_the_stream_that_is_timed_is_the_labs(monkeypatch, tmp_path):
    """In this process, to look at what NVBench was given."""
    monkeypatch.syspath_prepend(Path(__file__).parent / "nvbench")
    importlib.invalidate_caches()
    device, path = open_gpu(0, cuda.missing()), tmp_path / "nvbench.json"
    try:
        work = device.copy(1 << 16)
        waiting = Bound(lambda: (work.run(), device.stream.synchronize()), work.output)
        request = nvbench.Request("", "", (), "", [], 0, 0, timeout=7.0)
        walls = nvbench.timed(device, {"held": work, "waits": waiting}, request, str(path))
        written = {b["name"]: b for b in json.loads(path.read_text())["benchmarks"]}
        seen = {name: {s["tag"]: s["data"][0]["value"] for s in b["states"][0]["summaries"]}
                for name, b in written.items()}  # fmt: skip
        assert set(seen) == set(walls) == {"held", "waits"}
        assert {values["test/stream"] for values in seen.values()} == {str(device.stream.handle)}
        assert (seen["held"]["test/sync"], seen["waits"]["test/sync"]) == ("0", "1")
        assert written["held"]["timeout"] == 7.0
    finally:
        device.close()
