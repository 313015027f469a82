"""`cudalab new`: the spec that it writes runs once its author has filled it in."""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path

import pytest
from commands import invoke, ran, refused
from tables import table

from cudalab.base.errors import InputError
from cudalab.spec import find, python_source
from cudalab.spec.dtype import dtype

DATA = Path(__file__).parents[1] / "data"
MADE = DATA / "made"


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def written():
    """The text of the spec that `cudalab new` writes for a `.cu`; Python compiles it."""

    def write(code, name="k"):
        Path(f"{name}.cu").write_text(code)
        ran("new", f"{name}.cu")
        text = Path(f"{name}.py").read_text()
        compile(text, f"{name}.py", "exec")
        return text

    return write


def hole(name):
    return f'return todo("reference: what {name} computes, in NumPy")'


def fill(path, *changes):
    text = Path(path).read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    Path(path).write_text(text)


def test_it_says_what_it_wrote_and_what_is_to_fill_in():
    shutil.copy(MADE / "vadd.cu", "vadd.cu")
    run = ran("new", "vadd.cu")
    holes = Path("vadd.py").read_text().count("TODO")
    assert run.output == f"wrote vadd.py\nfill in the {holes} places marked TODO, then: cudalab check ./vadd.py\n"


@pytest.mark.sweep
def test_a_spec_for_rows_has_inputs_of_their_own_dtypes_and_shapes():
    Path("mine").mkdir()
    shutil.copy(MADE / "scale.cu", "mine")
    ran("new", "mine/scale")
    fill("mine/scale.py", (hole("scale"), "return x * w + bias"))
    check = ("check", "./mine/scale.py", "--device", "cpu", "--only", "host")
    unfilled = invoke(*check)
    assert unfilled.exit_code == 2 and "fill in the value of bias" in unfilled.output
    fill("mine/scale.py", ('lambda: todo("the value of bias")', "1e-3"))
    kernel = find.kernel("./mine/scale.py")
    arrays = {name: (a.shape, a.dtype.name) for name, a in kernel.make((3, 5), dtype("float16")).items()}
    assert arrays == {"x": ((3, 5), "float16"), "w": ((5,), "float32")}
    ran(*check)


SIGNATURES = DATA / "signatures"  # of llm.c, of tutorials and of libraries


def named(rest):
    return dict(word.split("=") for word in rest.split())


@pytest.mark.parametrize("name", sorted(file.stem for file in SIGNATURES.glob("*.cu")))
def test_a_spec_has_what_the_code_says_and_loads(written, name):
    """Beside each `.cu` stands what its spec says, says once and does not say; inputs, outputs and scalars."""
    text = written((SIGNATURES / f"{name}.cu").read_text(), name)
    shown, kernel = " ".join(text.split()), find.kernel(f"./{name}.py")
    for line in (SIGNATURES / f"{name}.expected").read_text().splitlines():
        word, _, rest = line.partition(" ")
        holds = {
            "says": lambda rest: rest in shown,
            "once": lambda rest: shown.count(rest) == 1,
            "lacks": lambda rest: rest not in shown,
            "inputs": lambda rest: (
                kernel.input_names == tuple(rest.split())
                and all(kernel.make(kernel.edges[-1], dtype(one)) for one in kernel.dtypes)
            ),
            "outputs": lambda rest: {n: out.dtype for n, out in kernel.outs.items()} == named(rest),
            "scalars": lambda rest: {n: one.dtype for n, one in kernel.scalars.items()} == named(rest),
        }
        assert holds[word](rest), (line, text)
    assert max(map(len, text.splitlines())) <= 120


@pytest.mark.sweep
def test_a_copy_of_a_lab_kernel_runs_at_once():
    run = ran("new", "mine/rows.cu", "--like", "softmax")
    assert "wrote mine/common/row.cuh" in run.stderr and "wrote" not in run.stdout
    kernel = find.kernel("./mine/rows.py")
    assert (kernel.name, list(kernel.entries)) == ("rows", list(find.kernels()["softmax"].entries))
    assert kernel.triton_file.is_file()
    again = invoke("new", "mine/other.cu", "--like", "softmax")  # the headers are there
    assert again.exit_code == 0 and "common" not in again.output
    ran("check", "./mine/rows.py", "--sizes", "5x7", "--device", "cpu", "--only", "host")


@pytest.mark.parametrize(
    ("includes", "dtypes", "lacking"),
    [
        ("#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n", ("float32", "float16", "bfloat16"), ""),
        ('#include "half.cuh"\n', ("float32", "float16"), "; bfloat16 needs <cuda_bf16.h>"),
        ("", ("float32",), "; float16 needs <cuda_fp16.h>, bfloat16 needs <cuda_bf16.h>"),
    ],
)
def test_a_kernel_of_scalar_t_is_offered_the_dtypes_whose_headers_it_has(written, includes, dtypes, lacking):
    Path("half.cuh").write_text("#include <cuda_fp16.h>\n")
    text = written(f"{includes}__global__ void k(const scalar_t* x, const float* w, scalar_t* y, int n) {{}}")
    kernel = find.kernel("./k.py")
    assert (kernel.dtypes, tuple(kernel.budgets)) == (dtypes, dtypes)
    assert f"# what scalar_t may be{lacking}\n" in text
    kinds = {name: array.dtype for name, array in kernel.make((5,), dtype(dtypes[-1])).items()}
    assert kinds == {"x": dtype(dtypes[-1]).numpy, "w": "float32"}


