"""The command line as a user meets it: what it prints, and how it says what is wrong."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from commands import invoke, ran, refused
from report_runs import timed
from tables import entries, table
from twice import SOURCE, SPEC, written

import cudalab
from cudalab import backends
from cudalab.cli import measure
from cudalab.results import record
from cudalab.spec import cuda_source as source
from cudalab.spec import find

QUICK = ["--device", "cpu", "--skip", "torch_*", "--budget", "0.01"]


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
    given = ("bench", "plus_one", "--only", "numpy", "--sizes", "100", *QUICK[:2], "-o", out)
    run = ran(*given, "--budget", "0.01", "--processes", "2")
    assert run.stdout.splitlines()[0].endswith(": times are wall clock, 2 processes")
    assert len(cudalab.load(out).cases[0].processes["wall"]) == 2
    assert invoke("show", out).stdout == run.stdout
    ran("bench", "--resume", out)
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


ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
REFUSED = entries(r"^(\S.*)\n((?: .*\n)+)", (DATA / "refused.txt").read_text())


@pytest.mark.parametrize(("words", "said"), REFUSED, ids=[words[:60] for words, _ in REFUSED])
def test_bad_input_is_one_clear_message_and_exit_code_2_and_nothing_is_written(tmp_path, monkeypatch, words, said):
    if words.startswith("report"):
        pytest.importorskip("jinja2")
    monkeypatch.chdir(tmp_path)
    Path("docs").mkdir()
    names = {Path(word).stem for word in words.split()}
    for file in (DATA / "refused").iterdir():
        if file.stem in names:
            shutil.copy(file, tmp_path)
    for name in {"old", "new"} & names:
        timed().save(f"{name}.json")
    before = {path: path.is_file() and path.read_bytes() for path in Path().rglob("*")}
    message = refused(*shlex.split(words.format(root=ROOT)))
    for part in said.splitlines():
        assert part.strip() in message
    assert "Error: " in message and (message.startswith("Usage: ") or message.count("\n") == 1)
    assert {path: path.is_file() and path.read_bytes() for path in Path().rglob("*")} == before


@pytest.mark.process
@pytest.mark.skipif(os.path.exists("/dev/nvidia0"), reason="there is a GPU here")
def test_asking_for_a_gpu_where_there_is_none_is_an_error():
    run = invoke("bench", "gelu", "--device", "cuda")
    assert run.exit_code == 2
    assert "no GPU to use: no NVIDIA driver" in run.output
    assert "cudalab doctor" in run.output


@pytest.fixture
def mine(tmp_path):
    """Writes a kernel of a user's own, with changes, and gives the path of its spec."""
    return lambda spec=SPEC, source=SOURCE, folder=tmp_path: written(folder, spec, source)


@pytest.mark.sweep
def test_headers_that_include_each_other_by_paths_that_go_up_and_down_are_read_once(mine, tmp_path):
    path = mine(source='#include "factor.h"\n' + SOURCE.replace("2 *", "FACTOR *"))
    (tmp_path / "in").mkdir()
    (tmp_path / "factor.h").write_text('#pragma once\n#include "in/more.h"\n#define FACTOR 2\n')
    (tmp_path / "in" / "more.h").write_text('#pragma once\n#include "../in/../factor.h"\n')
    assert cudalab.check(path, sizes="small", only="host", device="cpu").cases[0].status == "ok"
    (tmp_path / "factor.h").unlink()
    assert source.read(path.with_suffix(".cu")) == path.with_suffix(".cu").read_text()


@pytest.mark.process
def test_two_versions_of_a_kernel_stay_apart(mine, tmp_path):
    one, two = mine(folder=tmp_path / "v1"), mine(folder=tmp_path / "v2", source=SOURCE.replace("2 *", "3 *"))
    run = cudalab.bench(one, two, one, sizes="small", only="host", device="cpu", budget=0.01)
    assert [(c.kernel, c.status) for c in run.cases] == [("v1/twice", "ok"), ("v2/twice", "WRONG")]
    assert len(run.sources) == 4


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        *table("spoiled_specs", "when it is loaded"),
        *(pytest.param(*one, marks=pytest.mark.sweep) for one in table("spoiled_specs", "when it is called")),
    ],
)
def test_a_spec_that_cannot_be_used_says_why(mine, old, new, message):
    assert old in SPEC
    spec = SPEC.replace(old, new).replace("    pointwise=True,\n" if "pointwise=False" in new else "\0", "")
    said = refused("check", mine(spec), "--sizes", "small", "--only", "host", "--device", "cpu")
    assert message in " ".join(said.split()) and "twice" in said


