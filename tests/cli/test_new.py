"""`cudalab new`: the spec that it writes runs once its author has filled it in."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from click.testing import CliRunner

from cudalab.base.errors import InputError
from cudalab.cli import main
from cudalab.spec import find, python_source
from cudalab.spec.dtype import DTYPES, dtype
from cudalab.spec.signatures import signatures

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
__global__ void scale(const __half* x, const float* w, __half* out, int rows, int cols, float bias) {
    for (int c = threadIdx.x; c < cols; c += blockDim.x)
        out[blockIdx.x * cols + c] = __float2half(__half2float(x[blockIdx.x * cols + c]) * w[c] + bias);
}
"""


@pytest.fixture
def lab(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def call(*words):
        return CliRunner().invoke(main, [str(word) for word in words])

    return call


def hole(name):
    return f'return todo("reference: what {name} computes, in NumPy")'


def fill(path, *changes):
    text = Path(path).read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    Path(path).write_text(text)


@pytest.mark.sweep
def test_a_spec_for_a_vector_kernel_needs_its_reference_only(lab):
    Path("vadd.cu").write_text(ADD)
    run = lab("new", "vadd.cu")
    assert run.exit_code == 0, run.output
    holes = Path("vadd.py").read_text().count("TODO")
    assert run.output == (f"wrote vadd.py\nfill in the {holes} places marked TODO, then: cudalab check ./vadd.py\n")
    unfilled = lab("check", "./vadd.py", "--device", "cpu")
    assert unfilled.exit_code == 2
    assert "vadd.py:11: fill in reference: what vadd computes, in NumPy" in unfilled.output
    fill("vadd.py", (hole("vadd"), "return a + b"))
    run = lab("check", "./vadd.py", "--device", "cpu", "--only", "host")
    assert run.exit_code == 0, run.output
    assert "host:vadd" in run.output and "right" in run.output


@pytest.mark.sweep
def test_a_spec_for_rows_has_inputs_of_their_own_dtypes_and_shapes(lab):
    Path("mine").mkdir()
    Path("mine/scale.cu").write_text(ROWS)
    assert lab("new", "mine/scale").exit_code == 0
    fill(
        "mine/scale.py",
        (hole("scale"), "return x * w + bias"),
    )
    unfilled = lab("check", "./mine/scale.py", "--device", "cpu", "--only", "host")
    assert unfilled.exit_code == 2
    assert "fill in the value of bias" in unfilled.output
    fill("mine/scale.py", ('lambda: todo("the value of bias")', "1e-3"))
    kernel = find.kernel("./mine/scale.py")
    arrays = {name: (a.shape, a.dtype.name) for name, a in kernel.make((3, 5), dtype("float16")).items()}
    assert arrays == {"x": ((3, 5), "float16"), "w": ((5,), "float32")}
    run = lab("check", "./mine/scale.py", "--device", "cpu", "--only", "host")
    assert run.exit_code == 0, run.output


USES = {
    "updated": ("float* p, const float* g, float* m, int n", "m[i] = 0.9f * m[i] + g[i]; p[i] -= m[i];"),
    "read again": ("const float* x, float* y, int n", "y[i] = expf(x[i]); y[i] /= 2; if (y[i] == 0) y[i] = 1;"),
    "summed": ("const int* x, unsigned* bins, int n", "atomicAdd(&bins[x[i]], 1u);"),
    "summed and read": ("const float* x, float* y, int n", "atomicAdd(&y[0], x[i]); if (y[1] > 0) return;"),
    "rows": ("const float* x, float* v, int* at, int rows, int cols", "v[row] = x[row * cols]; at[row] = 0;"),
    "unknown": ("const float* x, float* y, float* s, int cols", "s[k] = x[0]; y[k * cols + i] = 1;"),
    "moved": ("const float* x, const float* w, float* y, int cols", "x += 9; y += 9; y[i] = x[i] * w[i];"),
}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("updated", ["reference(p, g, m)", "(p, m)", "# p, m: updated in place.", 'outputs={"p": Out(), "m": Out()}']),
        (
            "read again",
            ["reference(x)", "# If the kernel reads an output before it writes it, as in y[i] += x[i], add"],
        ),
        ("summed", ['outputs={"bins": Out(fill=0)}', "reference(x)"]),
        ("summed and read", ["reference(x)", '    reference=reference,\n    entries={"f": launch_f}']),
        ("rows", ['shapes={"x": "rows cols", "v": "rows", "at": "rows"}', '"at": Out(dtype="int32")']),
        ("unknown", ['"s": lambda x: todo("the shape of s, such as (x[0],)"),  # TODO']),
        ("moved", ["# TODO: the shape of x, w, y: is it so?", '"y": "rows cols"']),
    ],
)
def test_the_body_says_how_arrays_are_used(lab, name, expected):
    parameters, body = USES[name]
    Path("f.cu").write_text(
        f"__global__ void f({parameters}) {{ int i = threadIdx.x, row = blockIdx.x, k = i; {body} }}"
    )
    assert lab("new", "f.cu").exit_code == 0
    text = Path("f.py").read_text()
    for said in expected:
        assert said in text, text
    assert ("fill=0" in text) == (name == "summed")


