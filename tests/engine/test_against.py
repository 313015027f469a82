"""`bench --against`: where the earlier `.cu` comes from, and its rows beside the present ones."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

from cudalab import Budget, Kernel, Launch, Scalar, backends, blocks
from cudalab.base.errors import InputError
from cudalab.cli import main
from cudalab.device.cpu import Cpu
from cudalab.device.operands import writing
from cudalab.engine import against
from cudalab.engine.groups import Group, Work
from cudalab.engine.job import Job
from cudalab.engine.kernel_round import cases
from cudalab.engine.selection import Selection
from cudalab.results import record
from cudalab.spec import find
from cudalab.spec.dtype import dtype

TEXT = """#include "factor.cuh"
__global__ void scale(const float* x, float* y, int n, float by) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = FACTOR * by * x[i];
}
__global__ void scale_more(const float* x, float* y, int n, float by) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = FACTOR * by * x[i];
}
"""


def git(folder, *words):
    named = ("-c", "user.name=n", "-c", "user.email=e@e", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(folder), *named, *words], check=True, capture_output=True)


@pytest.fixture
def group(tmp_path, monkeypatch):
    """A kernel in a folder, and a cache of its own."""
    monkeypatch.setenv("CUDALAB_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "scale.cu").write_text(TEXT)
    (folder / "factor.cuh").write_text("#define FACTOR 2\n")
    (folder / "scale.py").touch()

    def launch(x, y, by):
        return Launch((blocks(x.size, 64),), (64,), (x, y, np.int32(x.size), by))

    kernel = Kernel(
        file=str(folder / "scale.py"), summary="", dtypes=("float32",), sizes={"tiny": (40,)}, edges=((1,),),
        budgets={"float32": Budget(0)}, reference=lambda x, by: 2 * by * x, scalars={"by": Scalar(3.0)},
        entries={"scale": launch, "scale_more": launch},
    )  # fmt: skip
    return Group(kernel, "tiny", (40,), dtype("float32"))


@pytest.fixture
def stand_in(monkeypatch):
    """Stands for what compiles and runs a `.cu`: the text of the first function says what it computes."""

    def bind(kernel, variant, kind, operands):
        kernel.launches(variant, operands.by_name(kernel))
        by = operands.scalars["by"] if "FACTOR * by" in kernel.cu.read_text().partition("}")[0] else 3

        def prepare(on):
            return lambda: np.multiply(on.inputs["x"], np.float32(2 * by), out=on.output)

        return writing(prepare, operands)

    found = SimpleNamespace(devices=("cpu",), timed=False, budget="budgets", own_indexing=True, bind=bind,
                            missing=lambda device: None, variants=lambda kernel: tuple(kernel.entries))  # fmt: skip
    monkeypatch.setattr(backends, "by_name", lambda: {"host": found})


def rows(group, old, only="host"):
    (found,) = against.beside([group], str(old), Selection.of(only, ""))
    job = Job(Cpu(), Selection.of(only, ""), (), 0, 0.01, lambda step: None)
    return {case.label: case for case in cases(job, found)}


def test_old_entries_stand_beside_the_present_ones_and_run_their_own_text(group, stand_in, tmp_path):
    (tmp_path / "old.cu").write_text(TEXT.replace("FACTOR * by * x[i];\n}\n", "FACTOR * 3 * x[i];\n}\n", 1))
    found = rows(group, tmp_path / "old.cu", "host:scale")
    assert list(found) == ["host:scale", "host:scale @ old"]
    assert found["host:scale"].status == record.OK
    old = found["host:scale @ old"]
    assert (old.status, old.old, found["host:scale"].old) == (record.WRONG, True, False)
    assert "with by=" in old.reason  # it has the value of a scalar in its code, and the present one has not


def test_an_entry_that_the_old_file_lacks_is_skipped_with_the_reason(group, stand_in, tmp_path):
    (tmp_path / "old.cu").write_text(TEXT[: TEXT.index("__global__ void scale_more")])
    found = rows(group, tmp_path / "old.cu", "host:scale_more")
    assert found["host:scale_more"].status == record.OK
    case = found["host:scale_more @ old"]
    assert case.status == record.SKIPPED
    assert case.reason == "the old scale.cu has no __global__ function scale_more"
    (tmp_path / "old.cu").write_text(TEXT.replace("int n, float by", "int n"))
    case = rows(group, tmp_path / "old.cu", "host:scale")["host:scale @ old"]
    assert case.status == record.SKIPPED
    assert case.reason.startswith("the old scale.cu does not fit this spec: scale")


def test_a_revision_has_its_own_text_and_headers(group, tmp_path):
    folder = group.kernel.cu.parent
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "mine")
    git(tmp_path, "commit", "-qm", "one")
    (folder / "factor.cuh").write_text("#define FACTOR 5\n")
    group.kernel.cu.write_text(TEXT + "// new\n")
    (found,) = against.beside([group], "git:HEAD", Selection())
    old = found.kernel.with_cu(found.old).cu
    assert (old.name, old.read_text(), old.with_name("factor.cuh").read_text()) == (
        "scale.cu", TEXT, "#define FACTOR 2\n",
    )  # fmt: skip
    assert found.files["scale.old.cu"] == old
    for revision, said in (
        ("nowhere", "no revision 'nowhere' in "),
        ("-x", "no revision '-x'"),
        ("", "no revision ''"),
    ):
        with pytest.raises(InputError, match=said):
            against.beside([group], f"git:{revision}", Selection())
    git(tmp_path, "rm", "-q", "--cached", "mine/scale.cu")
    git(tmp_path, "commit", "-qm", "two")
    with pytest.raises(InputError, match=r"scale\.cu does not exist in HEAD; give an older file, or another REV"):
        against.beside([group], "git:HEAD", Selection())


def test_a_worker_gets_the_same_group(tmp_path):
    group = Group(find.kernel("plus_one"), "tiny", (40,), dtype("float32"), old=str(tmp_path / "plus_one.cu"))
    there = Work.on(group).group()
    assert [v.label for v in there.variants()] == [v.label for v in group.variants()]
    assert there.old == group.old


def test_what_cannot_be_compared_is_refused(group, tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    old = tmp_path / "old.cu"
    old.write_text(TEXT)
    other = Group(find.kernel("plus_one"), "tiny", (40,), dtype("float32"))
    for groups, given, only, said in (
        ([group], tmp_path / "gone.cu", "", r"gone.cu is not there; give the old .cu, or git:REV"),
        ([group], tmp_path, "", "is a folder; give a file"),
        ([group], "git:HEAD", "", "scale.cu is in no git repository .* give --against OLD.cu"),
        ([group, other], old, "", "is one .cu, and the kernels are scale, plus_one; name one, or give git:REV"),
        ([group], old, "numpy", "none is left to run; check --only and --skip"),
    ):
        with pytest.raises(InputError, match=said):
            against.beside(groups, str(given), Selection.of(only, ""))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--against", "a.cu", "--baseline", "b.json"), "give one of the two"),
        (("--against", "a.cu", "--force"), "--force is only for a comparison; add --baseline FILE"),
        (("--against", ""), "--against is empty; give the name of a file"),
    ],
)
def test_options_that_do_not_go_together_are_refused(words, said):
    done = CliRunner().invoke(main, ["bench", "plus_one", *words])
    assert done.exit_code == 2
    assert said in " ".join(done.output.split())
