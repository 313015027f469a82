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

KINDS = sorted(file.stem for file in DATA.glob("*.cu"))


def expected(kind):
    """(how many answers are left, what the spec says, the code that fills it in), from the file beside the `.cu`."""
    answers, said, filled = 0, [], {}
    for line in (DATA / f"{kind}.expected").read_text().splitlines():
        word, _, rest = line.partition(" ")
        if word == "answers":
            answers = int(rest)
        elif word == "says":
            said.append(rest)
        else:
            function, _, code = rest.partition(": ")
            filled[function] = code
    return answers, said, filled


FILLED = [kind for kind in KINDS if expected(kind)[2]]


@pytest.mark.parametrize("kind", KINDS)
def test_a_first_spec_has_few_places_to_fill_in_and_right_guesses(kind):
    answers, said, _ = expected(kind)
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
@pytest.mark.parametrize("kind", FILLED)
def test_a_spec_that_is_filled_in_is_right(kind, tmp_path):
    shutil.copy(DATA / f"{kind}.cu", tmp_path)
    text = scaffold.of_file(tmp_path / f"{kind}.cu")
    for function, code in expected(kind)[2].items():
        place = rf"(def {function}\((?:.|\n)*?    )return todo\(.*"
        text = re.sub(place, lambda found, code=code: found[1] + code, text, count=1)
    text = re.sub(r'Budget\(4, why="TODO[^"]*"', 'Budget(4, atol=2e-4, why="sums"', text)
    assert "todo(" not in text, text
    spec = tmp_path / f"{kind}.py"
    spec.write_text(text)
    run = CliRunner().invoke(main, ["check", str(spec), "--device", "cpu", "--only", "host", "-q"])
    assert run.exit_code == 0 and "right" in run.output, run.output
    assert len(find.kernel(str(spec)).entries) == run.output.count(" right ") / len(find.kernel(str(spec)).dtypes)


def test_a_byte_order_mark_line_ends_comments_and_namespaces_are_no_harm(tmp_path):
    comment = "/* __global__ void not_this(float* z) { z[0] = blockIdx.x; } */\r\n"
    code = (DATA / "body_float4.cu").read_text().replace("\n", "\r\n")
    (tmp_path / "f.cu").write_bytes(b"\xef\xbb\xbf" + f"{comment}namespace a {{\r\n{code}}}".encode())
    text = scaffold.of_file(tmp_path / "f.cu")
    assert '"a::f": ' in text and "not_this" not in text and "np.int32(x.size // 4)" in text


@pytest.mark.parametrize("name", ["lambda", "np", "blocks"])
def test_a_file_with_the_name_of_something_else_has_a_spec_that_loads(tmp_path, name):
    file = tmp_path / f"{name}.cu"
    shutil.copy(DATA / "argmax.cu", file)
    file.with_suffix(".py").write_text(scaffold.of_file(file))
    assert find.kernel(str(file.with_suffix(".py"))).name == name


@pytest.mark.parametrize(
    ("parameters", "body", "said"),
    [
        ("Shape shape", "if (i < shape.n) y[i] = x[i];", "if Shape is a struct, let the kernel take its members"),
        (
            "int n",
            "extern __shared__ float s[]; float* b = s + blockDim.x; b[threadIdx.x] = x[i]; if (i < n) y[i] = s[i];",
            'shared=todo("the bytes of extern __shared__ float s[]")',
        ),
        (
            '"C" odd, int n',
            "extern __shared__ scalar_t s[]; y[0] = x[0];",
            "the bytes of extern __shared__ scalar_t s[]",
        ),
        ('"C" odd, int n', "y[0] = x[0];", "odd of type"),
    ],
    ids=["a structure", "two parts of shared memory", "shared memory of no array", "a type with quotes"],
)
def test_what_nothing_tells_is_asked(tmp_path, parameters, body, said):
    index = "int i = blockIdx.x * blockDim.x + threadIdx.x;" if "[i]" in body else ""
    (tmp_path / "f.cu").write_text(f"__global__ void f(const float* x, float* y, {parameters}) {{ {index} {body} }}")
    text = scaffold.of_file(tmp_path / "f.cu")
    assert said in " ".join(text.split()), text
    compile(text, "f", "exec")


def test_of_many_functions_the_first_are_entries_and_few_are_named(tmp_path):
    made = "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = x[i]; }"
    (tmp_path / "f.cu").write_text(
        "".join(f"__global__ void f{i}(const int* x, int* y, int n) {made}\n" for i in range(300))
    )
    text = scaffold.of_file(tmp_path / "f.cu")
    assert "f64, f65," in text and "and 216 more." in text and text.count("launch_f0") == 65, text
