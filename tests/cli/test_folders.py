"""Where a kernel can be named, so can a folder, a list, a glob, and in Python a Kernel; help(kernel) describes it."""

from __future__ import annotations

import os
import pydoc
import re
import shutil
from pathlib import Path

import pytest
from commands import invoke, ran
from tables import table

import cudalab
from cudalab.base.errors import InputError, NotFound, SpecError
from cudalab.engine import plan
from cudalab.engine.selection import Selection
from cudalab.kernels.gelu import gelu
from cudalab.spec import find
from cudalab.tools.inspect import chosen_entries

EXAMPLE = Path("bench/examples/softmax.py")
CPU = {"only": "numpy", "device": "cpu"}


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


@pytest.mark.process
def test_a_folder_stands_for_its_specs(mine, monkeypatch):
    done = ran("check", mine, "--size", "4x8", "--only", "numpy", "--device", "cpu", "-q", "--format", "csv")
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


def test_commas_make_a_list_of_kernels_unless_a_file_has_them(mine, monkeypatch):
    monkeypatch.chdir(mine)
    names = re.findall(r"^(\S.*?):", invoke("list", "./soft_a.py,plus_one,below/").stdout, re.MULTILINE)
    assert names == ["soft_a", "plus_one", "soft_c", "backends"]
    assert find.words(["./soft_a.py,plus_one"]) == ["./soft_a.py", "plus_one"]
    (mine / "a,b.py").touch()
    assert find.words(["./a,b.py"]) == ["./a,b.py"]
    assert "no kernel named ''" in invoke("bench", "").output  # of an unset shell variable, and not all of the lab
    with pytest.raises(SpecError, match=r"no spec at .*/soft_a\.txt\.py"):
        find.kernel("./soft_a.txt")


@pytest.mark.process
@pytest.mark.filterwarnings("default:left out")
def test_kernels_without_the_dtype_are_left_out_with_a_word(mine):
    done = invoke("check", "plus_one", mine, "--size", "4x8", "--dtype", "int32", "--only", "numpy", "--device", "cpu")
    assert done.exit_code == 0 and "soft" not in done.stdout
    assert "\nWarning: left out, without dtype int32: soft b, soft_a\n" in f"\n{done.stderr}"


def test_profile_and_inspect_take_variants_of_some_of_the_kernels(mine):
    plus_one, soft = find.kernel("plus_one"), find.kernel(f"{mine}/soft_a.py")
    chosen = {plus_one.file: ["plus_one_vec"], soft.file: ["softmax"]}
    assert chosen_entries([plus_one, soft], "plus_one_vec,softmax", "") == chosen
    assert chosen_entries([plus_one, soft], "softmax", "") == {soft.file: ["softmax"]}
    with pytest.raises(NotFound, match="no entry of plus_one, soft_a named 'gone'"):
        chosen_entries([plus_one, soft], "softmax,gone", "")
    with pytest.raises(InputError, match="no entry of plus_one, soft_a is left"):
        chosen_entries([plus_one, soft], "", "*")
    selection = Selection.of("plus_one_vec,torch_*", "softmax")
    one, other = plan.groups(["plus_one"], "4", ""), plan.groups([soft.file], "4x8", "")
    selection.check(one + other)
    assert selection.about(one[0]) == Selection(("plus_one_vec", "torch_*"), ())
    assert selection.about(other[0]) == Selection(("torch_*",), ("softmax",))


def test_a_bad_spec_of_a_folder_does_not_hide_the_others(mine):
    spec = (mine / "soft_a.py").read_text()
    (mine / "soft_a.py").write_text(f"{spec}\n1 / 0\n")
    (mine / "soft b.py").write_text(f"{spec}\nfrom cudalab import todo\ndef later():\n    todo('its grid')\n")
    done = invoke("list", mine, mine / "below")
    assert done.exit_code == 2 and "soft_c: " in done.stdout
    assert "soft_a.py: ZeroDivisionError" in done.stderr and "soft b.py" in done.stderr and "its grid" in done.stderr
    assert invoke("list", mine / "soft_a.py").exit_code == 2
    assert invoke("check", mine, "--device", "cpu").exit_code == 2  # what measures takes all or none


