"""Spec and `.cu` files with anything in them: a kernel that can be planned, or an error that names the file."""

from __future__ import annotations

import math
import re
from pathlib import Path

import msgspec
import pytest
from cpu_rows import cpu_rows
from fuzzing import ODD, at_most, damaged, more, said_clearly, texts
from hypothesis import example, given
from hypothesis import strategies as st
from mutations import anything, attempt

from cudalab.base.errors import CudalabError
from cudalab.engine import plan
from cudalab.engine.check_plan import checks
from cudalab.engine.selection import Selection
from cudalab.results.record import Case
from cudalab.spec import cuda_source, find
from cudalab.spec.kernel import Budget, Kernel

SPEC = """
import numpy as np
from cudalab.spec import Budget, Kernel, Launch, blocks

def reference(x):
    return x + 1

def launch(x, y):
    return Launch((blocks(x.size, 64),), (64,), (x, y, np.int64(x.size)))

def inputs(shape, dtype, rng):
    return {"x": rng.integers(0, 9, shape).astype(dtype)}

def output_shape(x):
    return x

more = Kernel(
    file=__file__,
    summary="y = x + 1",
    dtypes=("float32", "int32"),
    sizes={"small": (3, 5)},
    edges=((1,), (0,), (7, 2)),
    reference=reference,
    entries={"more": launch},
    budgets={"float32": Budget(0.5), "int32": Budget(0, 0.0, "exact")},
    composed={"float32": Budget(1)},
    inputs=inputs,
    output="y",
    shapes={"y": output_shape},
    pointwise=True,
    torch=reference,
    torch_native=None,
    cupy=None,
    elementwise="x + 1",
    triton="x + 1",
)
"""
CU = """// one more
template <typename T> __device__ T plus(T x) { return x + T(1); }
extern "C" __global__ void __launch_bounds__(64) more(const scalar_t* __restrict__ x, scalar_t* y, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;  /* "quoted" */
    if (i < n) y[i] = plus(x[i]);
}
"""
FIELDS = re.findall(r"^    (\w+)=", SPEC, re.MULTILINE)
VALUES = (Path(__file__).parents[1] / "data" / "specs" / "odd_values.txt").read_text().splitlines()
ENDINGS = [
    "raise ValueError('no')", "raise SystemExit", "import sys; sys.exit(3)", "exit()",
    "raise BaseException", "raise GeneratorExit", "def f(): f()\nf()", "import nothing_of_this_name", "1 / 0",
    "more = 5", "again = more", "del more", "raise ValueError('\\ud800')", "raise ValueError('\\x1b[31m')",
    "assert False", "raise type('E', (Exception,), {'__str__': lambda self: 1 / 0})()",
    "class M(type(more)): pass", "(", "\0", "#" * 100_000, "x = " + "(" * 300, "import this_is_not\nmore",
    "raise ExceptionGroup('g', [ValueError('a')])",
    "from cudalab.base.errors import InputError; raise InputError('mine')",
    "more.file", "print(end='')", "raise StopIteration", "raise MemoryError",
]  # fmt: skip


def with_field(name, value):
    """The text of the spec with another value of a field."""
    return re.sub(rf"(?m)^    {name}=.*", lambda _: f"    {name}={value},", SPEC)


spec_texts = st.one_of(
    damaged(SPEC, re.findall(r"\w+|\s+|[^\w\s]", SPEC)),
    st.builds(with_field, st.sampled_from(FIELDS), st.sampled_from(VALUES)),
    st.sampled_from([SPEC + end for end in ENDINGS]),
    texts,
)  # fmt: skip


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """The path of a spec whose name is `more`, with a good `.cu` beside it."""
    folder = tmp_path_factory.mktemp("spec")
    (folder / "more.cu").write_text(CU)
    return folder / "more.py"


def written(path: Path, text: str | bytes) -> None:
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))


def looked_at(path: Path) -> None:
    """Do all steps with a spec before its kernel runs on a device; then make NumPy's rows of small sizes."""
    kernel = find.kernel(str(path))
    groups = [*plan.groups([str(path)], "small", "all"), *checks([str(path)], "all")]
    chosen = Selection(only=("numpy", "host"))
    chosen.check(groups)
    kernel.accepts((2, 3))
    for group in [g for g in groups if math.prod(g.shape) < 1000][:3]:
        rows = cpu_rows(group, "numpy")
        assert [row.backend for row in rows] == ["numpy"]
        assert msgspec.json.decode(msgspec.json.encode(rows), type=list[Case]) == rows


def test_the_spec_that_is_damaged_here_is_good(pair):
    written(pair, SPEC)
    looked_at(pair)
    assert find.kernel(str(pair)).name == "more"


@more(2)
@given(text=spec_texts)
@example(text=SPEC + "raise SystemExit")
@example(text=SPEC + "raise BaseException")
@example(text=SPEC + "raise ValueError('\\ud800')")
@example(text=SPEC + "raise type('E', (Exception,), {'__str__': lambda self: 1 / 0})()")
@example(text=with_field("sizes", "{'small': 5}"))
@example(text=with_field("sizes", "{'small': (1.5,)}"))
@example(text=with_field("sizes", "{'small': [3]}"))
@example(text=with_field("entries", "{5: launch}"))
@example(text=with_field("edges", "5"))
@example(text=with_field("torch", "NotImplemented"))
def test_specs(pair, text):
    written(pair, text)
    with at_most(10):
        try:
            looked_at(pair)
        except CudalabError as error:
            said = said_clearly(error, text)
            assert "more" in said, said
            said.encode()


