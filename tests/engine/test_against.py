"""`bench --against`: where the earlier `.cu` comes from, and its rows beside the present ones."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace

import numpy as np
import pytest
from cpu_rows import cpu_rows

from cudalab import Budget, Kernel, Launch, Scalar, backends, blocks
from cudalab.base.errors import InputError
from cudalab.device.operands import writing
from cudalab.engine import against
from cudalab.engine.groups import Group, Work
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
        return writing(lambda on: lambda: np.multiply(on.inputs["x"], np.float32(2 * by), out=on.output), operands)

    found = SimpleNamespace(devices=("cpu",), timed=False, budget="budgets", own_indexing=True, bind=bind,
                            missing=lambda device: None, variants=lambda kernel: tuple(kernel.entries))  # fmt: skip
    monkeypatch.setattr(backends, "by_name", lambda: {"host": found})


def rows(group, folder, text, only):
    """The present row of an entry, and that of the earlier `.cu` with this text."""
    (folder / "old.cu").write_text(text)
    (found,) = against.beside([group], str(folder / "old.cu"), Selection.of(only, ""))
    present, old = cpu_rows(found, only)
    assert (present.label, present.status, old.label) == (only, record.OK, f"{only} @ old")
    assert (old.old, present.old) == (True, False)
    return old


@pytest.mark.parametrize(
    ("text", "entry", "status", "reason"),
    [
        # It has the value of a scalar in its code, and the present one has not.
        (TEXT.replace("FACTOR * by * x[i];\n}\n", "FACTOR * 3 * x[i];\n}\n", 1), "scale", record.WRONG, "with by="),
        (TEXT[: TEXT.index("__global__ void scale_more")], "scale_more", record.SKIPPED,
         "the old scale.cu has no __global__ function scale_more"),
        (TEXT.replace("int n, float by", "int n"), "scale", record.SKIPPED,
         "the old scale.cu does not fit this spec: scale"),
    ],
    ids=["its own text", "no such entry", "another signature"],
)  # fmt: skip
def test_an_old_entry_stands_beside_the_present_one(group, stand_in, tmp_path, text, entry, status, reason):
    old = rows(group, tmp_path, text, f"host:{entry}")
    assert old.status == status and reason in old.reason


def test_a_revision_has_its_own_text_and_headers(group, tmp_path):
    folder = group.kernel.cu.parent
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "mine")
    git(tmp_path, "commit", "-qm", "one")
    (folder / "factor.cuh").write_text("#define FACTOR 5\n")
    group.kernel.cu.write_text(TEXT + "// new\n")
    (found,) = against.beside([group], "git:HEAD", Selection())
    old = found.kernel.with_cu(found.old).cu
    texts = (old.read_text(), old.with_name("factor.cuh").read_text())
    assert (old.name, *texts) == ("scale.cu", TEXT, "#define FACTOR 2\n")
    assert found.files["scale.old.cu"] == old
    git(tmp_path, "rm", "-q", "--cached", "mine/scale.cu")
    git(tmp_path, "commit", "-qm", "two")
    for revision, said in (
        ("nowhere", "no revision 'nowhere' in "), ("-x", "no revision '-x'"), ("", "no revision ''"),
        ("HEAD", r"scale\.cu does not exist in HEAD; give an older file, or another REV"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=said):
            against.beside([group], f"git:{revision}", Selection())


def test_a_worker_gets_the_same_group(tmp_path):
    group = Group(find.kernel("plus_one"), "tiny", (40,), dtype("float32"), old=str(tmp_path / "plus_one.cu"))
    there = Work.on(group).group()
    assert [v.label for v in there.variants()] == [v.label for v in group.variants()]
    assert there.old == group.old


@pytest.mark.parametrize(
    ("given", "only", "said"),
    [
        ("gone.cu", "", r"gone.cu is not there; give the old .cu, or git:REV"),
        (".", "", "is a folder; give a file"),
        ("git:HEAD", "", "scale.cu is in no git repository .* give --against OLD.cu"),
        ("mine/scale.cu", "", "is one .cu, and the kernels are scale, plus_one; name one, or give git:REV"),
        ("mine/scale.cu", "numpy", "none is left to run; check --only and --skip"),
    ],
)
def test_what_cannot_be_compared_is_refused(group, tmp_path, monkeypatch, given, only, said):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    other = Group(find.kernel("plus_one"), "tiny", (40,), dtype("float32"))
    with pytest.raises(InputError, match=said):
        against.beside([group, other] if "plus_one" in said else [group], given, Selection.of(only, ""))