def test_a_spec_that_is_not_filled_in_ends_a_run_at_once_and_names_every_place(written):
    text = written("__global__ void scale(const float* x, float* y, Mode mode, float bend, int n) {}", "scale")
    marked = [i for i, line in enumerate(text.splitlines(), 1) if "TODO" in line]
    asked = [i for i, line in enumerate(text.splitlines(), 1) if 'todo("' in line]
    reference, mode, bend = asked
    path = Path("scale.py").resolve()
    for command in ("check", "bench"):
        assert refused(command, "./scale.py") == (
            f"Error: {path}:{reference}: fill in reference: what scale computes, in NumPy\n"
            f"{path}:{mode}: fill in mode of type Mode: a NumPy scalar of its size\n"
            f"{path}:{bend}: fill in the value of bend\n"
            f"also marked TODO: lines {', '.join(str(i) for i in marked if i not in asked)} "
            "(guesses are filled in; check them)\n"
        )


def test_of_a_texture_new_says_that_the_kernel_is_to_read_an_array():
    Path("t.cu").write_text("__global__ void t(cudaTextureObject_t image, float* y, int n) { y[n] = 0; }")
    ran("new", "t.cu")
    said = "image: a launch passes no cudaTextureObject_t; let the kernel read an array in its place"
    assert f'todo("{said}")' in Path("t.py").read_text()


def test_a_name_of_the_lab_or_of_python_does_not_break_the_spec():
    code = "__global__ void f(const int* in, const int* inputs, int* lambda, long long np, unsigned k) {}"
    Path("k.cu").write_text(code)
    ran("new", "./k.py")  # the name of the spec stands for its `.cu`
    runpy.run_path("k.py")


def test_the_cuda_code_of_a_python_file_becomes_a_cu_with_its_spec():
    shutil.copy(MADE / "model.txt", "model.py")
    assert f"write both: cudalab new {Path('model.py').resolve()}" in refused("check", "model.py")  # which is not run
    run = ran("new", "model.py")
    assert "wrote twice_ext.cu: cuda_sources of load_inline" in run.stderr and "of model.py\n" in run.stderr
    assert "host code at lines 1, 7 to 11 is left out: the lab launches\n" in run.stderr
    kernel = find.kernel("./twice_ext.py")
    assert (kernel.name, list(kernel.entries)) == ("twice_ext", ["twice"])
    launch = "return Launch((blocks(x.size, 128),), (128,), (x, y, np.int32(x.size)))"
    assert f"# Grid and block: read from line 9.\n    {launch}" in Path("twice_ext.py").read_text()
    again = invoke("new", "model.py")
    assert again.exit_code == 2 and "twice_ext.cu exists, and is not replaced" in again.output


OWN = """from pathlib import Path
CODE = "__global__ void f(float* y) { y[threadIdx.x] = 1; }"
if False: RawKernel(CODE, "f")
import cudalab as c
Path(__file__).with_suffix(".cu").write_text(CODE)
f = c.Kernel(file=__file__, summary="f", dtypes=("float32",), sizes={"small": (8,)}, edges=((1,),), budgets=c.Budget(0),
    reference=lambda x: x, entries={"f": lambda x, y: c.Launch((1,), (8,), (y,))})
"""


@pytest.mark.parametrize("given", [1, 0])
def test_a_spec_may_write_its_own_cu_and_other_files_with_code_are_told_what_to_type(given):
    lines = [line for line in OWN.splitlines() if given or "RawKernel" not in line]
    Path("own.py").write_text("\n".join(lines))
    assert list(find.kernel("./own.py").entries) == ["f"]
    Path("other.py").write_text("\n".join(lines[: 2 + given]))
    assert f"write both: cudalab new {Path('other.py').resolve()}" in refused("check", "other.py")


@pytest.mark.parametrize(("code", "said"), table("new", "files of Python"))
def test_a_python_file_whose_code_cannot_be_read_is_refused_and_nothing_written(code, said):
    Path("p.py").write_text(code)
    assert said in refused("new", "p.py")
    assert [file.name for file in Path().iterdir()] == ["p.py"]


NAMES = ("k", "k_2", "k", "k")


def test_kernels_of_one_name_get_files_of_their_own(tmp_path):
    kernels = [(name, f'extern "C" __global__ void {name}(float* y) {{ y[{i}] = 1; }}') for i, name in enumerate(NAMES)]
    path = tmp_path / "several.py"
    path.write_text("\n".join(f"cupy.RawKernel({code!r}, {name!r})" for name, code in kernels))
    assert [one.name for one in python_source.taken(path)] == ["k", "k_2", "k_3", "k_4"]


@pytest.mark.parametrize("text", ["f'{src:d}'", "{[1]: 'a'}['b']", " + ".join(["'a'"] * 3000)])
def test_strings_that_cannot_be_put_together_are_a_clear_error(tmp_path, text):
    path = tmp_path / "odd.py"
    path.write_text(f"src = '__global__ void k() {{}}'\ncupy.RawKernel({text}, 'k')\n")
    with pytest.raises(InputError, match=r"cannot be read without running|nested too deeply"):
        python_source.taken(path)