def test_specs_whose_fields_have_any_value(pair):
    made = {"__file__": str(pair), "__name__": "more"}
    exec(SPEC, made)
    kernel = made["more"]
    fields = {name: getattr(kernel, name) for name in kernel.__dataclass_fields__}

    def odd(rng):
        return anything(rng) if rng.random() < 0.5 else eval(rng.choice(VALUES), made)

    def one(rng, i):
        changes = dict.fromkeys([list(fields)[i % len(fields)], *rng.sample(list(fields), rng.choice([0, 0, 1, 3]))])
        given = fields | {name: odd(rng) for name in changes}
        if rng.random() < 0.1:
            del given[rng.choice(list(given))]
        try:
            Kernel(**given).accepts((2, 3))
        except CudalabError as error:
            said_clearly(error, given)
        except TypeError as error:  # Python's own, for a field that is missing
            assert "missing" in str(error), error
        try:
            Budget(odd(rng), odd(rng), odd(rng))
        except CudalabError as error:
            said_clearly(error)

    attempt("specs", 3_100, one)


@more(1)
@given(st.binary(max_size=60))
@example(b"\xff\xfe")
@example(b"# -*- coding: nothing -*-\n")
@example(b"\0")
@example(b"")
def test_specs_that_are_no_text(pair, data):
    written(pair, data)
    with pytest.raises(CudalabError, match="more"):
        find.kernel(str(pair))


def test_a_spec_that_has_just_changed_is_read_anew(pair):
    """Same length, same second: Python's cache of compiled files would not notice the change."""
    for value in ("1", "2", "3"):
        written(pair, SPEC.replace("x + 1", f"x + {value}"))
        assert find.kernel(str(pair)).elementwise == f"x + {value}"


NASTY = [
    "__global__ " * 8_000, "__global__ void a( " * 8_000, "/*" * 10_000, "/* " * 10_000,
    "__launch_bounds__(" * 8_000, "__global__ void " + "__a__ " * 8_000, "__global__ void " + "_" * 20_000,
    "__global__ void" + " " * 20_000, "void " * 20_000, "__launch_bounds__" + " " * 20_000, '"' * 20_000, "'" * 20_000,
    '"\\' * 20_000, "\\" * 20_000, "__global__ void more(" + "(" * 20_000, "__global__ void more(" + "a," * 20_000,
    "template " * 8_000, "__global__ " + "void more " * 8_000, "__launch_bounds__((" * 8_000,
    "__launch_bounds__(()" * 8_000, "__global__ void more(int a) {} " * 5_000,
    "template <int> __global__ void more(int a) {} " * 5_000, "//" * 20_000,
    "__global__ void __launch_bounds__(" + "a" * 20_000,
]  # fmt: skip
cu_texts = st.one_of(damaged(CU, re.findall(r"\w+|\s+|[^\w\s]", CU)), texts, st.sampled_from(ODD),
                     st.text("_global_ vid()*/\"'\\{};<>,[]\n", max_size=60))  # fmt: skip


def read_all(text: str) -> None:
    """Read all that the lab reads from a `.cu`."""
    blank = cuda_source.blank_comments(text)
    assert len(blank) == len(text)
    assert blank.count("\n") == text.count("\n")
    named = cuda_source.with_c_names(text, "more.cu")
    names = cuda_source.entries(text)
    assert cuda_source.entries(named) == names
    assert cuda_source.with_c_names(named.partition("\n")[2], "more.cu") == named  # declared once
    for name in names[:3]:
        for parameter in cuda_source.parameters(text, name):
            assert isinstance(parameter.pointer and parameter.constant, bool)
            assert isinstance(parameter.ctype, str)
    with pytest.raises(CudalabError, match="no_such_entry"):
        cuda_source.parameters(text, "no_such_entry")


@more(20)
@given(cu_texts)
@example('const char* s = "/*"; __global__ void a(int x) {}')
@example("char q = '\"'; __global__ void a(int x) {} // \"")
@example("__global__ void a(int x) {} /* not closed")
@example("__global__ void __global__ void a(")
@example('__global__ void a(const char* s = ")", int n)')
def test_cu_files(text):
    with at_most(3):
        read_all(text)


@pytest.mark.parametrize("text", NASTY, ids=lambda text: f"{text[:24]!r}")
def test_long_cu_files_take_no_longer_than_their_length(text):
    with at_most(3):
        read_all(text)


@more(1)
@given(cu_texts)
def test_a_damaged_cu_beside_a_good_spec(pair, text):
    written(pair, SPEC)
    cu = pair.with_suffix(".cu")
    written(cu, text)
    try:
        find.kernel(str(pair))
    except CudalabError as error:
        assert "more" in said_clearly(error, text)
    finally:
        written(cu, CU)


def test_quotes_hide_no_entry_and_comments_do():
    assert cuda_source.entries('const char* s = "/*"; __global__ void a(int x) {}') == ("a",)
    assert cuda_source.entries('const char* s = "http://"; __global__ void a(int x) {}') == ("a",)
    assert cuda_source.entries("char q = '\"'; __global__ void a() {} char r = '\"';") == ("a",)
    assert cuda_source.entries("int n = 1'000'000; // it's __global__ void a() {}") == ()
    assert cuda_source.entries('// "\n__global__ void a() {} // "') == ("a",)
    assert cuda_source.entries('const char* s = "__global__ void a(";') == ()
    assert cuda_source.with_c_names('extern "C" __global__ void a() {}', "x").count('extern "C"') == 1
