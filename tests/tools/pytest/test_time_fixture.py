"""The fixture `cudalab_time`, as users run it: each test here is a pytest run of its own.

Times of a GPU are those of the recorded H200 run, which stands for `runs.bench`. The test marked `gpu` measures,
and so does tests/fake_gpu.
"""

from __future__ import annotations

import copy
import json
import os
from pathlib import Path

import pytest
import scipy.special  # noqa: F401 (pytester forgets what a run has imported; compiled modules do not allow it)
from commands import invoke
from example import example
from msgspec.structs import replace
from tables import table

from cudalab import backends
from cudalab.base import globs, load
from cudalab.device import cuda
from cudalab.engine import runs
from cudalab.results import file, record
from cudalab.spec import find
from cudalab.tools.pytest import fixture, times_table  # noqa: F401 (so that they are imported once)

pytest_plugins = "pytester"

backends.by_name(), find.kernels()  # for the same reason

ROOT = Path(__file__).parents[3]
H200 = file.load(ROOT / "bench" / "results" / "h200" / "gelu.json")
NO_GPU = "no NVIDIA driver (a test says so)"
TEST = """
def test_gelu(cudalab_time):
    result = cudalab_time("gelu", size="large", dtype="float16")
"""
CPU = ("--cudalab-device", "cpu")


@pytest.fixture(autouse=True)
def plain(pytester, monkeypatch):
    """No GPU of this machine is used, and no other plugin is slow."""
    monkeypatch.setattr(cuda, "missing", lambda: NO_GPU)
    monkeypatch.delenv("CUDALAB_REQUIRE", raising=False)
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:hypothesispytest -p no:cacheprovider")


class Recorded:
    """Stands for `runs.bench`: the rows of the H200's run, slower by factors for labels, or changed by `change`."""

    def __init__(self):
        self.run, self.slower, self.change, self.calls = H200, {}, lambda case: None, []

    def bench(self, name, *, ready, sizes, dtypes, only, skip, rivals, modes, **options):
        self.calls.append((sizes, dtypes, only))
        ready(self.run.machine)
        cases = [copy.deepcopy(case) for case in self.run.cases if case.group == ("gelu", sizes, dtypes)]
        cases = [c for c in cases if c.status == record.CEILING or globs.fits(c.label, globs.split(only))]
        for case in cases:
            factor = self.slower.get(case.label, 1)
            case.times = {k: [[factor * t for t in samples] for samples in rounds] for k, rounds in case.times.items()}
            self.change(case)
        asked = {"kernels": [name], "sizes": sizes, "dtypes": dtypes, "only": only, "skip": skip, "rivals": rivals}
        return replace(self.run, cases=cases, options={**self.run.options, **asked, "modes": ",".join(modes)})


@pytest.fixture
def h200(monkeypatch):
    recorded = Recorded()
    monkeypatch.setattr(cuda, "missing", lambda: None)
    monkeypatch.setattr(runs, "bench", recorded.bench)
    return recorded


@pytest.fixture
def ran(pytester):
    """A function that runs pytest, with options, on a file of tests; and asserts how many pass, fail or are skipped."""

    def run(tests, *options, **outcomes):
        pytester.makepyfile(tests)
        result = pytester.runpytest_inprocess(*options)
        if outcomes:
            result.assert_outcomes(**outcomes)
        return result

    return run


def failure(result):
    """What stands below the name of the one test that failed."""
    text = result.stdout.str().partition("= FAILURES =")[2].partition("\n")[2].partition("\n")[2]
    return text.partition("\n===")[0].partition("\ncudalab: ")[0]


# ---- the result ------------------------------------------------------------------------------------------------------


