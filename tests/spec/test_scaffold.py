"""The first specs of kernels of many kinds: at most four answers are left, and what is guessed is right."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from cudalab.cli import main
from cudalab.spec import find, scaffold
from cudalab.spec.unfilled import MARK

DATA = Path(__file__).parents[1] / "data/new"
MOST = 4

# By file: the answers that are left, what the spec says, and the code that fills it in.
KINDS: dict[str, tuple[int, list[str], dict[str, str]]] = {
    "rmsnorm": (
        2,
        [
            'shapes={"x": "rows cols", "weight": "cols", "y": "rows cols"}',
            '"eps": Scalar(1e-05)',
            'dtypes=("float32", "float16", "bfloat16")',
            "Launch((x.shape[0],), (256,), (x, weight, y, np.int32(x.shape[1]), eps))",
        ],
        {"reference": "return x / np.sqrt((x**2).mean(axis=1, keepdims=True) + eps) * weight"},
    ),
    "rmsnorm_warp": (
        2,
        [
            '"gamma": "hidden_size"',
            'dtypes=("float32", "float16")',
            "(blocks(input.shape[0], 8),), (256,)",
            "epsilon, np.int32(input.shape[0]), np.int32(input.shape[1])",
        ],
        {},
    ),
    "argmax": (
        1,
        [
            'shapes={"x": "rows cols", "out": "rows"}',
            '{"out": Out(dtype="int32")}',
            "(blocks(x.shape[0], 256),), (256,)",
        ],
        {"reference": "return x.argmax(axis=1)"},
    ),
    "argmax_pair": (
        2,
        [
            'shapes={"x": "rows N", "values": "rows", "indices": "rows"}',
            '"values": Out(), "indices": Out(dtype="int64")',
        ],
        {},
    ),
    "template_scale": (
        2,
        [
            'dtypes=("float32", "float16")',
            '"scale_kernel<scalar_t, 128>": launch_scale_kernel',
            '"scale_kernel<scalar_t, 512>": launch_scale_kernel_scalar_t_512',
            "(blocks(x.size, 512),), (512,)",
        ],
        {"reference": "return x * alpha"},
    ),
    "template_beside_plain": (
        2,
        [
            'entries={"add": launch_add, "ops::add_vec<4, float>": launch_ops_add_vec}',
            "(blocks(a.size, 1024),), (256,)",
            "# Not in this spec, since their arrays or dtypes are others: ops::add_vec<2, double>.",
        ],
        {},
    ),
    "two_launches_sum": (
        2,
        [
            'shapes={"x": "n", "total": "1", "partial": "(n+255)//256"}',
            'workspace={"partial": Work()}',
            'output="total"',
            '(1,), (256,), (partial, total, np.int32(partial.size)), entry="reduce_final")',
        ],
        {"reference": "return x.sum(keepdims=True)"},
    ),
    "two_launches_columns": (
        2,
        [
            'shapes={"in_": "rows cols", "out": "cols", "workspace": "(rows+31)//32 cols"}',
            "np.int32(32)",
            'workspace={"workspace": Work()}',
            "(blocks(in_.shape[1], 256), blocks(in_.shape[0], 32)), (256,)",
        ],
        {},
    ),
    "wmma": (
        2,
        [
            'shapes={"A": "M K", "B": "K N", "C": "M N"}',
            "(blocks(B.shape[1], 16), blocks(A.shape[0], 16)), (32,)",
            "aligned=32",
            '{"A": In("float16"), "B": In("float16")}',
            "edges=((16, 16, 16), (32, 48, 80), (48, 16, 112))",
        ],
        {"reference": "return A @ B"},
    ),
    "wmma_blog": (
        2,
        [
            'shapes={"a": "M K", "b": "N K", "c": "M N", "d": "M N"}',
            'output="d"',
            "def reference(a, b, c, alpha, beta)",
            "(blocks(a.shape[0], 16), blocks(b.shape[0], 64)), (32, 4)",
        ],
        {},
    ),
    "dropout": (
        1,
        [
            'outputs={"y": Out(check=check_y)}',
            '"p": Scalar(0.25)',
            '"seed": Scalar(7, "uint64")',
            "def check_y(y, x, p):",
        ],
        {},
    ),
    "dropout_mask": (
        3,
        [
            'outputs={"mask": Out(check=check_mask, dtype="bool"), "out": Out(reference_out)}',
            "def reference_out(in_, mask, prob):",
            '"offset": Scalar(3, "uint64")',
        ],
        {
            "reference_out": "return np.where(mask, in_ / (1 - prob), 0)",
            "check_mask": "return mask.size < 1000 or bool(abs(mask.mean() + prob - 1) < 0.05)",
        },
    ),
    "constant_stencil": (2, ['"coef": COEF', "COEF = np.random.default_rng(1).normal(size=(9,))"], {}),
    "constant_filter": (
        3,
        [
            '"img::filt": FILT',
            "(size=(3, 3))",
            'todo("the values of __constant__ int bias',
            "(16, 16)",
            '"height width"',
        ],
        {},
    ),
    "shared_sum": (2, ["shared=256 * 4)", 'shapes={"in_": "rows cols", "out": "rows"}'], {}),
    "shared_reverse": (
        2,
        ["shared=src.shape[1] * 8)", '"dst": "rows ncols"'],
        {"reference": "return src[:, ::-1]"},
    ),
    "macro_operations": (
        3,
        ["# TODO: do these compute the same?", '{"negate": launch_negate, "square": launch_negate}'],
        {},
    ),
    "macro_dtypes": (
        2,
        ['dtypes=("float32", "float64")', 'entry={"float32": "add_float", "float64": "add_double"}[a.dtype.name]'],
        {"reference": "return a + b"},
    ),
}


def test_every_kind_is_in_the_table():
    assert {file.stem for file in DATA.glob("*.cu")} == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_first_spec_has_few_places_to_fill_in_and_right_guesses(kind):
    answers, said, _ = KINDS[kind]
    text = scaffold.of_file(DATA / f"{kind}.cu")
    assert text.count(MARK) == answers <= MOST, text
    shown = " ".join(text.split())
    for fragment in said:
        assert " ".join(fragment.split()) in shown, text
    asked = [line for line in text.splitlines() if "todo(" in line]
    assert all(MARK in line for line in asked), text  # so that no answer is without a mark
    assert max(map(len, text.splitlines())) <= 120
    compile(text, kind, "exec")


@pytest.mark.sweep
@pytest.mark.parametrize("kind", [kind for kind, (_, _, filled) in KINDS.items() if filled])
def test_a_spec_that_is_filled_in_is_right(kind, tmp_path):
    shutil.copy(DATA / f"{kind}.cu", tmp_path)
    text = scaffold.of_file(tmp_path / f"{kind}.cu")
    for function, code in KINDS[kind][2].items():
        text = re.sub(
            rf"(def {function}\((?:.|\n)*?    )return todo\(.*", lambda found, code=code: found[1] + code, text, count=1
        )
    text = re.sub(r'Budget\(4, why="TODO[^"]*"', 'Budget(4, atol=2e-4, why="sums"', text)
    assert "todo(" not in text, text
    spec = tmp_path / f"{kind}.py"
    spec.write_text(text)
    run = CliRunner().invoke(main, ["check", str(spec), "--device", "cpu", "--only", "host", "-q"])
    assert run.exit_code == 0 and "right" in run.output, run.output
    assert len(find.kernel(str(spec)).entries) == run.output.count(" right ") / len(find.kernel(str(spec)).dtypes)


MEAN = {  # parameters, body, what the spec says
    "a guard on a value": (
        "const float* x, float* y, int n",
        "if (GLOBAL >= n) return; y[GLOBAL] = x[GLOBAL];",
        "blocks(x.size, 256)",
    ),
    "rows of a strided grid": (
        "const float* x, float* y, int rows, int cols",
        "for (int r = blockIdx.x; r < rows; r += gridDim.x) for (int c = threadIdx.x; c < cols; c += blockDim.x) "
        "y[r * cols + c] = x[r * cols + c];",
        "Launch((x.shape[0],), (256,)",
    ),
    "two directions": (
        "const float* x, float* y, int h, int w",
        "int r = blockIdx.y * blockDim.y + threadIdx.y, c = blockIdx.x * blockDim.x + threadIdx.x; "
        "if (r < h && c < w) y[c * h + r] = x[r * w + c];",
        '{"x": "h w", "y": "w h"}',
    ),
    "a channel": (
        "float* y, const float* x, const float* b, int N, int C, int S",
        "int i = GLOBAL; if (i < N * C * S) y[i] = x[i] + b[(i / S) % C];",
        '{"x": "N C S", "b": "C", "y": "N C S"}',
    ),
    "rows of a table": (
        "const float* table, const int* ids, float* y, int dim",
        "for (int d = threadIdx.x; d < dim; d += blockDim.x) "
        "y[blockIdx.x * dim + d] = table[ids[blockIdx.x] * dim + d];",
        'inputs={"ids": In("int32", 0, "ids_range")}',
    ),
    "a label of a row": (
        "const float* x, const long* label, float* y, int cols",
        "if (threadIdx.x == 0) y[blockIdx.x] = x[blockIdx.x * cols + label[blockIdx.x]];",
        'inputs={"label": In("int64", 0, "cols")}',
    ),
    "float4": (
        "const float4* x, float4* y, int n4",
        "int i = GLOBAL; if (i < n4) y[i] = x[i];",
        "np.int32(x.size // 4)",
    ),
    "a flag": (
        "const float* x, float* y, int n, bool up",
        "if (GLOBAL < n) y[GLOBAL] = up ? x[GLOBAL] : 0;",
        'Scalar(True, "bool")',
    ),
    "a length of the output alone": (
        "const float* x, float* top, int cols, int k",
        "float m = 0; for (int c = 0; c < cols; c++) m += x[blockIdx.x * cols + c]; "
        "for (int j = threadIdx.x; j < k; j += blockDim.x) top[blockIdx.x * k + j] = m;",
        'shapes={"x": "rows cols", "top": "rows k"},',
    ),
    "a number that nothing tells": (
        "const float* x, float* y, int n, int k",
        "if (GLOBAL < n) y[GLOBAL] = x[GLOBAL] * k;",
        'todo("the value of k")',
    ),
    "a name twice": (
        "const float* x, float* y, int n",
        "int i = GLOBAL; if (i < n) y[i] = x[i]; i = 0; if (i < 5) i = 7;",
        "blocks(x.size, 256)",
    ),
    "a ticket": (
        "const float* x, float* y, unsigned* ticket, int n",
        "__shared__ bool last; if (threadIdx.x == 0) last = atomicInc(ticket, gridDim.x) == gridDim.x - 1; "
        "if (GLOBAL < n) y[GLOBAL] = x[GLOBAL];",
        'workspace={"ticket": Work("uint32", fill=0)}',
    ),
    "a maximum of all": (
        "const int* x, int* y, int n",
        "if (GLOBAL < n) atomicMax(y, x[GLOBAL]);",
        "# TODO: y holds 0 before a launch",
    ),
    "threads of one block": (
        "const float* x, float* y, int n",
        "if (threadIdx.x < n) y[threadIdx.x] = x[threadIdx.x];",
        "# TODO: a block of 256 threads: does it cover n?",
    ),
    "two parts of shared memory": (
        "const float* x, float* y, int n",
        "extern __shared__ float s[]; float *a = s, *b = s + blockDim.x; a[threadIdx.x] = b[threadIdx.x] = x[GLOBAL]; "
        "if (GLOBAL < n) y[GLOBAL] = a[threadIdx.x];",
        'shared=todo("the bytes',
    ),
    "a grid that waits": (
        "const float* x, float* y, int n",
        "auto g = cooperative_groups::this_grid(); "
        "for (int i = g.thread_rank(); i < n; i += g.size()) y[i] = x[i]; g.sync();",
        "min(blocks(x.size, 256), 64),), (256,), (x, y, np.int32(x.size)), cooperative=True)",
    ),
    "a structure": (
        "const float* x, float* y, Shape shape",
        "if (GLOBAL < shape.n) y[GLOBAL] = x[GLOBAL];",
        "if Shape is a struct, let the kernel take its members",
    ),
}


@pytest.mark.parametrize("name", MEAN)
def test_the_body_tells_shapes_and_launches(tmp_path, name):
    parameters, body, said = MEAN[name]
    code = body.replace("GLOBAL", "(blockIdx.x * blockDim.x + threadIdx.x)")
    file = tmp_path / "f.cu"
    comment = "/* __global__ void not_this(float* z) { z[0] = blockIdx.x; } */\r\n"
    file.write_bytes(
        b"\xef\xbb\xbf"
        + f"{comment}namespace a {{\r\n__global__ void f({parameters}) {{ {body and code} }}\r\n}}".encode()
    )
    text = scaffold.of_file(file)
    assert " ".join(said.split()) in " ".join(text.split()), text
    assert '"a::f": ' in text and "not_this" not in text
    assert text.count(MARK) <= MOST
    compile(text, name, "exec")


@pytest.mark.parametrize("name", ["lambda", "np", "blocks"])
def test_a_file_with_the_name_of_something_else_has_a_spec_that_loads(tmp_path, name):
    file = tmp_path / f"{name}.cu"
    shutil.copy(DATA / "argmax.cu", file)
    file.with_suffix(".py").write_text(scaffold.of_file(file))
    assert find.kernel(str(file.with_suffix(".py"))).name == name


def test_of_many_functions_the_first_are_entries_and_few_are_named(tmp_path):
    made = "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = x[i]; }"
    (tmp_path / "f.cu").write_text(
        "".join(f"__global__ void f{i}(const int* x, int* y, int n) {made}\n" for i in range(300))
    )
    text = scaffold.of_file(tmp_path / "f.cu")
    assert "f64, f65," in text and "and 216 more." in text and text.count("launch_f0") == 65, text


INDEX = "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n)"
STEPS = {  # functions, what the spec says
    "a result between steps": (
        f"__global__ void means(const float* x, float* mean, int n) {{ {INDEX} mean[i] = x[i]; }}\n"
        f"__global__ void minus(const float* mean, float* y, int n) {{ {INDEX} y[i] = 1 - mean[i]; }}",
        ["# TODO: is mean a result as well?", 'workspace={"mean": Work()}', "def reference(x):"],
    ),
    "no inputs": (
        f"__global__ void fill(float* buffer, int n) {{ {INDEX} buffer[i] = i; }}\n"
        f"__global__ void twice(const float* buffer, float* y, int n) {{ {INDEX} y[i] = 2 * buffer[i]; }}",
        ["def reference(y):", 'workspace={"buffer": Work()}'],
    ),
    "an update of what an earlier step wrote": (
        f"__global__ void first(const float* x, float* y, float* tmp, int n) {{ {INDEX} tmp[i] = y[i] = x[i]; }}\n"
        f"__global__ void then(const float* tmp, float* y, int n) {{ {INDEX} y[i] += tmp[i]; }}",
        ["def reference(x):", 'entry="first"', 'entry="then"'],
    ),
    "a type with quotes and shared memory of no array": (
        '__global__ void f(const float* x, float* y, "C" odd, int n) { extern __shared__ scalar_t s[]; y[0] = x[0]; }',
        ["odd of type", 'shared=todo("the bytes of extern __shared__ scalar_t s[]")'],
    ),
}


@pytest.mark.parametrize("name", STEPS)
def test_steps_share_their_arrays(tmp_path, name):
    code, said = STEPS[name]
    (tmp_path / "f.cu").write_text(code)
    text = scaffold.of_file(tmp_path / "f.cu")
    compile(text, name, "exec")
    for fragment in said:
        assert fragment in " ".join(text.split()), text


TAKEN = "(x, y, np.int32(x.shape[0]), np.int32(x.shape[1]), a)"
LAUNCHES = {  # host code of a kernel of rows; the launch of the spec
    "sizes of tensors, a variable of a dim3": (
        "const int threads = 64;\n dim3 block(threads, 4);\n"
        " dim3 grid{(unsigned)CEIL(cols, threads), (x.size(0) + block.y - 1) / block.y};\n"
        " AT_DISPATCH_ALL(x.scalar_type(), ([&] { scale<float, 4><<<grid, block, 0, stream>>>(x.data_ptr<float>(),\n"
        " (float*)y.data_ptr(), x.size(0), cols, 0.5f); }));",
        f"Launch((blocks(x.shape[1], 64), blocks(x.shape[0], 4)), (64, 4), {TAKEN})",
    ),
    "a function, and a cast in ceil": (
        "size_t bytes = 32 * sizeof(float);\n"
        " scale<float, 4><<<dim3(up(cols), ceil((float)rows / 8)), dim3(32, 8), bytes>>>(x, y, rows, cols, 0.5f);",
        f"Launch((blocks(x.shape[1], 32), blocks(x.shape[0], 8)), (32, 8), {TAKEN}, shared=128)",
    ),
    "a variable that is set twice": (
        "int threads = 64; if (cols > 64) threads = 128;\n"
        " scale<float, 4><<<up(cols), threads>>>(x, y, rows, cols, 0.5f);",
        "# TODO: line 14 launches it <<<up(cols), threads>>>",
    ),
    "one size alone": (
        "scale<float, 4><<<4, dim3(64, 4)>>>(x, y, 16, 64, 0.5f);",
        "Launch((blocks(x.shape[1], 16), blocks(x.shape[0], 16)), (16, 16)",
    ),
}
SCALE = """\
#define CEIL(a, b) (((a) + (b) - 1) / (b))
template <typename T, int N> __global__ void scale(const T* x, T* y, int rows, int cols, float a) {
    int r = blockIdx.y * blockDim.y + threadIdx.y;
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (r < rows && c < cols) y[r * cols + c] = a * x[r * cols + c];
}
int up(int n) { return (n + 31) / 32; }

void run(at::Tensor x, at::Tensor y, int rows, int cols) {
#ifndef CUDALAB


%s
#endif
}
"""


@pytest.mark.parametrize("name", LAUNCHES)
def test_a_launch_in_host_code_says_grid_block_and_numbers_where_it_is_simple(tmp_path, name):
    host, launch = LAUNCHES[name]
    cu = tmp_path / "scale.cu"
    cu.write_text(SCALE % host)
    text = " ".join(scaffold.of_file(cu).split())
    assert launch in text, text
    assert ('entries={"scale<float, 4>"' in text, '"a": Scalar(0.5)' in text) == (True, True), text
