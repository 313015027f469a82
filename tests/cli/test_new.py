"""`cudalab new`: the spec that it writes runs once its author has filled it in."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from click.testing import CliRunner

from cudalab.cli import main
from cudalab.spec import find
from cudalab.spec.dtype import DTYPES, dtype

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


@pytest.mark.slow
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
        (hole("scale"), "return x * w + eps"),
    )
    unfilled = lab("check", "./mine/scale.py", "--device", "cpu", "--only", "host")
    assert unfilled.exit_code == 2
    assert "fill in scale.py: the value of eps" in " ".join(unfilled.output.split())
    fill("mine/scale.py", ('lambda: todo("the value of eps")', "1e-3"))
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


AS_WRITTEN = {  # signatures of llm.c, of tutorials and of libraries; the spec's inputs, outputs and scalars
    "layernorm": (
        "__global__ void layernorm_forward_kernel3(float* __restrict__ out, float* __restrict__ mean, float* rstd,\n"
        "    const float*  __restrict__ inp, const float*  __restrict__ weight, const float* bias, int N, int C) {}",
        ("inp", "weight", "bias"), {"out": "", "mean": "", "rstd": ""}, {},
    ),
    "argmax": (
        'extern "C" __global__ __launch_bounds__(256) void argmax(const float* x, float* value,\n'
        "    long long* index, int n) {}",
        ("x",), {"value": "", "index": "int64"}, {},
    ),
    "encoder": (
        "static __global__ void encoder(float* out, const int* inp, const float* wte, const float* wpe, int B, int T,\n"
        "                               int C) {}",
        ("inp", "wte", "wpe"), {"out": ""}, {},
    ),
    "histogram": (
        "__global__ void hist(const unsigned char* data, int* bins, size_t n) {}", ("data",), {"bins": ""}, {},
    ),
    "saxpy": (
        "__global__\nvoid saxpy(int n, float a, float *x, float *y)\n{}\nint main() { saxpy<<<1, 2>>>(1, 2.f, x, y); }",
        ("x",), {"y": ""}, {"a": "float32"},
    ),
    "scale": (
        "__global__ void scale(float* data, float factor, int n) {}", ("data",), {"data": ""}, {"factor": "float32"},
    ),
    "sgemm": (
        "#define TILE 32\n__global__ void sgemm(int M, int N, int K, float alpha, const float *A, const float *B,\n"
        "    float beta, float *C) {}",
        ("A", "B"), {"C": ""}, {"alpha": "float32", "beta": "float32"},
    ),
    "adam": (
        "__global__ void adam(float* __restrict__ p, float* m, float* v, const float* g, double lr, const float eps,\n"
        "    long n) {}",
        ("g",), {"p": "", "m": "", "v": ""}, {"lr": "float64", "eps": "float32"},
    ),
    "cast": (
        "#include <cuda_fp16.h>\n__global__ void cast(const __half* in, nv_bfloat16* out, int n) {}",
        ("in_",), {"out": ""}, {},
    ),
    "steps": (
        "__global__ void partial(const float* x, float* part, int n) {}\n"
        "__global__ void total(const float* part, const int* m, double* out, int n) {}",
        ("x",), {"part": ""}, {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", AS_WRITTEN)
def test_signatures_as_their_authors_write_them_give_a_spec_that_loads(lab, name):
    code, inputs, outputs, scalars = AS_WRITTEN[name]
    Path(f"{name}.cu").write_text(code)
    run = lab("new", f"{name}.cu")
    assert run.exit_code == 0, run.output
    kernel = find.kernel(f"./{name}.py")
    assert kernel.input_names == inputs
    assert {n: out.dtype for n, out in kernel.outs.items()} == outputs
    assert {n: scalar.dtype for n, scalar in kernel.scalars.items()} == scalars
    for one in DTYPES.values():
        if one.name in kernel.dtypes:
            kernel.make(kernel.edges[-1], one)
    text = Path(f"{name}.py").read_text()
    assert ('entry="partial"), Launch(grid, block, args, entry="total")' in text) is (name == "steps")
    assert max(map(len, text.splitlines())) <= 120


@pytest.mark.parametrize(
    ("code", "entry"),
    [
        ("template <typename T> __global__ void f(const T* x, T* y, int n) {}", "f<float>"),
        (
            "namespace ns {\nnamespace {\ntemplate <int BLOCK, typename T = float>\n"
            "__global__ void __launch_bounds__(BLOCK) row_sum(const T* x, T* y, int rows, int cols) {}\n}\n}",
            "ns::row_sum<256, float>",
        ),
        ("namespace ns { struct A {}; __global__ void k(const float* x, float* y, int n) {} }", "ns::k"),
        (
            "template <typename Tp, typename Tg>\n__global__ void adamw(Tp* p, float* master, Tg* g, float eps) {}",
            "adamw<float, float>",
        ),
    ],
)
def test_templates_and_namespaces_are_named_as_c_does(lab, code, entry):
    Path("k.cu").write_text(code)
    assert lab("new", "k.cu").exit_code == 0
    text = Path("k.py").read_text()
    assert f'entries={{"{entry}": launch_' in text
    assert ("TODO: the arguments of the template <" in text) is ("template" in code)
    compile(text, "k.py", "exec")
    assert 'dtypes=("float32",),\n' in text


def test_a_plain_function_comes_before_templates(lab):
    Path("vadd.cu").write_text(ADD.replace("T* x", "const T* x, T* y"))
    assert lab("new", "vadd.cu").exit_code == 0
    assert list(find.kernel("./vadd.py").entries) == ["vadd"]


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
        (["empty.cu"], "empty.cu has no __global__ function; the spec names what is launched"),
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
    Path("empty.cu").write_text("template <class T> __device__ void f(T* x) {}\n")
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