def test_an_instantiation_decides_the_arguments_of_a_template(lab):
    Path("f.cu").write_text(
        "template <typename T, int BLOCK>\n__global__ void f(const T* x, T* y, float q, int n) { y[0] = q * x[0]; }\n"
        "template __global__ void f<double, 128>(const double*, double*, float, int);\n"
        "template __global__ void f<float, 64>(const float*, float*, float, int);\n"
    )
    assert lab("new", "f.cu").exit_code == 0
    text = Path("f.py").read_text()
    assert 'dtypes=("float64", "float32")' in text and "arguments of the template" not in text
    assert '"f<scalar_t, 128>": launch_f, "f<scalar_t, 64>": launch_f' in text
    assert "# TODO: or a number, as in Scalar(0.5)" in text


@pytest.mark.sweep
def test_a_copy_of_a_lab_kernel_runs_at_once(lab):
    run = lab("new", "mine/rows.cu", "--like", "softmax")
    assert run.exit_code == 0, run.output
    assert "wrote mine/common/row.cuh" in run.stderr and "wrote" not in run.stdout
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
        ("inp", "wte", "wpe"), {"out": ""}, {"T": "int32"},
    ),
    "histogram": (
        "__global__ void hist(const unsigned char* data, int* bins, size_t n) {}", ("data",), {"bins": ""}, {},
    ),
    "unsigned_bins": (
        "__global__ void hist(const unsigned* keys, unsigned int* bins, long unsigned* total, unsigned n) {}",
        ("keys",), {"bins": "", "total": "uint64"}, {},
    ),
    "of_several_dtypes": (
        "#include <cuda_fp16.h>\n__global__ void scale(const scalar_t* x, const float* w, scalar_t* y, float* sums,\n"
        "    int rows, int cols, scalar_t alpha) {}",
        ("x", "w"), {"y": "", "sums": "float32"}, {"alpha": "float32"},
    ),
    "draws": (
        "__global__ void draws(double* y, long long n, unsigned long long seed) {}",
        ("y",), {"y": ""}, {"seed": "uint64"},
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
        ("A", "B"), {"C": ""}, {"M": "int32", "K": "int32", "alpha": "float32", "beta": "float32"},
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
        ("x", "m"), {"out": "float64"}, {},
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
    assert ('entry="partial"' in text and 'workspace={"part": Work()}' in text) is (name == "steps")
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
        (
            "template <typename scalar_t> __global__ void f(const scalar_t* x, scalar_t* y, float* sum, int n) {}",
            "f<scalar_t>",
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
    of_several = "# what scalar_t may be" in text
    assert of_several is ("scalar_t" in code) and ('dtypes=("float32",),' in text)


@pytest.mark.parametrize(
    ("includes", "dtypes", "lacking"),
    [
        ("#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n", ("float32", "float16", "bfloat16"), ""),
        ('#include "half.cuh"\n', ("float32", "float16"), "bfloat16 needs <cuda_bf16.h>"),
        ("", ("float32",), "float16 needs <cuda_fp16.h>, bfloat16 needs <cuda_bf16.h>"),
    ],
)
def test_a_kernel_of_scalar_t_is_offered_the_dtypes_whose_headers_it_has(lab, includes, dtypes, lacking):
    Path("half.cuh").write_text("#include <cuda_fp16.h>\n")
    Path("k.cu").write_text(f"{includes}__global__ void k(const scalar_t* x, const float* w, scalar_t* y, int n) {{}}")
    assert lab("new", "k.cu").exit_code == 0
    kernel = find.kernel("./k.py")
    assert (kernel.dtypes, tuple(kernel.budgets)) == (dtypes, dtypes)
    assert f"# what scalar_t may be{'; ' * bool(lacking)}{lacking}\n" in Path("k.py").read_text()
    kinds = {name: array.dtype for name, array in kernel.make((5,), dtype(dtypes[-1])).items()}
    assert kinds == {"x": dtype(dtypes[-1]).numpy, "w": "float32"}


@pytest.mark.parametrize(
    ("declared", "shared"),
    [
        ("extern __shared__ float tile[];", "shared=256 * 4)"),
        ("extern __shared__ __align__(16) double tile[];", "shared=256 * 8)"),
        ("extern __align__(sizeof(int)) __shared__ scalar_t tile[];", "shared=256 * x.dtype.itemsize)"),
        ("extern __shared__ unsigned char raw[];", 'shared=todo("the bytes of extern __shared__ unsigned char raw[]")'),
        ("__shared__ float tile[32];", ""),
    ],
)
def test_dynamic_shared_memory_has_its_bytes_in_the_launch(lab, declared, shared):
    kernel = f"__global__ void k(const scalar_t* x, scalar_t* y, int n) {{ {declared} }}"
    other = "__global__ void other(const scalar_t* x, scalar_t* y, int n) { if (n) { y[0] = x[0]; } }"
    Path("k.cu").write_text(f"__global__ void k(const scalar_t* x, scalar_t* y, int n);\n{other}\n{kernel}\n")
    assert lab("new", "k.cu").exit_code == 0
    text = Path("k.py").read_text()
    assert shared in text and text.count("shared=") == bool(shared)
    assert text.count("# TODO: the bytes of extern") == bool(shared)
    compile(text, "k.py", "exec")


@pytest.mark.sweep
def test_a_kernel_without_inputs_has_a_spec_whose_reference_takes_the_shape_of_the_output(lab):
    Path("count.cu").write_text(
        "__global__ void count(int* y, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = i; }"
    )
    assert lab("new", "count.cu").exit_code == 0
    fill("count.py", (hole("count"), "return np.arange(y.size)"))
    run = lab("check", "./count.py", "--size", "300", "--device", "cpu", "--only", "host")
    assert run.exit_code == 0, run.output


def test_a_spec_that_is_not_filled_in_ends_a_run_at_once_and_names_every_place(lab):
    Path("scale.cu").write_text("__global__ void scale(const float* x, float* y, Mode mode, float bend, int n) {}")
    assert lab("new", "scale.cu").exit_code == 0
    lines = Path("scale.py").read_text().splitlines()
    reference, mode, bend = (next(i for i, line in enumerate(lines, 1) if word in line) for word in (
        "todo(\"reference: what", "todo(\"mode of type Mode", "todo(\"the value of bend"))  # fmt: skip
    others = [i for i, line in enumerate(lines, 1) if "TODO" in line and i not in (reference, mode, bend)]
    path = Path("scale.py").resolve()
    for command in ("check", "bench"):
        run = lab(command, "./scale.py")
        assert run.exit_code == 2
        assert run.output == (
            f"Error: {path}:{reference}: fill in reference: what scale computes, in NumPy\n"
            f"{path}:{mode}: fill in mode of type Mode: a NumPy scalar of its size\n"
            f"{path}:{bend}: fill in the value of bend\n"
            f"also marked TODO: lines {', '.join(map(str, others))} (guesses are filled in; check them)\n"
        )


def test_of_a_texture_new_says_that_the_kernel_is_to_read_an_array(lab):
    Path("t.cu").write_text("__global__ void t(cudaTextureObject_t image, float* y, int n) { y[n] = 0; }")
    assert lab("new", "t.cu").exit_code == 0
    said = "image: a launch passes no cudaTextureObject_t; let the kernel read an array in its place"
    assert f'todo("{said}")' in Path("t.py").read_text()


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
        (["empty.cu"], "empty.cu has no __global__ function; add one"),
        (["noout.cu"], "noout.cu: no __global__ function writes to an array"),
        (["rows.cu"], "rows.cu: f takes 'float** rows'; a Launch gives the address of an array, not an array of"),
        (["not-a-name.cu"], "'not-a-name.cu' cannot name a kernel; give a name of letters, digits and _"),
        (["a.txt"], "'a.txt' cannot name a kernel"),
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
    Path("rows.cu").write_text("__global__ void f(const float* x, float** rows, int n) {}\n")
    before = sorted(Path().rglob("*"))
    run = lab("new", *words)
    assert run.exit_code == 2
    assert said in run.output
    assert sorted(Path().rglob("*")) == before


MACROS = """
#include <cuda_bf16.h>
#define KERNEL extern "C" __global__ void
#define ACTIVATION(NAME, F)                                                              \\
    __global__ void NAME##_and_mul(__nv_bfloat16* out, const __nv_bfloat16* x, int d) {   \\
        out[threadIdx.x] = F(x[threadIdx.x]);                                            \\
    }
#define TWICE(x) ((x) + (x))
ACTIVATION(twice, TWICE)
ACTIVATION(plain, )
KERNEL halved(const float* x, float* y, int n) { y[threadIdx.x] = x[threadIdx.x] / 2; }
"""


def test_functions_that_macros_make_are_found():
    found = {one.path: [parameter.text for parameter in one.parameters] for one in signatures(MACROS)}
    arrays = ["__nv_bfloat16* out", "const __nv_bfloat16* x", "int d"]
    assert found == {
        "twice_and_mul": arrays,
        "plain_and_mul": arrays,
        "halved": ["const float* x", "float* y", "int n"],
    }


@pytest.mark.parametrize(
    ("comment", "summary"), [("sum of rows", "Sum of rows"), ("y = a x", "y = a x"), ("y[i] is a x", "y[i] is a x")]
)
def test_a_summary_that_begins_with_code_keeps_its_first_letter(lab, comment, summary):
    Path("rows.cu").write_text(f"// {comment}\n{ADD}")
    assert lab("new", "rows.cu").exit_code == 0
    assert Path("rows.py").read_text().startswith(f'"""{summary}."""')


def test_types_that_count_are_integers(lab):
    Path("rows.cu").write_text(
        "template <typename IndexType, typename T> __global__ void sums(const IndexType* ends, const T* x, T* y) {}\n"
    )
    assert lab("new", "rows.cu").exit_code == 0
    text = Path("rows.py").read_text()
    assert '"sums<int, float>"' in text and 'inputs={"ends": In("int32")}' in text


def test_a_template_beside_a_plain_function_is_a_further_step(lab):
    Path("steps.cu").write_text(
        "__global__ void count(const int* ids, int* counts, int n) {}\n"
        "template <int MOST> __global__ void scan(const int* counts, int* offsets, int n) {}\n"
    )
    assert lab("new", "steps.cu").exit_code == 0
    text = Path("steps.py").read_text()
    assert text.index('entry="count"') < text.index('entry="scan<256>"') and 'workspace={"counts": Work()}' in text


MODEL = '''
import torch
from torch.utils.cpp_extension import load_inline
raise SystemExit("this file is never run")
THREADS = 128
HEAD = r"#include <torch/extension.h>" "\\n"
source = HEAD + f"""
__global__ void twice(const float* x, float* y, int n) {{
    int i = blockIdx.x * {THREADS} + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}}
torch::Tensor run(torch::Tensor x) {{
    auto y = torch::empty_like(x);
    twice<<<(x.numel() + {THREADS - 1}) / {THREADS}, {THREADS}>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y;
}}
"""
class Model(torch.nn.Module):
    def __init__(self):
        self.ext = load_inline("twice-ext", cpp_sources=["torch::Tensor run(torch::Tensor x);"], cuda_sources=[source])
'''


def test_the_cuda_code_of_a_python_file_becomes_a_cu_with_its_spec(lab):
    Path("model.py").write_text(MODEL)
    run = lab("new", "model.py")
    assert run.exit_code == 0, run.output
    assert "wrote twice_ext.cu: cuda_sources of load_inline" in run.stderr and "of model.py\n" in run.stderr
    assert "host code at lines 1, 7 to 11 is left out: the lab launches\n" in run.stderr
    kernel = find.kernel("./twice_ext.py")
    assert (kernel.name, list(kernel.entries)) == ("twice_ext", ["twice"])
    launch = "return Launch((blocks(x.size, 128),), (128,), (x, y, np.int32(x.size)))"
    assert f"# Grid and block: read from line 9.\n    {launch}" in Path("twice_ext.py").read_text()
    again = lab("new", "model.py")
    assert again.exit_code == 2 and "twice_ext.cu exists, and is not replaced" in again.output


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            "import x\nRawModule(code=open('k.cu').read())",
            "p.py:2: the value of \"open('k.cu').read()\" is not written in",
        ),
        (
            "K = f'{N} __global__ void f(float* y) {{}}'\nRawKernel(K, 'f')",
            "p.py:1: the value of 'N' is not written in the",
        ),
        ("K = K\nRawKernel(K, 'f')", "p.py:1: K depends on itself"),
        ("n = 1", "p.py has no string with a __global__ function"),
        ("def", "p.py:1: it is not valid Python"),
        ("SourceModule('__global__ void f(const float* x) {}')", "f.cu: no __global__ function writes to an array"),
    ],
)
def test_a_python_file_whose_code_cannot_be_read_is_refused_and_nothing_written(lab, code, said):
    Path("p.py").write_text(code)
    run = lab("new", "p.py")
    assert run.exit_code == 2 and said in run.output, run.output
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
