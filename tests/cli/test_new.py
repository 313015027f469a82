"""`cudalab new`: the spec that it writes runs once its author has filled it in."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from click.testing import CliRunner

from cudalab.cli import main
from cudalab.spec import find
from cudalab.spec.dtype import dtype

ADD = """
// __global__ void commented_out(float* y);
extern "C" __global__ void vadd(const float* a, const float *b, float* __restrict__ c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
template <typename T> __global__ void helper(T* x) {}
"""
ROWS = """
#include <cuda_fp16.h>
__global__ void scale(const __half* x, const float* w, __half* out, int rows, int cols, float eps) {
    for (int c = threadIdx.x; c < cols; c += blockDim.x)
        out[blockIdx.x * cols + c] = __float2half(__half2float(x[blockIdx.x * cols + c]) * w[c] + eps);
}
"""


@pytest.fixture
def lab(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def call(*words):
        return CliRunner().invoke(main, [str(word) for word in words])

    return call


def hole(name):
    return f'raise NotImplementedError("write reference in {name}.py: what {name} computes, in NumPy")'


def fill(path, *changes):
    text = Path(path).read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    Path(path).write_text(text)


def test_a_spec_for_a_vector_kernel_needs_its_reference_only(lab):
    Path("vadd.cu").write_text(ADD)
    run = lab("new", "vadd.cu")
    assert run.exit_code == 0, run.output
    holes = Path("vadd.py").read_text().count("TODO")
    assert run.output == (f"wrote vadd.py\nfill in the {holes} places marked TODO, then: cudalab check ./vadd.py\n")
    unfilled = lab("check", "./vadd.py", "--device", "cpu")
    assert unfilled.exit_code == 2
    assert "write reference in vadd.py: what vadd computes, in NumPy" in " ".join(unfilled.output.split())
    fill(
        "vadd.py",
        ('raise NotImplementedError("write reference in vadd.py: what vadd computes, in NumPy")', "return a + b"),
    )
    run = lab("check", "./vadd.py", "--device", "cpu", "--only", "host")
    assert run.exit_code == 0, run.output
    assert "host:vadd" in run.output and "right" in run.output


@pytest.mark.slow
def test_a_spec_for_rows_has_inputs_of_their_own_dtypes_and_shapes(lab):
    Path("mine").mkdir()
    Path("mine/scale.cu").write_text(ROWS)
    assert lab("new", "mine/scale").exit_code == 0
    fill(
        "mine/scale.py",
        (hole("scale"), "return x * w + 1"),
    )
    kernel = find.kernel("./mine/scale.py")
    arrays = {name: (a.shape, a.dtype.name) for name, a in kernel.make((3, 5), dtype("float16")).items()}
    assert arrays == {"x": ((3, 5), "float16"), "w": ((5,), "float32")}
    run = lab("check", "./mine/scale.py", "--device", "cpu", "--only", "host")
    assert run.exit_code == 0, run.output


@pytest.mark.slow
def test_a_copy_of_a_lab_kernel_runs_at_once(lab):
    run = lab("new", "mine/rows.cu", "--like", "softmax")
    assert run.exit_code == 0, run.output
    assert "wrote mine/common/row.cuh" in run.output
    kernel = find.kernel("./mine/rows.py")
    assert (kernel.name, list(kernel.entries)) == ("rows", list(find.kernels()["softmax"].entries))
    assert kernel.triton_file.is_file()
    again = lab("new", "mine/other.cu", "--like", "softmax")  # the headers are there
    assert again.exit_code == 0 and "common" not in again.output
    assert lab("check", "./mine/rows.py", "--sizes", "5x7", "--device", "cpu", "--only", "host").exit_code == 0


def test_a_name_of_the_lab_or_of_python_does_not_break_the_spec(lab):
    code = "__global__ void f(const int* in, const int* inputs, int* lambda, long long np, unsigned k) {}"
    Path("k.cu").write_text(code)
    assert lab("new", "./k.py").exit_code == 0
    runpy.run_path("k.py")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gone.cu"], "no file gone.cu; write it first, or copy one of the lab's: cudalab new gone.cu --like softmax"),
        (["here.cu"], "here.py exists, and is not replaced"),
        (["empty.cu"], "empty.cu has no __global__ function that is not a template"),
        (["noout.cu"], "no __global__ function has an input and an output"),
        (["not-a-name.cu"], "'not-a-name.cu' cannot be a kernel; give a name of letters, digits and _"),
        (["a.txt"], "'a.txt' cannot be a kernel"),
        (["b.cu", "--like", "sofmax"], "did you mean 'softmax'?"),
        (["b.cu", "--like", "./here.py"], "--like copies kernels of the lab, and ./here.py is a file"),
        (["here.cu", "--like", "plus_one"], "here.cu exists, and is not replaced"),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_is(lab, words, said):
    Path("here.cu").write_text(ADD.replace("vadd", "here"))
    Path("here.py").write_text(
        "from cudalab import Budget, Kernel, Launch\n"
        "here = Kernel(file=__file__, summary='', dtypes=('float32',), sizes={'small': (8,)}, edges=(), "
        "reference=lambda a: a, entries={'here': lambda a, y: Launch((1,), (1,), ())}, "
        "budgets={'float32': Budget(1)})\n"
    )
    Path("empty.cu").write_text("template <class T> __global__ void f(T* x) {}\n")
    Path("noout.cu").write_text("__global__ void f(const float* x, int n) {}\n")
    before = sorted(Path().rglob("*"))
    run = lab("new", *words)
    assert run.exit_code == 2
    assert said in run.output
    assert sorted(Path().rglob("*")) == before


def test_a_cu_without_a_spec_is_told_how_to_get_one(lab):
    Path("vadd.cu").write_text(ADD)
    run = lab("bench", "vadd.cu")
    assert run.exit_code == 2
    assert "write one: cudalab new" in run.output and "vadd.cu" in run.output
