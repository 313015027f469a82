"""Exit codes where a kernel was not checked, and the seed of a run."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from commands import invoke, ran
from example import EXAMPLE, example
from tables import table

import cudalab
from cudalab.base.bounded import Stopped
from cudalab.base.errors import InputError
from cudalab.cli import main
from cudalab.cli.measure import NOT_RUN
from cudalab.device import cuda
from cudalab.engine import options, plan
from cudalab.engine.groups import Group
from cudalab.results import record
from cudalab.spec.dtype import dtype

QUICK = ("--device", "cpu", "--only", "host,numpy", "-q")


@pytest.mark.sweep
@pytest.mark.parametrize("command", ["check", "bench"])
@pytest.mark.parametrize(
    ("variable", "value", "reason"),
    [
        ("PATH", "", "no C++ compiler: g++ is not on PATH (install g++, or set CXX)"),
        ("CXX", "nonexist", "no C++ compiler: nonexist is not on PATH (install g++, or set CXX)"),
        # a path that cannot be a folder, for root too
        ("CUDALAB_CACHE", __file__, f"cannot write to the cache {__file__}/host: Not a directory; set CUDALAB_CACHE"),
    ],
)
def test_it_is_no_success_if_no_entry_ran(monkeypatch, tmp_path, command, variable, value, reason):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv(variable, value)
    run = invoke(command, EXAMPLE, *QUICK, "--sizes", "8x33", "-o", tmp_path / "r.json")
    assert run.exit_code == NOT_RUN == 5
    assert "Error: no entry of softmax.cu ran: host was skipped, for the reason above\n" in run.stderr
    assert " ".join(run.output.split()).count(reason) == 1
    run = invoke(command, EXAMPLE, *QUICK, "--sizes", "8x33", "--format", "csv")
    assert run.exit_code == NOT_RUN
    assert f"Error: no entry of softmax.cu ran: host:softmax: {reason}\n" in run.stderr
    statuses = {case.label: case.status for case in cudalab.load(tmp_path / "r.json").cases}
    assert statuses == {"numpy": "ok", "host:softmax": "skipped"}


def too_strict(folder):
    """The example with a budget that no library meets."""
    return example(folder, "Budget(64", "Budget(0", ".py")


@pytest.mark.process
def test_a_wrong_answer_comes_before_a_kernel_that_did_not_run_and_what_was_not_chosen_need_not(monkeypatch, tmp_path):
    monkeypatch.setenv("CXX", "nonexist")
    assert invoke("check", too_strict(tmp_path), *QUICK, "--sizes", "64x512").exit_code == 1
    run = invoke("check", EXAMPLE, "--device", "cpu", "--only", "numpy", "-q", "--sizes", "8x33")
    assert (run.exit_code, run.stderr) == (0, "")


@pytest.mark.process
def test_an_entry_that_needs_a_gpu_does_not_count_as_run():
    if not cuda.missing():
        pytest.skip("there is a GPU")
    run = invoke("check", EXAMPLE, "--only", "pycuda,numpy", "-q", "--sizes", "8x33")
    assert run.exit_code == NOT_RUN
    assert "Error: no entry of softmax.cu ran: pycuda was skipped, for the reason above" in run.stderr


def without_nvcc(monkeypatch, folder):
    """A PATH that has the C++ compiler and no nvcc."""
    (folder / "bin").mkdir()
    for name in ("g++", "as", "ld"):
        if found := shutil.which(name):
            (folder / "bin" / name).symlink_to(found)
    monkeypatch.setenv("PATH", str(folder / "bin"))
    for name in ("CUDA_ROOT", "CUDA_HOME"):
        monkeypatch.delenv(name, raising=False)


def pausing(folder, instruction):
    """The example with inline PTX, which no CPU runs."""
    spec = example(folder)
    with spec.with_suffix(".cu").open("a") as file:
        file.write(f'\n__device__ void pause() {{ asm("{instruction};"); }}\n')
    return spec


@pytest.mark.process
def test_without_nvcc_a_kernel_that_the_cpu_cannot_run_is_skipped_and_is_no_success(monkeypatch, tmp_path):
    without_nvcc(monkeypatch, tmp_path)
    spec = pausing(tmp_path, "nanosleep.u32 1")
    for chosen in ("host,numpy", "host"):
        run = invoke("check", spec, "--device", "cpu", "--only", chosen, "-q", "--sizes", "8x33")
        assert run.exit_code == NOT_RUN
        line = (spec.with_suffix(".cu").read_text().count("\n"), "inline asm cannot run on the CPU")
        assert f'softmax.cu:{line[0]}: {line[1]}: asm("nanosleep.u32 1;"); }}' in run.stdout
        assert "(and not compiled by nvcc: nvcc is not on PATH" in run.stdout


@pytest.mark.sweep
@pytest.mark.skipif(not cuda.nvcc(), reason="no nvcc")
def test_with_nvcc_it_is_compiled_and_a_success_unless_nvcc_refuses_it(monkeypatch, tmp_path):
    monkeypatch.setenv("CUDALAB_CACHE", str(tmp_path / "cache"))
    run = ran("check", pausing(tmp_path, "nanosleep.u32 1"), *QUICK, "--sizes", "8x33")
    assert "note: no entry of softmax.cu ran: the CPU cannot run it; nvcc compiled it without errors\n" in run.stderr
    assert "(compiled by nvcc for sm_" in " ".join(run.stdout.split())
    run = invoke("check", pausing(tmp_path, "nanosleeep.u32 1"), *QUICK, "--sizes", "8x33")
    assert run.exit_code == 0  # ptxas does not see a function that nobody calls
    spec = pausing(tmp_path, "nanosleep.u32 1")
    spec.with_suffix(".cu").write_text(spec.with_suffix(".cu").read_text().replace("pause()", "pause(what)"))
    run = invoke("check", spec, *QUICK, "--sizes", "8x33")
    assert run.exit_code == 2
    assert "softmax.cu does not compile:" in run.stdout and 'error: identifier "what" is undefined' in run.stdout


def test_the_backends_that_run_the_cu_are_known():
    """What `exit_code` relies on."""
    kernel = plan.kernels_by_name([str(EXAMPLE)])["softmax"]
    group = Group(kernel, "small", (1, 1), dtype("float32"))
    assert {v.backend_name for v in group.variants() if v.name in kernel.entries} == set(record.ENTRIES)


# ---- the table of all commands ---------------------------------------------------------------------------------------

COMMANDS = {name: main.get_command(None, name) for name in main.list_commands(None)}


def listed():
    """The exit codes of each command as docs/commands.md lists them, without 130."""
    text = (Path(__file__).parents[2] / "docs" / "commands.md").read_text().partition("## Exit codes")[2]
    found, code = {name: set() for name in COMMANDS}, ""
    for row in re.findall(r"^\| *(\d*) *\| .* \| (.*) \|$", text.partition("\n## ")[0], re.MULTILINE):
        code = row[0] or code
        for name in COMMANDS if row[1] == "all" else re.findall(r"`(\w+)", row[1]):
            found[name] |= {code} - {"130"}
    return found


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_names_the_exit_codes_of_the_table(name):
    said = COMMANDS[name].help.partition("Exit code:")[2]
    codes = set(re.findall(r"(?<![\w.])\d\b(?! entr)", said)) | {"2"}  # an unknown option, if nothing else
    codes |= {"3", "4"} if "that of `cudalab compare`" in said else set()
    assert codes == listed()[name]


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize(
    ("raised", "code"),
    [(KeyboardInterrupt, 130), (InputError("no"), 2), (FileNotFoundError(2, "gone", "f"), 2), (Stopped("it ends"), 2)],
)
def test_every_command_ends_alike_whatever_is_raised_in_it(monkeypatch, name, raised, code):
    def callback(**_):
        raise raised

    monkeypatch.setattr(COMMANDS[name], "callback", callback)
    monkeypatch.setattr(COMMANDS[name], "params", [])
    assert invoke(name).exit_code == code
    assert invoke(name, "--none").exit_code == 2


AS_PROGRAM = """
import atexit, io, os, sys, threading, time
from cudalab.base import bounded
from cudalab.cli import streams
streams.END = 0.2
def work():
    {}
    sys.exit(1)
