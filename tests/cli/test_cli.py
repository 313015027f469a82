"""The command line as a user meets it: what it prints, and how it says what is wrong."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import cudalab
from cudalab import backends
from cudalab.base.errors import InputError
from cudalab.cli import main, measure
from cudalab.results import record
from cudalab.spec import cuda_source as source
from cudalab.spec import find
from cudalab.study.run import study
from cudalab.tools.crossover import bisect
from cudalab.tools.tune import tune

QUICK = ["--device", "cpu", "--skip", "torch_*", "--budget", "0.01"]


def invoke(*args):
    return CliRunner().invoke(main, [str(a) for a in args])


@pytest.mark.process
def test_bench_on_the_cpu_says_so_and_keeps_its_times_out_of_gpu_columns(tmp_path):
    run = invoke("bench", "gelu", "--sizes", "1000", "--device", "cpu", "--skip", "torch_compile", "--budget", "0.01",
                 "-o", tmp_path / "r.json", "--all")  # fmt: skip
    assert run.exit_code == 0, run.output
    lines = run.stdout.splitlines()
    assert lines[0].startswith("No GPU: the CPU was asked for")
    assert not re.search(r"\b(cold|hot|graph)\b", run.stdout)
    assert re.search(r"host:gelu_vec \* +\S+ +not timed +-", run.stdout)
    assert re.search(r"torch_eager .* 1 +- +- ", run.stdout, re.MULTILINE)
    loaded = cudalab.load(tmp_path / "r.json")
    here = {c.backend for c in loaded.cases if c.status != "skipped"}
    assert here >= {"host", "numpy", "torch_eager", "torch_native", "torch_script"}
    assert all("cpu" in backends.by_name()[name].devices for name in here)
    assert all(set(c.times) <= {"wall"} for c in loaded.cases)
    seed = loaded.options["seed"]
    assert f"for the same inputs: --seed {seed}\n" in run.stderr
    assert invoke("show", tmp_path / "r.json", "--all").stdout == run.stdout
    brief = invoke("show", tmp_path / "r.json").stdout
    assert "gelu  float32  right: 3 entries, 4 libraries" in brief
    assert len(brief.splitlines()) < 20
    predicted = [c.predicted for c in loaded.cases if c.backend == "host"]
    assert all(one.least or one.reason for one in predicted)


@pytest.mark.sweep
def test_a_run_of_several_processes_says_so_and_is_resumed_as_it_was(tmp_path):
    out = tmp_path / "r.json"
    given = ("bench", "plus_one", "--only", "numpy", "--sizes", "100", *QUICK[:2], "--budget", "0.01", "-o", out)
    run = invoke(*given, "--processes", "2")
    assert run.exit_code == 0, run.output
    assert run.stdout.splitlines()[0].endswith(": times are wall clock, 2 processes")
    assert len(cudalab.load(out).cases[0].processes["wall"]) == 2
    assert invoke("show", out).stdout == run.stdout
    assert invoke("bench", "--resume", out).exit_code == 0
    assert cudalab.load(out).options["processes"] == 2
    quick = invoke(*given, "--quick", "--budget", "5")
    assert quick.stdout.splitlines()[0].endswith(": times are wall clock, 1 process")
    assert cudalab.load(out).options["budget"] == 0.2


@pytest.mark.sweep
def test_deprecation_noise_stays_out(tmp_path):
    command = [sys.executable, "-m", "cudalab.cli", "bench", "plus_one", "--sizes", "100", "--only", "torch_script",
               "--device", "cpu", "--budget", "0.01", "--quiet"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "deprecat" not in (done.stdout + done.stderr).lower()
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["bench", "gelo"], "no kernel named 'gelo'; did you mean 'gelu'?"),
        (["bench", "gelu", "--sizes", "smal"], "no size named 'smal'; did you mean 'small'?"),
        (["bench", "gelu", "--dtypes", "flota16"], "no dtype named 'flota16'; did you mean 'float16'?"),
        (["bench", "add2d", "--dtypes", "float16"], "no dtype of add2d named 'float16'"),
        (["bench", "add2d", "--sizes", "1M"], "add2d takes sizes of 2 dimensions (rows cols), got (1000000,)"),
        (["bench", "gelu", "--only", "torch_egaer"], "did you mean 'torch_eager'?"),
        (["bench", "gelu", "--skip", "nothing*"], "no backend or entry named 'nothing*'"),
        (["bench", "gelu", "--only", "numpy", "--skip", "numpy", "--device", "cpu"], "no variant is left"),
        (["bench", "gelu", "--only", "host:gelu_scalr", "--device", "cpu"], "did you mean 'host:gelu_scalar'?"),
        (["check", "gelu", "--only", "pycuda:gelu", "--device", "cpu"], "no variant named 'pycuda:gelu'"),
        (["bench", "gelu", "--device", "cuda:\u00b2"], "no device"),
        (["bench", "gelu", "--modes", "grahp"], "no mode named 'grahp'; did you mean 'graph'?"),
        (["bench", "gelu", "--device", "cpu:1"], "no device 'cpu:1'"),
        (["bench", "gelu", "--budget", "0"], "budget is 0.0 s"),
        (["bench", "gelu", "--budget", "nan"], "budget is nan s"),
        (["bench", "gelu", "--seed", "-1"], "Invalid value for '--seed'"),
        (["bench", "gelu", "--processes", "17"], "Invalid value for '--processes'"),
        (["bench", "gelu", "--quick", "--processes", "2"], "a quick run uses one process, and processes is 2"),
        (["study", "graphs", "--quick", "--processes", "2"], "a quick run uses one process, and processes is 2"),
        (["study", "graphs", "--processes", "x"], "Invalid value for '--processes'"),
        (["crossover", "numpy", "torch_native", "--kernel", "gelu", "--processes", "17"], "Invalid value"),
        (["bench", "./no/such.py"], "no spec at"),
        (["bench", "gelu", "-o", "/no/such/r.json"], "mkdir -p"),
        (["bench", "plus_one", "--force"], "--force is only for a comparison; add --baseline FILE"),
        (["bench", "plus_one", "--min-effect", "5%"], "--min-effect is only for a comparison; add --baseline FILE"),
        (["show", "no.json"], "cannot read no.json: No such file or directory"),
        (["show", __file__], "is not a results file"),
        (["bench", "gelu", "--format", "xml"], "'xml' is not one of"),
        (["bnech"], "no command named 'bnech'; did you mean 'bench'? known: bench, check"),
        (["\x1b[2J"], r"no command named '\x1b[2J'; known: "),
        (["completion", "csh"], "'csh' is not one of 'bash', 'zsh', 'fish'"),
        (["check", "gelu", "--dtypes", ","], "dtypes is ',', which has no name in it"),
        (["check", "gelu", "--only", " , "], "only is ' , ', which has no name in it"),
        (["bench", "gelu", "--skip", ","], "skip is ',', which has no name in it"),
        (["check", "./docs"], "is a folder without a pair of .cu and .py; give a spec, such as ./softmax.py"),
        (["bench", "nothing/"], "no spec at"),
        *((["bench", "gelu", option, ""], "is empty; give the name of a file")  # as an unset shell variable gives it
          for option in ("-o", "--resume", "--baseline")),
        (["check", "gelu", "-o", "-"], "-o - names no file, and results are not written to standard output"),
        (["check", "gelu", "-o", "a" * 245], "has 5 bytes too many"),
    ],
)  # fmt: skip
def test_bad_input_is_one_clear_message_and_exit_code_2(args, message):
    run = invoke(*args)
    assert run.exit_code == 2, run.output
    assert message in run.output
    assert "Traceback" not in run.output


@pytest.mark.parametrize(
    "command",
    ["bench gelu", "bench", "check gelu", "tune gelu", "tune gelu --dry-run", "study zero-grad", "selftest",
     "profile gelu", "crossover numpy torch_eager --kernel gelu"],
)  # fmt: skip
def test_a_word_that_names_no_device_is_refused_before_anything_else_is_said(command):
    run = invoke(*command.split(), "--device", "tpu")
    assert run.exit_code == 2
    assert run.output == "Error: no device 'tpu'; use auto, cpu, cuda or cuda:N\n"


@pytest.mark.parametrize("work", [
    lambda: cudalab.bench("gelu", device="tpu"), lambda: cudalab.check("gelu", device="tpu"),
    lambda: tune.tune("gelu", device="tpu"), lambda: bisect.crossover("numpy", "torch_eager", "gelu", device="tpu"),
    lambda: study("zero-grad", device="tpu"),
])  # fmt: skip
def test_a_word_that_names_no_device_is_refused_from_python_too(work):
    with pytest.raises(InputError, match="no device 'tpu'; use auto"):
        work()


@pytest.mark.process
@pytest.mark.skipif(os.path.exists("/dev/nvidia0"), reason="there is a GPU here")
def test_asking_for_a_gpu_where_there_is_none_is_an_error():
    run = invoke("bench", "gelu", "--device", "cuda")
    assert run.exit_code == 2
    assert "no GPU to use: no NVIDIA driver" in run.output
    assert "cudalab doctor" in run.output


SPEC = """
import numpy as np
from cudalab.spec import Budget, Kernel, Launch, blocks

