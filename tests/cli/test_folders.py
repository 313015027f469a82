"""Where a kernel can be named, so can a folder, a list, a glob, and in Python a Kernel; help(kernel) describes it."""

from __future__ import annotations

import pydoc
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

import cudalab
from cudalab.base.errors import InputError, NotFound, SpecError
from cudalab.cli import main
from cudalab.kernels.gelu import gelu
from cudalab.spec import find

EXAMPLE = Path("bench/examples/softmax.py")
CPU = {"only": "numpy", "device": "cpu"}


def invoke(*words):
    return CliRunner().invoke(main, [*map(str, words)])


@pytest.fixture
def mine(tmp_path):
    """A folder with two specs, a `.cu` and a `.py` that are none, and a spec in a folder below."""
    folder = tmp_path / "mine"
    (folder / "below").mkdir(parents=True)
    for name in ("soft_a", "soft b", "below/soft_c"):
        for suffix in (".py", ".cu"):
            shutil.copy(EXAMPLE.with_suffix(suffix), folder / f"{name}{suffix}")
    (folder / "lonely.cu").touch()
    (folder / "helper.py").write_text("raise SystemExit('not a spec')")
    return folder


def test_a_folder_stands_for_its_specs(mine, monkeypatch):
    done = invoke("check", mine, "--size", "4x8", "--only", "numpy", "--device", "cpu", "-q", "--format", "csv")
    assert done.exit_code == 0, done.output
    assert [line.split(",")[0] for line in done.stdout.splitlines()[1:]] == ["soft b", "soft_a"]
    monkeypatch.chdir(mine.parent)
    for words in (
        ("mine/", "mine/below", "plus_one"), ("./mine", "--kernel", "mine/below,plus_one"),
        ("--kernels", "mine/soft b.cu,mine/soft_a.py", "--kernel", "mine/below/soft_c.cu", "--kernel", "plus_one"),
    ):  # fmt: skip
        names = re.findall(r"^(\S.*?):", invoke("list", *words).stdout, re.MULTILINE)
        assert sorted(names) == ["backends", "plus_one", "soft b", "soft_a", "soft_c"]
    assert find.words([Path("mine"), Path("mine/soft_a.py")]) == ["./mine", "mine/soft_a.py"]
    assert "such as ./mine" in invoke("bench", "mine").output  # a word without a slash is a name of the lab's


def test_a_folder_where_one_kernel_is_needed(mine):
    with pytest.raises(SpecError, match=r"several specs, and one is needed here; give one of: '.*/soft b.py' .*_a.py"):
        find.kernel(str(mine))
    assert find.kernel(f"{mine}/below").name == "soft_c"
    with pytest.raises(SpecError, match=r"without a pair of \.cu and \.py; give .*/mine"):
        find.kernel(str(mine.parent))
    done = invoke("tune", mine, "gelu", "--dry-run")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("gelu: 12 configurations")
    assert done.stderr.count("left out: soft") == 2
    done = invoke("tune", "gelu", "softmax", "-o", mine / "x.json", "--dry-run")
    assert "2 kernels are given, and a file of -o is of one" in done.output
    assert "Missing argument 'KERNEL...'" in invoke("inspect").output


def test_globs_name_kernels_of_the_lab():
    assert [kernel.name for kernel in find.chosen(["gelu*", "sum"])] == ["gelu", "gelu_backward", "gelu_tanh", "sum"]
    with pytest.raises(NotFound, match=r"no kernel named 'g\?'"):
        find.chosen(["g?"])


def test_what_python_takes_for_kernels(mine):
    run = cudalab.check(["plus_one", (gelu,)], kernel=[mine / "soft_a.py"], size=["8x8"], dtype="float*", **CPU)
    assert list(dict.fromkeys(c.kernel for c in run.cases)) == ["plus_one", "gelu", "soft_a"]
    assert {c.dtype for c in run.cases if c.kernel == "gelu"} == {"float32", "float16"}  # bfloat16 does not fit
    assert run.options["kernels"] == ["plus_one", "gelu", str(mine / "soft_a.py")]
    for wrong in (3, None, b"gelu", ["gelu", 2.5], {"gelu": 1}):
        with pytest.raises(InputError, match=r"got .* of type \w+ for a kernel; give a name such as 'gelu'"):
            cudalab.bench(wrong)
    with pytest.raises(NotFound, match="no option named 'sise'; did you mean 'sizes'"):
        cudalab.bench("gelu", sise="small")
    with pytest.raises(InputError, match="sizes is given twice"):
        cudalab.check("gelu", size="8", sizes="8")


def test_help_describes_a_kernel():
    text = pydoc.plain(pydoc.render_doc(cudalab.Kernel))
    assert "A kernel as a function on arrays" in text
    text = pydoc.plain(pydoc.render_doc(find.kernel("matmul")))
    assert "c = matmul(a, b, out=None)" in text or "y = matmul(a, b, out=None)" in text
    assert re.search(r"^ +a +256 x 256 float32$", text, re.MULTILINE)
    assert find.kernel("matmul").summary in text
    assert "entries: matmul_plain" in text


def test_help_of_a_kernel_whose_inputs_cannot_be_made(mine):
    spec = mine / "soft_a.py"
    spec.write_text(spec.read_text().replace("reference=", "inputs=lambda *given: 1 / 0, reference=", 1))
    assert re.search(r"^    x$", find.kernel(str(spec)).__doc__, re.MULTILINE)