@pytest.mark.process
@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("x[i] + x[0]", 1, ["  WRONG: host:twice; right: 1 library", "999 of 1,000 values differ"]),
        ("two * x[i]", 2,
         [r"twice\.cu[:(]3", "two", "  error: host:twice; right: 1 library", r"(?m)^1000 +twice +error",
          r" plus_one_vec +0\.5"]),
    ],
    ids=["wrong", "does not compile"],
)  # fmt: skip
def test_an_entry_that_is_wrong_or_does_not_compile_costs_its_rows_only(mine, tmp_path, text, code, said):
    path = mine(source=SOURCE.replace("2 * x[i]", text))
    run = invoke("bench", path, "plus_one", "--sizes", "1000", *QUICK, "-o", tmp_path / "r.json")
    assert run.exit_code == code
    assert [one for one in said if not re.search(one, run.stdout)] == [], run.stdout
    row = next(c for c in cudalab.load(tmp_path / "r.json").cases if c.label == "host:twice")
    assert row.times == {}


def test_list_and_doctor_as_text_and_as_json():
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
    run = invoke("bench", mine(), *QUICK, CUDALAB_BENCH_SIZES="7", CUDALAB_BENCH_FORMAT="csv")
    assert ",7,float32,host," in run.stdout
    listed = invoke("list", CUDALAB_LIST_KERNELS="sum").stdout
    assert listed == invoke("list", CUDALAB_LIST_KERNEL="sum").stdout
    assert listed.startswith("sum: ")


@pytest.mark.process
def test_what_needs_a_gpu_is_skipped_with_the_reason(mine):
    run = ran("bench", "plus_one", "--sizes", "100", *QUICK, "--all")
    text = " ".join(run.stdout.split())
    assert re.search(r"skipped .*pycuda.*triton: needs a GPU, and the CPU was asked for", text)


@pytest.mark.process
def test_the_python_call_takes_what_python_has(mine):
    run = cudalab.bench(mine(), sizes=["small", 7], dtypes=("float32",), only=["host", "numpy"], modes=("launch",),
                        device="cpu", budget=0.01)  # fmt: skip
    assert {c.size for c in run.cases} == {"small", "7"}
    for wrong in ({"seed": -1}, {"device": "gpu"}, {"sizes": object()}, {"budget": "much"}):
        with pytest.raises(cudalab.CudalabError):
            cudalab.bench("gelu", **wrong)


@pytest.mark.process
def test_results_replace_no_device_follow_links_and_stay_where_a_command_fails(tmp_path, mine):
    real, link = tmp_path / "real.json", tmp_path / "link"
    link.symlink_to(real)
    given = ("bench", mine(), "--sizes", "small", *QUICK)
    ran(*given, "-o", link)
    assert link.is_symlink() and cudalab.load(real).cases
    before = real.read_bytes()
    assert invoke("bench", "gelu", "--sizes", "smal", "-o", link).exit_code == 2
    assert real.read_bytes() == before
    assert "is not a regular file" in refused(*given, "-o", "/dev/null")
    assert not Path("/dev/null").is_file()


ENDS = """
import sys; sys.argv[0] = "cudalab"
from cudalab import cli
from cudalab.cli.commands import doctor
doctor.command.callback = lambda **_: {act}
cli.main(["doctor"])
"""


@pytest.mark.process
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
@pytest.mark.parametrize(("act", "streams", "code", "says"), table("ends", "of a command", str, str, int, str))
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
    assert "the current folder does not exist any more: cd to another" in refused("check", "./mine.py")


@pytest.mark.parametrize(("statuses", "code"), table("ends", "of rows", str, int))
def test_the_exit_code_says_what_is_wrong(statuses, code):
    """Roundings and special values of a library say nothing of the `.cu`; they count where no entry ran."""
    rows, near = [row.split() for row in statuses.split(", ")], record.Parity(ok=False, n=9, wrong=3, close=True)
    cases = [record.Case("k", "s", (1,), "float32", name, status=status, parity=near) for name, status in rows]
    run = record.Results(record.FORMAT, record.VERSION, "", {}, record.Machine("cuda", "a GPU"), cases=cases)
    assert measure.exit_code(run) == code
    run.cases = [record.Case("k", "s", (1,), "float32", "copy", status="IMPOSSIBLE")]
    assert measure.exit_code(run) == 1  # a copy that failed would not count
    for parity in (None, record.Parity(ok=False, n=9, wrong=3)):  # it shows a mistake that reference and entry share
        run.cases = [
            record.Case("k", "s", (1,), "float32", "host"),
            record.Case("k", "s", (1,), "float32", "triton", status="WRONG", parity=parity),
        ]
        assert measure.exit_code(run) == 1
