"""The fixture `cudalab_time` from a test file down to the driver, with unmodified PyCUDA on the CPU stand-in."""

from __future__ import annotations

import pytest

from cudalab.results import file

pytest_plugins = "pytester"


@pytest.mark.sweep
def test_a_kernel_is_timed_and_saved(pytester):
    pytester.makepyfile(
        """
        def test_plus_one(cudalab_time):
            result = cudalab_time("plus_one", size="1000", only="pycuda", mode="graph", budget=0.05, processes=2)
            assert (result.label, result.kind) == ("pycuda:plus_one_vec", "graph")
            assert 0 < result.low <= result.median <= result.high
            assert result.of("cold").median > 0
            assert result.ratio("plus_one_scalar").verdict in ("FASTER", "SAME", "SLOWER", "UNCLEAR")
        """
    )
    done = pytester.runpytest_subprocess("--cudalab-save", "main.json")
    if "IMPOSSIBLE" in done.stdout.str():
        pytest.skip("a busy CPU: an empty kernel took longer than one that works")
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(["*cudalab times: cudalab CPU stand-in*", "plus_one 1000 float32*graph*"])
    run = file.load(pytester.path / "main.json")
    assert (run.machine.device, run.options["processes"]) == ("cuda", 2)
    assert {case.label for case in run.cases} == {"pycuda:plus_one_scalar", "pycuda:plus_one_vec", "copy"}