def test_the_numbers_are_those_of_the_run(ran, h200):
    case = next(c for c in H200.cases if c.group == ("gelu", "large", "float16") and c.label == "pycuda:gelu_vec")
    alone = replace(H200, cases=H200.groups()[case.group])  # as it is run: other rows may widen intervals
    eager = alone.baseline(case)
    low, high = (1e6 * end for end in alone.timing(case, "cold").interval)
    ratio = alone.speedup(case, "cold")
    tests = f"""
        from pytest import approx
        from cudalab.kernels.gelu import gelu

        def test_gelu(cudalab_time):
            result = cudalab_time(gelu, size="large", dtype="float16")  # by its file
            assert result.label == "pycuda:gelu_vec", "the entry that gelu(x) runs"
            assert (result.low, result.median, result.high) == approx(({low}, {1e6 * case.median("cold")}, {high}))
            ratio = result.ratio("torch_eager")
            assert (ratio.low, ratio.value, ratio.high) == approx(({ratio.low}, {ratio.value}, {ratio.high}))
            assert ratio.verdict == {ratio.verdict()!r} and str(ratio).endswith(ratio.verdict)
            assert result["torch_eager"].median == approx({1e6 * eager.median("cold")})
            assert result["gelu_scalar"].label == "pycuda:gelu_scalar" and "pycuda:gelu_full" in result.labels
            assert result.of("hot").median == approx({1e6 * case.median("hot")})
            assert result.parity.max_ulp < 1
            assert result.stats.median == result.stats["median"] == approx({case.median("cold")})  # in seconds
            assert {{"min", "max", "mean", "stddev", "iqr", "rounds", "ops"}} <= set(result.stats)
    """
    result = ran(tests, passed=1)
    result.stdout.fnmatch_lines(["*cudalab times: NVIDIA H200*", "gelu large float16*cold*x eager*"])


def test_on_a_busy_machine_the_table_says_so_and_marks_times_of_the_host(ran, h200):
    h200.run = replace(H200, wall={"total": 10.0, load.OTHERS: 80.0, load.CORES: 20.0})
    text = ran(TEST.replace('"float16"', '"float16", mode="api"')).stdout.str()
    assert "busy: load 8 of other programs on 2 cores: call and api times are imprecise and give no ratio of" in text
    (row,) = (line.split() for line in text.splitlines() if line.startswith("  numpy") or "torch_eager " in line)
    assert row[1].endswith("?") and "? after a time: imprecise" in text and "A busy machine is a reason" in text


