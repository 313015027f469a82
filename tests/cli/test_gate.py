"""The gate for CI. On a real GPU the same kernel passes twice, and one that is 5 % slower does not. On a CPU the gate
says that it compared no time of the kernel."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from commands import invoke
from tables import table

from cudalab.base import stats
from cudalab.base.errors import InputError
from cudalab.results import compare
from cudalab.results.compare import NOTHING_SLOWER, REGRESSION
from cudalab.results.file import load, save
from cudalab.spec import find
from tests.support import report_runs

# Every 16th block also does what the one half a grid further does: 6 % more bytes, and the same answer.
CHANGES = {
    "long long n) {\n    const long long pack = (long long)blockIdx.x * N": """long long n, long long block) {
    const long long pack = block * N""",
    "gelu, VEC_PACKS>(kept(x), y, n);\n}\n\n": "gelu, VEC_PACKS>(kept(x), y, n, blockIdx.x);\n}\n\n",
    """    if (packs == 1) map_block<gelu, 1>(kept(x), y, n);
    else map_block<gelu, VEC_PACKS>(kept(x), y, n);
""": """    for (int again = 0; again < (blockIdx.x % 16 ? 1 : 2); ++again) {
        const long long block = (blockIdx.x + again * (long long)(gridDim.x / 2)) % gridDim.x;
        if (packs == 1) map_block<gelu, 1>(kept(x), y, n, block);
        else map_block<gelu, VEC_PACKS>(kept(x), y, n, block);
    }
""",
}


def slowed(folder: Path) -> Path:
    """A gelu whose vectorised entry does 6 % of its work twice; returns the path of the spec."""
    kernel = find.kernel("gelu")
    shutil.copytree(kernel.cu.parent / "common", folder / "common")
    for source in (Path(kernel.file), kernel.cu):
        shutil.copy(source, folder)
    changed = (folder / "common" / "map.cuh", folder / "gelu.cu", folder / "gelu.cu")
    for path, (before, after) in zip(changed, CHANGES.items()):
        text = path.read_text()
        assert text.count(before) == 1
        path.write_text(text.replace(before, after))
    return folder / "gelu.py"


def cudalab(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cudalab", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.sweep
def test_the_slowed_kernel_is_right(tmp_path):
    sizes = ("--sizes", "1000,100003", "--only", "host:gelu_vec")
    done = cudalab("check", slowed(tmp_path), "--device", "cpu", "--dtypes", "float32,float16", *sizes)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.wall
@pytest.mark.gpu
def test_a_kernel_slowed_by_5_percent_does_not_pass(tmp_path):
    bench = ("bench", "--sizes", "large,xlarge", "--only", "pycuda:gelu_vec,torch_native,torch_eager", "--modes",
             "launch", "--device", "cuda")  # fmt: skip
    old = tmp_path / "old.json"
    assert cudalab(*bench, "gelu", "-o", old).returncode == 0

    same = cudalab(*bench, "gelu", "--baseline", old, "-o", tmp_path / "same.json")
    assert same.returncode == NOTHING_SLOWER, same.stdout + same.stderr

    slow = cudalab(*bench, slowed(tmp_path), "--baseline", old, "-o", tmp_path / "slow.json")
    assert slow.returncode == REGRESSION, slow.stdout + slow.stderr
    found = compare.compare(load(old), load(tmp_path / "slow.json"))
    slower = {(pair.new.label, pair.new.size) for pair in found.pairs if pair.verdict == stats.SLOWER}
    assert ("pycuda:gelu_vec", "xlarge") in slower
    assert {label for label, _ in slower} == {"pycuda:gelu_vec"}


@pytest.mark.sweep
def test_on_a_cpu_the_gate_says_that_the_kernel_was_not_timed(tmp_path):
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    bench = ("bench", "--device", "cpu", "-q", "--budget", "0.02")
    assert cudalab(*bench, "plus_one", "--sizes", "1000", "--only", "host,numpy", "-o", old).returncode == 0
    gate = cudalab(*bench, "--baseline", old, "-o", new)
    for said in (gate.stdout, cudalab("compare", old, new).stdout):
        assert " ".join(said.split()).endswith("(wall); 2 right, not timed"), gate.stderr
    only_numpy = cudalab(*bench, "--baseline", old, "--only", "numpy")
    assert "not timed" not in only_numpy.stdout.splitlines()[-1] + only_numpy.stderr


@pytest.mark.parametrize(("asked", "modes"), table("gate", "modes", str.split, str))
def test_loads_are_measured_beside_the_modes_of_the_baseline(monkeypatch, tmp_path, asked, modes):
    old = report_runs.timed()
    old.options |= {"kernels": ["gelu"], "modes": "launch,api"}
    save(old, tmp_path / "old.json")
    taken = []

    def measure(work, kernels, options, *more, **shown):
        taken.append(options["modes"])
        raise InputError("enough")

    monkeypatch.setattr("cudalab.cli.baseline_gate.measure", measure)
    invoke("bench", "gelu", "--baseline", tmp_path / "old.json", "--force", *asked)
    assert taken == [modes]