streams.as_program(work)
"""


@pytest.mark.process
@pytest.mark.parametrize(("spec", "code"), table("ends", "of a spec", str, int))
def test_nothing_that_a_spec_leaves_behind_changes_how_a_command_ends(spec, code):
    words = [sys.executable, "-c", AS_PROGRAM.format(spec)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == code, done.stderr


@pytest.mark.process
def test_each_run_draws_a_seed_and_a_resumed_one_keeps_its_own(tmp_path):
    out, asked = tmp_path / "r.json", {"sizes": "8x33", "only": "numpy", "device": "cpu"}
    run = cudalab.check(str(EXAMPLE), **asked, output=out)
    other = cudalab.check(str(EXAMPLE), **asked)
    seed = run.options["seed"]
    assert seed != other.options["seed"] and 0 <= seed < options.SEEDS
    again = cudalab.check(str(EXAMPLE), **asked, seed=seed)
    assert again.cases[0].parity == run.cases[0].parity != other.cases[0].parity
    assert cudalab.check(str(EXAMPLE), **asked, resume=out) == run
    ran("check", EXAMPLE, "--resume", out, "-q")
    assert cudalab.load(out).options["seed"] == seed


@pytest.mark.parametrize("seed", [-1, 1.5, "3", True])
def test_a_wrong_seed_is_refused(seed):
    with pytest.raises(InputError, match="give a whole number that is not negative"):
        cudalab.check(str(EXAMPLE), device="cpu", seed=seed)


@pytest.mark.sweep
def test_the_seed_is_said_unless_it_was_given_or_quiet_and_right(tmp_path):
    asked = ("--device", "cpu", "--only", "numpy", "--sizes", "64x512")
    assert "for the same inputs: --seed " in invoke("check", EXAMPLE, *asked).stderr
    assert "--seed" not in invoke("check", EXAMPLE, *asked, "--seed", 3).stderr
    assert invoke("check", EXAMPLE, *asked, "-q").stderr == ""
    wrong = invoke("check", too_strict(tmp_path), *asked, "-q", "-o", tmp_path / "r.json")
    assert wrong.exit_code == 1
    assert wrong.stderr == f"for the same inputs: --seed {cudalab.load(tmp_path / 'r.json').options['seed']}\n"
