"""`pytest --cudalab` and `cudalab.tools.pytest.cases`, as users run them: each test here is a pytest run of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import scipy.special  # noqa: F401 (pytester forgets what a run has imported; compiled modules do not allow it)
from crashing import altered
from example import EXAMPLE, example
from tables import table

import cudalab
from cudalab import backends
from cudalab.base.errors import InputError
from cudalab.device import cuda
from cudalab.engine import session, team
from cudalab.engine.check_plan import checks
from cudalab.engine.supervisor import Supervisor
from cudalab.tools.pytest import cases

pytest_plugins = "pytester"

backends.by_name()  # for the same reason

# The example's cases: its entry at every shape, the libraries' forms at the first.
CASES, LIBRARIES = len(checks([str(EXAMPLE)], "all")), 4
QUICK = ("--cudalab", "--cudalab-only", "host,numpy")  # no library that takes seconds to import
NO_GPU = "no NVIDIA driver (a test says so)"


def wrong(folder):
    return example(folder, "/ sum;", "/ sum + 0.5f;")


def failures(result):
    """What stands below the name of each test that failed, up to anything that was captured."""
    text = result.stdout.str().partition("= FAILURES =")[2]
    found = re.findall(r"^_+ [^\n]+ _+\n(.*?)(?=^_+ |^-+ Captured|^=+ )", text, re.DOTALL | re.MULTILINE)
    return [told.strip() for told in found]


@pytest.fixture(autouse=True)
def no_gpu(pytester, monkeypatch):
    """Hide any GPU, so that tests behave alike everywhere. Parity tests marked `gpu` run these cases on a GPU."""
    monkeypatch.setattr(cuda, "missing", lambda: NO_GPU)
    monkeypatch.delenv("CUDALAB_REQUIRE", raising=False)
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:hypothesispytest")  # it imports all of hypothesis in every run


@pytest.fixture
def workers(monkeypatch):
    """Every supervisor that is made from here on."""
    made = []

    class Recorded(Supervisor):
        def __init__(self, *args):
            super().__init__(*args)
            made.append(self)

    monkeypatch.setattr(team, "Supervisor", Recorded)
    return made


def test_a_sample_that_would_miss_exponents_is_refused():
    with pytest.raises(InputError, match="sample is 10; give at least 1024"):
        cases.Wanted((), sample=10).cases(cases.Bench(1.0), Path())


@pytest.mark.sweep
def test_every_spec_below_a_folder_gives_a_test_a_case(pytester, workers):
    example(pytester.path / "mine" / "deep")
    (pytester.path / "mine" / "binding.py").write_text("raise RuntimeError('not a spec: not to be imported')")
    (pytester.path / "mine" / "binding.cu").write_text("__global__ void f() {}")
    pytester.makepyfile(test_own="def test_own(): pass")
    result = pytester.runpytest_inprocess("-v", *QUICK)
    result.assert_outcomes(passed=CASES + 2)
    names = [f"mine/deep/softmax.py::host:softmax[[]float32-{size}[]] PASSED*" for size in ("small", "1x1", "5x1023")]
    result.stdout.fnmatch_lines_random([*names, "mine/deep/softmax.py::numpy[[]float32-small[]] PASSED*", "test_own*"])
    (worker,) = workers
    assert worker._process is None or worker._process.ended, "a worker is left"


def test_without_the_option_specs_are_not_looked_at(pytester):
    (pytester.path / "softmax.py").write_text("raise RuntimeError('cudalab Kernel')")
    (pytester.path / "softmax.cu").write_text("")
    pytester.makepyfile(test_own="def test_own(): pass")
    pytester.runpytest_inprocess().assert_outcomes(passed=1)


@pytest.mark.sweep
@pytest.mark.process
def test_an_error_of_the_compiler_is_shown_once(pytester):
    example(pytester.path, "__global__", "__global__ int oops")
    result = pytester.runpytest_inprocess("--cudalab", "--cudalab-only", "host")
    first, *others = failures(result)
    assert "softmax.cu does not compile" in first and "oops" in first
    name = re.search(r"softmax.py::host:softmax\[\S+\]", result.stdout.str().partition("short test summary")[2])[0]
    assert len(others) > 10 and set(others) == {f"error host:softmax: the same error as {name}"}


@pytest.mark.process
def test_what_cannot_run_here_is_one_skip_a_backend(pytester):
    """A GPU that is not there, and, for the CPU, inline PTX."""
    example(pytester.path)
    example(pytester.path / "ptx", "    float top", '    asm("");\n    float top')
    result = pytester.runpytest_inprocess("-rs", "--cudalab", "--cudalab-only", "host,cupy_raw,pycuda", "-k", "3x31")
    result.assert_outcomes(passed=2, skipped=3, deselected=6 * CASES - 5)
    lines = [f"SKIPPED * needs a GPU, and {NO_GPU}; 3 more cases of {name} left out" for name in ("cupy_raw", "pycuda")]
    result.stdout.fnmatch_lines_random([*lines, "SKIPPED * inline asm cannot run on the CPU*"])


@pytest.mark.process
def test_a_required_gpu_that_is_missing_is_a_failure(pytester, monkeypatch):
    """Cases that could run on the CPU instead fail too."""
    monkeypatch.setenv("CUDALAB_REQUIRE", "cuda")
    example(pytester.path)
    result = pytester.runpytest_inprocess("--cudalab", "--cudalab-only", "host,pycuda,torch_eager")
    result.assert_outcomes(passed=CASES, failed=CASES + 1)
    assert set(failures(result)) == {f"CUDALAB_REQUIRE=cuda, but {NO_GPU}"}


@pytest.mark.parametrize("named", [False, True])
def test_a_broken_spec_is_one_clear_error(pytester, named):
    spec = example(pytester.path / "mine", 'entries={"softmax"', 'entries={"sofmax"', ".py")
    result = pytester.runpytest_inprocess(*QUICK, spec if named else "mine")
    result.assert_outcomes(errors=1)
    lines = result.stdout.str().partition("= ERRORS =")[2].splitlines()
    assert lines[2] == f"{spec.with_suffix('.cu')}: no __global__ function named 'sofmax'; did you mean 'softmax'? " + (
        "known: softmax"
    )
    assert lines[3].startswith("=====")


@pytest.mark.wall
@pytest.mark.sweep
def test_a_kernel_that_hangs_is_stopped(pytester):
    spec = altered(pytester.path)
    cudalab.check(spec, only="host:fine", device="cpu", sizes="small")  # so that it is compiled
    result = pytester.runpytest_inprocess(
        "--cudalab", "--cudalab-only", "host:fine,host:endless", "--cudalab-timeout", "1.5", "-k", "small"
    )
    result.assert_outcomes(passed=1, failed=1)
    assert failures(result)[0].startswith(
        "error host:endless: host:endless (first run) did not end within 1.5 s and was stop"
    )


@pytest.mark.sweep
def test_a_test_that_is_stopped_ends_the_worker_and_tells_the_others(pytester, workers, monkeypatch):
    """As pytest-timeout does it: by an exception out of nowhere."""

    def tell(session, step, finished=None):
        session.step = step
        if step.label == "host:endless" and step.phase == "first run":
            stopped.append(workers[0]._process)
            raise pytest.fail.Exception("Timeout", pytrace=False)

    stopped = []
    monkeypatch.setattr(session.Session, "tell", tell)
    altered(pytester.path)
    result = pytester.runpytest_inprocess(
        "--cudalab", "--cudalab-only", "host:fine,host:endless,host:also_fine", "-k", "small"
    )
    result.assert_outcomes(failed=3)
    assert stopped[0].ended
    because = "not checked: the test that ran it together with others was stopped at host:endless (first run)"
    others = [f"error {label}: {because}" for label in ("host:endless", "host:also_fine")]
    assert failures(result) == ["Timeout", *others]


@pytest.mark.sweep
def test_two_kernels_of_one_name_stay_apart(pytester, workers):
    example(pytester.path / "v1")
    wrong(pytester.path / "v2")
    result = pytester.runpytest_inprocess(*QUICK, "-k", "float32-3x31")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["FAILED v2/softmax.py::host:softmax[[]float32-3x31[]]*"])
    assert len(workers) == 1


@pytest.mark.sweep
def test_one_case_by_its_id(pytester, workers):
    """The spec is not imported as a test module too: a spec called copy.py could not be."""
    example(pytester.path)
    for file in pytester.path.glob("softmax.*"):
        file.rename(file.with_stem("copy"))
    pytester.runpytest_inprocess("--cudalab", "copy.py::host:softmax[float32-3x31]").assert_outcomes(passed=1)
    pytester.runpytest_inprocess("--cudalab", "copy.py::host:softmax").assert_outcomes(passed=CASES)
    assert [worker.setup.only for worker in workers] == ["host:softmax"] * 2


def test_a_device_can_be_chosen_and_collecting_starts_no_worker(pytester, workers, monkeypatch):
    example(pytester.path)
    result = pytester.runpytest_inprocess("--collect-only", "-q", "--cudalab")
    assert "softmax.py::host:softmax[float32-2x257]" in result.outlines
    assert "softmax.py::torch_eager[float32-small]" in result.outlines
    assert "softmax.py::pycuda:softmax[float32-small]" in result.outlines
    assert not workers
    monkeypatch.setattr(cuda, "missing", lambda: None)  # collecting opens none
    example(pytester.path)
    here = pytester.runpytest_inprocess("--collect-only", "-q", "--cudalab", "--cudalab-device", "cpu").outlines
    there = pytester.runpytest_inprocess("--collect-only", "-q", "--cudalab", "--cudalab-device", "cuda").outlines
    labels = [{line.split("::")[1].split("[")[0] for line in lines if "::" in line} for lines in (here, there)]
    torch = {"torch_eager", "torch_script", "torch_compile"}
    assert labels == [
        {"numpy", "host:softmax", *torch},
        {"pycuda:softmax", "cupy_raw:softmax", "torch_compile:max_autotune", *torch},
    ]


@pytest.mark.parametrize(("arguments", "message"), table("pytest", "options of the plugin", str.split, str))
def test_bad_options_are_refused(pytester, arguments, message):
    result = pytester.runpytest_inprocess("--cudalab", *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert message in result.stderr.str()


def test_the_mark_gpu_is_set_where_it_is_registered(pytester):
    example(pytester.path)
    chosen = ("--strict-markers", "--cudalab", "--cudalab-only", "host,pycuda", "--collect-only", "-q", "-m", "not gpu")
    assert "pycuda" in pytester.runpytest_inprocess(*chosen).stdout.str()
    pytester.makeini("[pytest]\nmarkers = gpu(n): needs one")
    result = pytester.runpytest_inprocess(*chosen)
    result.assert_outcomes(deselected=CASES)
    assert "pycuda" not in result.stdout.str()


# ---- cudalab.testing ---------------------------------------------------------------------------------------------

TWO_LINES = "from cudalab.testing import parity\ntest_softmax = parity('mine/softmax.py'{})"


def test_two_lines(pytester, workers, monkeypatch):
    """From any folder; what -k leaves out is not run."""
    example(pytester.path / "sub" / "mine")
    (pytester.path / "sub" / "test_mine.py").write_text(TWO_LINES.format(""))
    result = pytester.runpytest_inprocess("-v", "-k", "host and not small")
    result.assert_outcomes(passed=CASES - 1, deselected=LIBRARIES + 2 + 2 * CASES)
    result.stdout.fnmatch_lines(["sub/test_mine.py::test_softmax[[]softmax-host:softmax-float32-3x31[]] *PASSED*"])
    assert [worker.setup.only for worker in workers] == ["host:softmax"]


@pytest.mark.process
def test_two_lines_and_a_wrong_answer(pytester):
    reason = (
        cudalab.check(wrong(pytester.path / "mine"), only="host", sizes="3x31", device="cpu", seed=0).cases[0].reason
    )
    pytester.makepyfile(TWO_LINES.format(", only='host'"))
    result = pytester.runpytest_inprocess("-k", "float32-3x31")
    result.assert_outcomes(failed=1, deselected=CASES - 1)
    assert failures(result) == [f"WRONG host:softmax: {reason}"]


@pytest.mark.process
def test_a_test_of_ones_own_sees_the_row(pytester):
    example(pytester.path)
    pytester.makepyfile(
        """
        from cudalab.testing import cases

        class Test:
            @cases("softmax.py", only="host", device="cpu")
            def test_error(self, case):
                assert case.check().parity.max_ulp < 100

            @cases("softmax.py", only="host", device="cpu")
            def test_impossible(self, case):
                assert case.check().parity.max_ulp < 0
        """
    )
    pytester.runpytest_inprocess().assert_outcomes(passed=CASES, failed=CASES)


@pytest.mark.parametrize(("arguments", "message"), table("pytest", "arguments of parity"))
def test_what_cannot_be_used_is_one_clear_error(pytester, arguments, message):
    pytester.makepyfile(f"from cudalab.testing import parity\ntest_it = parity({arguments})")
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(errors=1)
    assert message.format(path=pytester.path) in result.stdout.str()
    assert "Traceback" not in result.stdout.str()
    assert "testing.py" not in result.stdout.str()


@pytest.mark.process
def test_a_device_that_cannot_be_opened_fails_every_case_of_it(pytester, monkeypatch):
    monkeypatch.setattr(cuda, "missing", lambda: None)  # a wrong claim, which the worker detects
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    example(pytester.path)
    result = pytester.runpytest_inprocess("--cudalab", "--cudalab-only", "pycuda")
    result.assert_outcomes(failed=CASES)
    assert all(line.startswith("no GPU to use: ") for line in failures(result))


@pytest.mark.process
def test_the_plugin_costs_nothing_where_it_is_not_used(pytester, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # others may import NumPy
    pytester.makepyfile(
        """
        import sys

        def test_own():
            name = "cuda" + "lab"  # a file with the name of the lab in it would count as one that uses it
            found = {m.removeprefix(name) for m in sys.modules if m.startswith(name)}
            assert found == {"", ".tools", ".tools.pytest", ".tools.pytest.plugin", ".base", ".base.errors"}
            assert not {"numpy", "torch", "scipy", "msgspec"} & set(sys.modules)
        """
    )
    pytester.runpytest_subprocess("-W", "error", "-p", "cudalab.tools.pytest.plugin").assert_outcomes(passed=1)


@pytest.mark.sweep
def test_with_xdist(pytester):
    pytest.importorskip("xdist")
    wrong(pytester.path)
    result = pytester.runpytest_subprocess(*QUICK, "-n", "2")
    result.assert_outcomes(failed=CASES, passed=1)


@pytest.mark.process
@pytest.mark.parametrize(("line", "said"), table("pytest", "code that ends the session"))
def test_a_module_of_a_kernel_that_ends_the_session_is_an_error_that_says_so(pytester, line, said):
    pytester.makepyfile(
        mine=f"import atexit, os, threading, time\n{line}", test_it="import mine\ndef test_it(): assert 1"
    )
    (pytester.path / "mine.cu").touch()
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    assert result.ret == 2
    assert said in result.stdout.str() + result.stderr.str()


@pytest.mark.process
@pytest.mark.parametrize(
    ("variables", "asked", "reason"),
    [
        ({"CXX": "nonexist"}, QUICK[1:], "no C++ compiler: nonexist"),
        pytest.param({"CUDALAB_CACHE": __file__}, QUICK[1:], "cannot write to the cache", marks=pytest.mark.sweep),
        ({}, ("--cudalab-device", "cuda"), NO_GPU),
        ({}, ("--cudalab-only", "pycuda,numpy"), NO_GPU),
    ],
)
def test_it_is_no_success_if_no_entry_ran(pytester, monkeypatch, variables, asked, reason):
    example(pytester.path)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    result = pytester.runpytest("--cudalab", *asked)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    told = failures(result)
    assert told and all(one.startswith(f"no entry of softmax.cu ran: {reason}") for one in told)
    assert not variables or (len(told) == CASES and "skipped" not in result.parseoutcomes())


@pytest.mark.sweep
@pytest.mark.process
def test_the_seed_is_fixed_unless_asked(pytester):
    wrong(pytester.path)
    told = [failures(pytester.runpytest(*QUICK, *more)) for more in ((), (), ("--cudalab-seed", "7"))]
    assert told[0] == told[1] != told[2]
    assert "--cudalab-seed" not in "".join(told[0]) and all("(to repeat: --cudalab-seed 7)" in t for t in told[2])