twice = Kernel(
    file=__file__,
    summary="y = 2 x",
    dtypes=("float32",),
    sizes={"small": (1000,)},
    edges=((1,), (129,)),
    reference=lambda x: 2 * x,
    entries={"twice": lambda x, y: Launch((blocks(x.size, 128),), (128,), (x, y, np.int32(x.size)))},
    budgets={"float32": Budget(0.5, why="exact")},
    pointwise=True,
)
"""
SOURCE = """__global__ void twice(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
"""


@pytest.fixture
def mine(tmp_path):
    """Writes a kernel of a user's own, with changes, and gives the path of its spec."""

    def write(spec=SPEC, source=SOURCE, folder=tmp_path):
        folder.mkdir(exist_ok=True)
        (folder / "twice.py").write_text(spec)
        (folder / "twice.cu").write_text(source)
        return folder / "twice.py"

    return write


@pytest.mark.sweep
def test_an_edited_header_makes_another_source(mine, tmp_path):
    """A cache keyed by the source must tell the old header from the new one."""
    path = mine(source='#include "factor.h"\n' + SOURCE.replace("2 *", "FACTOR *"))
    header, found = tmp_path / "factor.h", []
    (tmp_path / "more.h").write_text("#define FACTOR 2\n")
    for text in ('#include "more.h"\n', "#define FACTOR 3\n", '#include "more.h"\n', "#define FACTOR 2\n"):
        header.write_text(text)
        run = cudalab.check(path, sizes="small", only="host", device="cpu")
        found.append((run.cases[0].status, run.sources["twice.cu"]))
    assert [status for status, _ in found] == ["ok", "WRONG", "ok", "ok"]
    assert len({digest for _, digest in found}) == 3
    (tmp_path / "more.h").write_text("#define FACTOR 2 // more\n")
    assert source.digest(path.with_suffix(".cu")) == found[-1][1]  # it is not included any more
    (tmp_path / "in").mkdir()  # headers that include each other, by paths that go up and down
    header.write_text('#pragma once\n#include "in/more.h"\n#define FACTOR 2\n')
    (tmp_path / "in" / "more.h").write_text('#pragma once\n#include "../in/../factor.h"\n')
    assert cudalab.check(path, sizes="small", only="host", device="cpu").cases[0].status == "ok"
    header.unlink()
    assert source.read(path.with_suffix(".cu")) == path.with_suffix(".cu").read_text()


@pytest.mark.process
def test_a_kernel_that_is_edited_during_a_run_is_not_measured_on(mine):
    path = mine()

    def edit(event):
        if event.finished:
            path.with_suffix(".cu").write_text(SOURCE.replace("2 *", "3 *"))

    before, after = cudalab.check(path, sizes="small,2000", only="host", device="cpu", progress=edit).cases
    assert (before.status, after.status) == ("ok", "error")
    assert after.reason.endswith("twice.cu has changed since this run began")


@pytest.mark.process
def test_two_versions_of_a_kernel_stay_apart(mine, tmp_path):
    one, two = mine(folder=tmp_path / "v1"), mine(folder=tmp_path / "v2", source=SOURCE.replace("2 *", "3 *"))
    run = cudalab.bench(one, two, one, sizes="small", only="host", device="cpu", budget=0.01)
    assert [(c.kernel, c.status) for c in run.cases] == [("v1/twice", "ok"), ("v2/twice", "WRONG")]
    assert len(run.sources) == 4


@pytest.mark.parametrize(
    ("spec", "source", "message"),
    [
        (SPEC.replace("    reference=lambda x: 2 * x,\n", ""), SOURCE, "nothing says what y should be; give "
            "reference="),
        (SPEC.replace("summary", "sumary"), SOURCE, "no field of Kernel named 'sumary'; did you mean 'summary'?"),
        (SPEC.replace("why=", "wy="), SOURCE, "no field of Budget named 'wy'; did you mean 'why'?"),
        (SPEC.replace('"float32": Budget', '"float16": Budget'), SOURCE, "budgets has no entry for dtype 'float32'"),
        (SPEC.replace('dtypes=("float32",)', 'dtypes=("float23",)'), SOURCE, "'float23'; did you mean 'float32'?"),
        (SPEC.replace('dtypes=("float32",)', 'dtypes=("fp32",)'), SOURCE, "named 'fp32'; did you mean 'float32'?"),
        (SPEC.replace('sizes={"small": (1000,)}', "sizes={}"), SOURCE, "sizes is empty"),
        (SPEC.replace('entries={"twice"', 'entries={"twise"'), SOURCE, "did you mean 'twice'?"),
        (SPEC.replace("twice = Kernel", "twice = dict"), SOURCE, "must define one `twice = Kernel("),
        (SPEC.replace("edges=(", "shapes={'x': 'r c'}, edges=("), SOURCE, "shapes asks for sizes of 2"),
        (SPEC.replace("edges=(", "shapes={'x': 'cols col'}, edges=("), SOURCE, "did you mean cols in place of col?"),
        (SPEC.replace("edges=(", "rank=2, edges=("), SOURCE, "no field rank any more; name the dimensions instead"),
        (SPEC + "\n)", SOURCE, "SyntaxError"),
        (SPEC + "\nimport no_such_module", SOURCE, "No module named 'no_such_module'"),
    ],
)  # fmt: skip
def test_a_spec_that_cannot_be_used_says_why(mine, spec, source, message):
    run = invoke("check", mine(spec, source), "--device", "cpu")
    assert run.exit_code == 2, run.output
    assert message in run.output
    assert "twice.py" in run.output or "twice.cu" in run.output


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("(x, y, np.int32(x.size))", "(y, x, np.int32(x.size))", "the output 'y' is passed as the read-only"),
        ("np.int32(x.size)", "x.size", "give 'int n' as a NumPy scalar: np.int32(...)"),
        ("np.int32(x.size)", "np.int64(x.size)", "wants 'int n', not np.int64; give np.int32"),
        ("np.int32(x.size)", "np.float32(x.size)", "wants 'int n', not np.float32; give np.int32"),
        ("lambda x, y", "lambda x, out", "entries['twice'] takes (x, out), but it is called by name with x, y"),
        ("    pointwise", "    shapes={'x': 'n', 'y': lambda x: x[0]}, pointwise", "shapes['y'] returns 1000; return"),
        ("    pointwise=True", "    shapes={'x': 'n', 'y': '1'}", "returns y of shape (1000,), but shapes= says (1,)"),
        ("2 * x,", "2 * x[:1],", "returns y of shape (1,) for inputs of shape (1000,); is the kernel pointwise?"),
        ("2 * x,\n    e", "x[:1],\n    pointwise=False, e", "y has the shape of x, (1000,), unless shapes= gives it"),
        ("Launch((", "(lambda *a: a[0])((", "twice: its launch returns (8,); return a Launch(grid, block, args)"),
        ("Launch((blocks(x.size, 128),)", "Launch(blocks(x.size, 128)", "twice: grid is 8; write (8,)"),
        ("np.int32(x.size))", "np.int32(x.size)), 0.5", "twice: shared is 0.5; give a whole number of bytes"),
        ("    reference", "    inputs=lambda *a: {'z': 1}, reference", "inputs returns z; return a dict of x"),
        ("    reference", "    inputs=lambda *a: a[2], reference", "inputs returns a Generator; return a dict of x"),
        ("    reference", "    shapes={'x': 'n'}, inputs=lambda *a: {'x': a[2].random((1, 9))}, reference",
         "x (1, 9): x must have 1 dimension ('n'), got the shape (1, 9)"),
    ],
)  # fmt: skip
def test_arguments_that_do_not_fit_cannot_be_launched(mine, old, new, message):
    """A common mistake is to swap output and input, which gives zeros and no error."""
    assert old in SPEC
    spec = SPEC.replace(old, new).replace("    pointwise=True,\n" if "pointwise=False" in new else "\0", "")
    run = invoke("check", mine(spec), "--sizes", "small", "--only", "host", "--device", "cpu")
    assert run.exit_code == 2, run.output
    assert message in " ".join(run.output.split())