def test_a_kind_of_time_that_was_not_taken_is_an_error_and_a_lacking_row_a_skip(ran, h200):
    tests = """
        import pytest

        def test_mode(cudalab_time):
            result = cudalab_time("gelu", size="large", dtype="float16")
            with pytest.raises(ValueError, match="no graph times; ask for them: .*mode='graph'"):
                result.case.times.pop("graph"), result.of("graph").median
            with pytest.raises(LookupError, match="no row named 'torch_eagre'; did you mean 'torch_eager'"):
                result.ratio("torch_eagre")

        def test_row(cudalab_time):
            result = cudalab_time("gelu", size="small", dtype="float16", only="pycuda,numpy")
            result.ratio("numpy")
    """
    result = ran(tests, "-rs", passed=1, skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED*numpy was skipped: *"])


@pytest.mark.parametrize(("label", "status", "reason", "text"), table("pytest", "bad rows"))
def test_a_bad_row_or_none_of_an_entry_fails_the_test(ran, h200, label, status, reason, text):
    def spoil(case):
        if case.label.startswith(label):
            case.status, case.reason, case.times = status, reason, {}

    h200.change = spoil
    assert failure(ran(TEST, failed=1)) == text


@pytest.mark.parametrize(("arguments", "text"), table("pytest", "arguments of cudalab_time"))
def test_what_cannot_be_timed_is_refused(pytester, ran, h200, arguments, text):
    tests = f"""
        from dataclasses import replace
        from cudalab.kernels.gelu import gelu

        def test_it(cudalab_time):
            cudalab_time({arguments})
    """
    result = ran(tests, failed=1)
    assert text.format(path=pytester.path) in failure(result) and not h200.calls


# ---- the baseline ----------------------------------------------------------------------------------------------------


def test_a_slowdown_fails_the_test_and_the_same_does_not(ran, h200):
    saved = ran(TEST, "--cudalab-save", "main.json", passed=1)
    assert "wrote main.json" in saved.outlines and "not compared" not in saved.stdout.str()
    same = ran(TEST, "--cudalab-baseline", "main.json", "--cudalab-save", "same.json", passed=1)
    same.stdout.fnmatch_lines(["gelu large float16*x main.json", "  pycuda:gelu_vec*SAME"])

    h200.slower = {"pycuda:gelu_vec": 1.3}
    slow = ran(TEST, "--cudalab-baseline", "main.json", "--cudalab-save", "new.json", failed=1)
    text = failure(slow)
    assert text.startswith("SLOWER than in main.json:\n    pycuda:gelu_vec  gelu large float16 cold: 9.7 -> 12.6 ")
    assert " 0.77 (0." in text and "pycuda:gelu_full" not in text
    assert "cudalab compare main.json new.json" in text and "pytest --cudalab-save main.json" in text
    for new, code in (("same.json", 0), ("new.json", 1)):
        assert invoke("compare", "main.json", new).exit_code == code
    ran(TEST, "--cudalab-baseline", "main.json", "--cudalab-min-effect", "50%", passed=1)


def test_another_machine_is_not_comparable_and_nothing_is_measured(pytester, ran, h200):
    details = {**H200.machine.details, "driver": "1.0"}
    file.save(replace(H200, machine=replace(H200.machine, details=details)), pytester.path / "main.json")
    result = ran(TEST, "--cudalab-baseline", "main.json", failed=1)
    assert failure(result) == (
        "not comparable with main.json:\n    driver: 1.0 -> 580.159.04\nmeasure and compare anyway with --cudalab-force"
    )
    assert "cudalab times" not in result.stdout.str()
    ran(TEST, "--cudalab-baseline", "main.json", "--cudalab-force", passed=1)


def test_an_unknown_row_is_told_at_the_line_of_the_test(ran, h200):
    text = ran(TEST + "    result.ratio('torch_compil')").stdout.str()
    assert "no row named 'torch_compil'" in text and "cudalab_time(" in text
    assert "timed.py" not in text and "def unknown" not in text


def test_a_baseline_whose_answer_was_wrong_is_none(pytester, ran, h200):
    cases = copy.deepcopy(H200.cases)
    for case in cases:
        if case.label == "pycuda:gelu_vec":
            case.status, case.reason, case.times = "WRONG", "3 of 9 \x1b[31mvalues", {}
    file.save(replace(H200, cases=cases), pytester.path / "main.json")
    text = failure(ran(TEST, "--cudalab-baseline", "main.json"))
    assert text.startswith(
        "no time to compare with in main.json:\n    pycuda:gelu_vec: WRONG in the old run, right in the new run: 3 of 9"
    )
    assert "\x1b" not in text and text.endswith("write a new baseline: pytest --cudalab-save main.json")


def test_a_file_of_bench_is_a_baseline_and_no_file_that_it_names_is_run(pytester, ran, h200):
    evil = pytester.path / "evil.py"
    evil.write_text("raise SystemExit('ran')")
    evil.with_suffix(".cu").write_text("")
    old = replace(H200, options={**H200.options, "kernels": [str(evil)]})
    file.save(old, pytester.path / "main.json")
    result = ran(TEST, "--cudalab-baseline", "main.json", passed=1)
    result.stdout.fnmatch_lines(["  pycuda:gelu_vec*SAME"])


def test_rows_that_the_baseline_lacks_pass_unless_they_are_all(ran, h200):
    ran(TEST, "--cudalab-save", "main.json")
    tests = """
        import pytest

        @pytest.mark.parametrize("size", ["large", "small"])
        def test_gelu(cudalab_time, size):
            cudalab_time("gelu", size=size, dtype="float16")
    """
    some = ran(tests, "--cudalab-baseline", "main.json")
    assert some.ret == 0
    some.stdout.fnmatch_lines(["gelu small float16*", "  not in main.json, so not compared"])
    none = ran(tests, "--cudalab-baseline", "main.json", "-k", "small", passed=1, deselected=1)
    assert none.ret == pytest.ExitCode.TESTS_FAILED
    none.stdout.fnmatch_lines(["cudalab: nothing that was timed is in main.json: nothing was compared"])


@pytest.mark.parametrize(("arguments", "text"), table("pytest", "options of cudalab_time", str.split, str))
def test_bad_options_are_refused(pytester, ran, h200, arguments, text):
    (pytester.path / "bad.json").write_text("[1]")
    file.save(H200, pytester.path / "main.json")
    pytester.mkdir("kept").joinpath("0007_main.json").write_text("{}")
    result = ran(TEST, *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert text in result.stderr.str() and not h200.calls


def test_a_file_that_cannot_be_written_at_the_end_is_no_success(pytester, ran, h200):
    (pytester.path / "sub").mkdir()
    result = ran(TEST + "    import os\n    os.rename('sub', 'gone')\n", "--cudalab-json", "sub/b.json", passed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["cudalab: cannot write *sub*: No such file or directory"])


# ---- files and repetition --------------------------------------------------------------------------------------------


def test_the_files_hold_every_test_once(pytester, ran, h200):
    tests = """
        def test_large(cudalab_time):
            cudalab_time.extra_info["why"] = "it is large"
            cudalab_time("gelu", size="large", dtype="float16")

        def test_again(cudalab_time):
            cudalab_time("gelu", size="large", dtype="float16")

        def test_small(cudalab_time):
            cudalab_time("gelu", size="small", dtype="float16", name="tiny")
    """
    ran(tests, "--cudalab-save", "r.json", "--cudalab-json", "b.json", passed=3)
    assert [size for size, _, _ in h200.calls] == ["large", "small"]
    run = file.load(pytester.path / "r.json")
    assert list(run.groups()) == [("gelu", "large", "float16"), ("tiny", "small", "float16")]
    assert len({(case.group, case.label) for case in run.cases}) == len(run.cases)
    assert all("why: it is large" in case.notes for case in run.cases if case.size == "large")
    assert run.options["kernels"] == ["gelu"] and run.options["sizes"] == "large,small"
    assert "gelu" in invoke("show", "r.json").stdout
    names = {one["name"] for one in json.loads((pytester.path / "b.json").read_text())["benchmarks"]}
    assert {"pycuda:gelu_vec", "torch_eager"} <= names


def test_saved_runs_are_numbered_and_never_replaced(pytester, ran, h200):
    """By themselves, and where --cudalab-save replaces a file."""
    first = ran(TEST, "--cudalab-autosave", "--cudalab-save", "main.json", passed=1)
    folder = pytester.path / ".cudalab"
    (saved,) = folder.iterdir()
    assert saved.name.startswith("0001_20") and saved.read_bytes() == (pytester.path / "main.json").read_bytes()
    first.stdout.fnmatch_lines(["wrote main.json", f"wrote .cudalab/{saved.name}"])
    h200.slower = {"pycuda:gelu_vec": 1.2}
    later = ("--cudalab-baseline", "last", "--cudalab-autosave", "--cudalab-save", "main.json")
    second = ran(TEST, *later, failed=1)
    second.stdout.fnmatch_lines(["the earlier main.json is now .cudalab/0002_main.json"])
    assert f"SLOWER than in .cudalab/{saved.name}" in failure(second)
    names = sorted(path.name for path in folder.iterdir())
    assert [name[:5] for name in names] == ["0001_", "0002_", "0003_"] and names[1] == "0002_main.json"
    assert (folder / names[1]).read_bytes() == saved.read_bytes() != (folder / names[2]).read_bytes()
    refused = ran(TEST, "--cudalab-autosave", "--cudalab-storage", "main.json", errors=1)
    assert "cannot save runs in main.json: " in refused.stdout.str() and "Traceback" not in refused.stdout.str()
    moved = TEST.replace("    result", "    import os\n    os.mkdir('sub')\n    os.chdir('sub')\n    result")
    ran(moved, "--cudalab-autosave", passed=1)
    os.chdir(pytester.path)
    assert [path.name[:5] for path in sorted(folder.iterdir())][3:] == ["0004_"]
    ran(TEST, "--cudalab-baseline", "3", passed=1)
    ran(TEST, "--cudalab-baseline", "1", failed=1)


def test_the_same_rows_with_other_options_need_a_name(ran, h200):
    other = TEST.replace("test_gelu", "test_two").replace('"float16"', '"float16", only="pycuda,triton"')
    told = failure(ran(TEST + other, passed=1, failed=1))
    assert "::test_gelu asks for the same case, gelu large float16, with other options: no only= in test_the_s" in told
    assert "only='pycuda,triton' in this test. Use the same only= in both, or give one of them a name" in told
    assert told.endswith("cudalab_time(..., name='gelu-2')")


def test_a_test_that_runs_again_is_measured_again(pytester, ran, h200):
    """As pytest-rerunfailures does it: the second try is another measurement, whose rows replace the first."""
    ran(TEST, "--cudalab-save", "main.json")
    pytester.makeconftest(
        """
        from _pytest.runner import runtestprotocol

        def pytest_runtest_protocol(item, nextitem):
            item.config.recorded.slower = {"pycuda:gelu_vec": 1.3}
            first = runtestprotocol(item, nextitem=nextitem, log=False)
            item.config.recorded.slower = {}
            item._initrequest()
            for report in runtestprotocol(item, nextitem=nextitem, log=False):
                item.ihook.pytest_runtest_logreport(report=report)
            assert any(report.failed for report in first)
            return True
        """
    )

    class Give:
        def pytest_configure(self, config):
            config.recorded = h200

    result = pytester.inline_run("--cudalab-baseline", "main.json", "--cudalab-save", "new.json", plugins=[Give()])
    result.assertoutcome(passed=1)
    medians = [
        next(c for c in file.load(pytester.path / name).cases if c.label == "pycuda:gelu_vec").median("cold")
        for name in ("main.json", "new.json")
    ]
    assert medians[0] == medians[1]


# ---- without a GPU, and beside other tests ---------------------------------------------------------------------------


def test_without_a_gpu_it_is_skipped_with_the_reason_and_a_wrong_call_fails(ran, monkeypatch):
    result = ran("def test_it(cudalab_time):\n    cudalab_time('gelu', size='lagre')", failed=1)
    assert "no size named 'lagre'; did you mean 'large'?" in failure(result)
    result = ran(TEST, "-rs", "--cudalab-save", "r.json", skipped=1)
    result.stdout.fnmatch_lines([f"SKIPPED * needs a GPU, and {NO_GPU}; --cudalab-device cpu takes wall times*"])
    result.stdout.fnmatch_lines(["cudalab: nothing was timed, so r.json was not written"])
    monkeypatch.setenv("CUDALAB_REQUIRE", "cuda")
    result = ran(TEST, failed=1)
    assert f"CUDALAB_REQUIRE=cuda, but {NO_GPU}" in result.stdout.str()


def test_after_a_usage_error_nothing_is_said_of_files(pytester):
    result = pytester.runpytest_inprocess("--cudalab-save", "r.json", "no_such_folder")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stdout.no_fnmatch_line("*nothing was timed*")


@pytest.mark.process
def test_on_a_cpu_by_request_others_are_timed_and_the_kernel_is_checked(pytester, ran):
    tests = """
        import pytest

        def test_it(cudalab_time):
            result = cudalab_time("plus_one", size=(10, 100), only="numpy", budget=0.02)
            assert result.case.shape == (10, 100) and result["numpy"].median > 0 and result.kind == "wall"
            assert result["plus_one_vec"].parity.ok
            with pytest.raises(pytest.skip.Exception, match="plus_one_vec is right, and not timed: on a CPU") as found:
                result.median
            assert str(found.value).endswith("the kernel's row; of another row: result['numpy'] (timed: numpy)")
            with pytest.raises(pytest.skip.Exception, match="graph times need a GPU"):
                result["numpy"].ratio("numpy") and result.of("graph")["numpy"].median

        def test_wrong(cudalab_time):
            cudalab_time("wrong.py", size="1x3", only="numpy", budget=0.02)
    """
    spec = example(pytester.path, "/ sum;", "/ sum + 0.5f;")
    spec.with_stem("wrong").write_text(spec.read_text().replace("softmax =", "wrong ="))
    spec.with_suffix(".cu").rename(pytester.path / "wrong.cu")
    result = ran(tests, *CPU, passed=1, failed=1)
    assert failure(result).startswith("WRONG host:softmax: ")
    result.stdout.fnmatch_lines(["  host:plus_one_vec*right, not timed*", "wall times of a CPU: *"])


@pytest.mark.process
def test_functions_are_timed_as_rivals_of_a_kernel(ran):
    """From the test's own file, whatever `only` says; what another process cannot find is refused."""
    tests = """
        import pytest

        def right(x, out):
            out[...] = x + 1

        def wrong(x):
            return x + 2

        def asked(cudalab_time, rivals):
            return cudalab_time("plus_one", size="1000", only="numpy", mode="wall", budget=0.02, rivals=rivals)

        def test_right(cudalab_time):
            result = asked(cudalab_time, {"mine": (right, "out", "numpy")})
            assert result.kind == "wall" and result["mine"].label == "rival:mine"
            assert result["mine"].ratio("numpy").value > 0

        def test_wrong(cudalab_time):
            cudalab_time("plus_one", size="100", only="numpy", rivals=f"{__name__}.py:wrong:numpy", budget=0.02)

        def test_lost(cudalab_time):
            asked(cudalab_time, {"mine": (lambda x: x, "numpy")})
    """
    result = ran(tests, *CPU, passed=1, failed=2)
    text = result.stdout.str()
    assert "WRONG rival:wrong: " in text
    assert "cannot be imported by its name" in text


@pytest.mark.process
def test_answers_can_be_checked_without_timing(ran):
    tests = 'def test_it(cudalab_time):\n    cudalab_time("plus_one", size="1000", only="pycuda")\n    assert 0'
    result = ran(tests, "-rs", "--cudalab-timing", "check", skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED * right, and not timed: --cudalab-timing check"])


def test_timing_tests_alone_or_all_others(ran, h200):
    for which, name in (("only", "test_gelu"), ("skip", "test_other")):
        result = ran(TEST + "def test_other(): pass", "--cudalab-timing", which, "-v", passed=1, deselected=1)
        result.stdout.fnmatch_lines([f"*::{name} PASSED*"])


@pytest.mark.sweep
def test_beside_other_tests_nothing_is_timed(pytester):
    """With pytest-xdist; the first run starts its workers, the second is refused before."""
    pytest.importorskip("xdist")
    pytester.makepyfile(TEST)
    result = pytester.runpytest_subprocess("-rs", "-n", "1")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED * tests run in parallel (pytest-xdist), *to time them, add -n 0"])
    result = pytester.runpytest_subprocess("-n", "2", "--cudalab-save", "r.json")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "--cudalab-save needs times, and tests that run in parallel have none: add -n 0" in result.stderr.str()


@pytest.mark.process
def test_without_the_plugin_the_fixture_is_not_there(pytester):
    pytester.makepyfile(TEST)
    result = pytester.runpytest_subprocess("-p", "no:cudalab")
    result.assert_outcomes(errors=1)
    assert "fixture 'cudalab_time' not found" in result.stdout.str()


@pytest.mark.wall
@pytest.mark.gpu
def test_on_a_gpu(pytester, monkeypatch):
    for name in [name for name in os.environ if name.startswith("PYTEST_XDIST")]:
        monkeypatch.delenv(name)  # the tests inside run alone
    pytester.makepyfile(
        """
        def test_gelu(cudalab_time):
            result = cudalab_time("gelu", size="large", dtype="float16", only="pycuda", mode="cold")
            assert 0 < result.low <= result.median <= result.high
            assert result.labels == ["pycuda:gelu_scalar", "pycuda:gelu_full", "pycuda:gelu_vec"]
            assert result.ratio("pycuda:gelu_scalar").low > 0
        """
    )
    pytester.runpytest_subprocess("--cudalab-save", "old.json").assert_outcomes(passed=1)
    same = pytester.runpytest_subprocess("--cudalab-baseline", "old.json")
    same.assert_outcomes(passed=1)
    assert "x old.json" in same.stdout.str()