def test_a_folder_where_one_kernel_is_needed(mine):
    with pytest.raises(SpecError, match=r"several specs, and one is needed here; give one of: '.*/soft b.py' .*_a.py"):
        find.kernel(str(mine))
    assert find.kernel(f"{mine}/below").name == "soft_c"
    with pytest.raises(SpecError, match=r"without a pair of \.cu and \.py; give .*/mine"):
        find.kernel(str(mine.parent))
    done = ran("tune", mine, "gelu", "--dry-run")
    assert done.stdout.startswith("gelu: 12 configurations")
    assert done.stderr.count("left out: soft") == 2
    done = invoke("tune", "gelu", "softmax", "-o", mine / "x.json", "--dry-run")
    assert "-o writes the parameters of one kernel, but 2 were given" in done.output
    assert "none of soft b, soft_a declares tunables" in invoke("tune", mine, "--dry-run").output
    assert "Missing argument 'KERNEL...'" in invoke("inspect").output


@pytest.mark.parametrize(("there", "asked", "meant"), table("unknown_names", "meant", str.split, str, str))
def test_an_unknown_name_may_mean_a_file_of_the_folder(tmp_path, monkeypatch, there, asked, meant):
    for name in there:
        (os.mkfifo if name.endswith("|") else Path.touch)(tmp_path / name.rstrip("|"))
    monkeypatch.chdir(tmp_path)
    done = invoke("check", asked)
    assert done.exit_code == 2 and meant.format(folder=tmp_path) in done.output
    assert not ("did you mean './" in done.output and "named by its path" in done.output)


def test_globs_name_kernels_of_the_lab():
    assert [kernel.name for kernel in find.chosen(["gelu*", "sum"])] == ["gelu", "gelu_backward", "gelu_tanh", "sum"]
    with pytest.raises(NotFound, match=r"no kernel named 'g\?'"):
        find.chosen(["g?"])


@pytest.mark.process
def test_what_python_takes_for_kernels(mine):
    run = cudalab.check(["plus_one", (gelu,)], kernel=[mine / "soft_a.py"], size=["8x8"], dtype="float*", **CPU)
    assert list(dict.fromkeys(c.kernel for c in run.cases)) == ["plus_one", "gelu", "soft_a"]
    assert {c.dtype for c in run.cases if c.kernel == "gelu"} == {"float32", "float16"}  # bfloat16 does not fit
    assert run.options["kernels"] == ["plus_one", "gelu", str(mine / "soft_a.py")]
    for wrong in (3, None, b"gelu", ["gelu", 2.5], {"gelu": 1}):
        with pytest.raises(InputError, match=r"got .* of type \w+ for a kernel; give a name such as 'gelu'"):
            cudalab.bench(wrong)
    with pytest.raises(NotFound, match=r"no option named 'sise'; did you mean 'size'. known: size, dtype, sizes"):
        cudalab.bench("gelu", sise="small")
    with pytest.raises(InputError, match="sizes is given twice"):
        cudalab.check("gelu", size="8", sizes="8")


def test_help_describes_a_kernel_even_one_whose_inputs_cannot_be_made(mine):
    assert "A kernel as a function on arrays" in pydoc.plain(pydoc.render_doc(cudalab.Kernel))
    text = pydoc.plain(pydoc.render_doc(find.kernel("matmul")))
    assert "c = matmul(a, b, out=None)" in text or "y = matmul(a, b, out=None)" in text
    assert re.search(r"^ +a +256 x 256 float32$", text, re.MULTILINE)
    assert find.kernel("matmul").summary in text and "entries: matmul_plain" in text
    spec = mine / "soft_a.py"
    spec.write_text(spec.read_text().replace("reference=", "inputs=lambda *given: 1 / 0, reference=", 1))
    assert re.search(r"^    x$", find.kernel(str(spec)).__doc__, re.MULTILINE)


@pytest.mark.parametrize("call", [cudalab.check, cudalab.bench])
@pytest.mark.parametrize("given", [([],), ([], ()), ([[]],)])
def test_an_empty_list_of_kernels_is_not_the_whole_lab(call, given):
    with pytest.raises(
        InputError, match="got an empty list of kernels; give a name such as 'gelu', or leave the list out"
    ):
        call(*given)
    with pytest.raises(InputError, match="got an empty list of kernels"):
        call(kernel=[])