@pytest.mark.process
def test_a_source_that_does_not_compile_costs_its_rows_only(mine):
    path = mine(source=SOURCE.replace("2 * x[i]", "two * x[i]"))
    run = invoke("bench", path, "plus_one", "--sizes", "1000", *QUICK)
    assert run.exit_code == 2
    assert re.search(r"twice\.cu[:(]3", run.stdout)  # g++'s message, or nvcc's
    assert "two" in run.stdout
    assert "  error: host:twice; right: 1 library" in run.stdout
    assert re.search(r"^1000 +twice +error", run.stdout, re.MULTILINE)
    assert re.search(r" plus_one_vec +0\.5", run.stdout)


@pytest.mark.process
def test_a_wrong_answer_has_no_time_and_exit_code_1(mine, tmp_path):
    path = mine(source=SOURCE.replace("2 * x[i]", "x[i] + x[0]"))
    run = invoke("bench", path, "--sizes", "small", *QUICK, "-o", tmp_path / "r.json")
    assert run.exit_code == 1
    assert "  WRONG: host:twice; right: 1 library" in run.stdout
    assert "999 of 1,000 values differ" in run.stdout
    row = next(c for c in cudalab.load(tmp_path / "r.json").cases if c.backend == "host")
    assert row.times == {}


@pytest.mark.process
def test_a_failed_run_leaves_the_old_results(mine, tmp_path):
    out = tmp_path / "r.json"
    assert invoke("bench", mine(), "--sizes", "small", *QUICK, "-o", out).exit_code == 0
    before = out.read_bytes()
    assert invoke("bench", "gelu", "--sizes", "smal", "-o", out).exit_code == 2
    assert out.read_bytes() == before


def test_list_and_doctor():
    text = invoke("list").stdout
    for kernel in find.kernels().values():
        assert f"{kernel.name}: {kernel.summary}" in text
    text = invoke("doctor").stdout
    assert re.search(r"^processes +(1 process|3 to 8 processes) for a timed run, unless .*", text, re.MULTILINE)
    every = " ".join(re.findall(r"^backends \(c.*(?:\n .*)*", text, re.MULTILINE))
    assert {name for name in backends.by_name() if not re.search(rf"[ :]{name}\b", every)} == set()
    assert text.count("needs a GPU") <= 1 and text.splitlines()[-1].startswith("you can now ")
    for tool in ("nvdisasm", "NVML", "ncu", "compute-sanitizer", "Kernel Tuner", "NVBench"):
        assert re.search(rf"^{tool} +(ready +for `cudalab |missing +\S)", text, re.MULTILINE)
    assert re.search(r"^host compiler +(ready +/|missing +no C)", text, re.MULTILINE)


def test_list_and_doctor_as_json():
    listed = json.loads(invoke("list", "plus_one,gelu", "--format", "json").stdout)
    gelu = find.kernel("gelu")
    assert list(listed["kernels"]) == ["plus_one", "gelu"] and listed["backends"] == list(backends.by_name())
    said = listed["kernels"]["gelu"]
    assert (said["entries"], said["file"]) == (list(gelu.entries), gelu.file)
    assert {name: tuple(size) for name, size in said["sizes"].items()} == gelu.sizes
    found = {one["name"]: one for one in json.loads(invoke("doctor", "--format", "json").stdout)}
    assert found["numpy (cpu)"]["state"] == "ready" and found["CPU"]["text"]


def test_doctor_keeps_to_the_terminals_width(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = invoke("doctor").stdout.splitlines()
    assert max(len(line) for line in lines if not re.search(r"/\S{20}", line)) <= 80
    assert any(line.startswith(" " * 34) for line in lines)


@pytest.mark.process
def test_options_are_environment_variables_too(mine):
    run = CliRunner().invoke(
        main, ["bench", str(mine()), *QUICK], env={"CUDALAB_BENCH_SIZES": "7", "CUDALAB_BENCH_FORMAT": "csv"}
    )
    assert ",7,float32,host," in run.stdout
    listed = CliRunner().invoke(main, ["list"], env={"CUDALAB_LIST_KERNELS": "sum"}).stdout
    assert listed == CliRunner().invoke(main, ["list"], env={"CUDALAB_LIST_KERNEL": "sum"}).stdout
    assert listed.startswith("sum: ")


@pytest.mark.process
def test_what_needs_a_gpu_is_skipped_with_the_reason(mine):
    run = invoke("bench", "plus_one", "--sizes", "100", *QUICK, "--all")
    assert run.exit_code == 0
    text = " ".join(run.stdout.split())
    assert re.search(r"skipped .*pycuda.*triton: needs a GPU, and the CPU was asked for", text)


@pytest.mark.sweep
def test_a_run_that_could_check_nothing_is_not_green(monkeypatch):
    assert invoke("check", "plus_one", "--only", "pycuda", "--device", "cpu").exit_code == 2
    monkeypatch.setenv("CXX", "no-such-compiler")
    run = invoke("check", "plus_one", "--only", "host", "--device", "cpu")
    assert run.exit_code == 2
    assert "no-such-compiler is not on PATH" in " ".join(run.output.split())


@pytest.mark.process
def test_the_python_call_takes_what_python_has(mine):
    run = cudalab.bench(mine(), sizes=["small", 7], dtypes=("float32",), only=["host", "numpy"], modes=("launch",),
                        device="cpu", budget=0.01)  # fmt: skip
    assert {c.size for c in run.cases} == {"small", "7"}
    for wrong in ({"seed": -1}, {"device": "gpu"}, {"sizes": object()}, {"budget": "much"}):
        with pytest.raises(cudalab.CudalabError):
            cudalab.bench("gelu", **wrong)


@pytest.mark.process
@pytest.mark.parametrize("target", ["/dev/null", "link"])
def test_results_replace_no_device_and_follow_no_link_away(target, tmp_path, mine):
    real, link = tmp_path / "real.json", tmp_path / "link"
    link.symlink_to(real)
    run = invoke("bench", mine(), "--sizes", "small", *QUICK, "-o", link if target == "link" else target)
    if target == "link":
        assert run.exit_code == 0
        assert link.is_symlink()
        assert cudalab.load(real).cases
    else:
        assert run.exit_code == 2
        assert "is not a regular file" in run.output
        assert not Path(target).is_file()


ENDS = """
import sys; sys.argv[0] = "cudalab"
from cudalab import cli
from cudalab.cli.commands import doctor
doctor.command.callback = lambda **_: {act}
cli.main(["doctor"])
"""


@pytest.mark.process
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
@pytest.mark.parametrize(
    ("act", "streams", "code", "says"),
    [
        ("print('x' * 10000)", ">/dev/full", 2, "Error: standard output: No space left on device\n"),
        ("print('x' * 1000000)", "| true", 3, ""),
        ("print('x', file=sys.stderr)", "2>/dev/full", 3, ""),
        ("1 / 0", "", 2, "Error: ZeroDivisionError: division by zero; a mistake of cudalab: please report it"),
        ("open('/none')", "", 2, "Error: /none: No such file or directory\n"),
        ("(_ for _ in ()).throw(OSError('odd'))", "", 2, "Error: OSError: odd\n"),
        ("__import__('threading').Thread(target=lambda: __import__('time').sleep(60)).start()", "", 3, ""),
    ],
)  # fmt: skip
def test_neither_streams_nor_mistakes_nor_threads_make_an_exit_code_that_is_a_verdict(
    tmp_path, act, streams, code, says
):
    """A verdict of 3 stays 3, and an error of the lab's own is no 1."""
    python = shlex.join([sys.executable, "-c", ENDS.format(act=f"({act}, sys.exit(3))")])
    command = f"{{ {python}; echo $? > {tmp_path}/code; }} {streams}"
    done = subprocess.run(["sh", "-c", command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                          timeout=30, check=False)  # fmt: skip
    assert (tmp_path / "code").read_text() == f"{code}\n"
    assert says in done.stderr and (says or not done.stderr)


@pytest.mark.process
def test_a_standard_output_that_is_closed_costs_nothing():
    done = subprocess.run(f"{sys.executable} -m cudalab list >&-", shell=True, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_current_folder_that_is_gone_is_said_to_be(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    run = invoke("check", "./mine.py")
    assert run.exit_code == 2 and "the current folder does not exist any more: cd to another" in run.output


@pytest.mark.parametrize(
    ("statuses", "code"),
    [
        (("ok", "ceiling"), 0), (("ok", "IMPOSSIBLE"), 1), (("WRONG", "ok"), 1), (("IMPOSSIBLE", "error"), 2),
        (("ok", "skipped"), 0),
    ],
)  # fmt: skip
def test_the_exit_code_says_what_is_wrong(statuses, code):
    cases = [record.Case("k", "s", (1,), "float32", f"b{i}", status=status) for i, status in enumerate(statuses)]
    run = record.Results(record.FORMAT, record.VERSION, "", {}, record.Machine("cuda", "a GPU"), cases=cases)
    assert measure.exit_code(run) == code
    copy = record.Case("k", "s", (1,), "float32", "copy", status="IMPOSSIBLE")  # a copy that failed would not count
    run.cases = [copy]
    assert measure.exit_code(run) == 1
