"""The magics, on a shell that only keeps variables: no IPython is needed."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from report_runs import timed
from tables import table

import cudalab
from cudalab.base.errors import SpecError, Unavailable
from cudalab.cli.notebook import cell as cells
from cudalab.cli.notebook import magic

EXAMPLE = Path(__file__).parents[2] / "bench" / "examples" / "softmax.cu"
CODE, SPEC = EXAMPLE.read_text(), EXAMPLE.with_suffix(".py").read_text()
SILU = (Path(__file__).parents[1] / "data" / "made" / "silu.cu").read_text()


@pytest.fixture
def shell(monkeypatch):
    """Runs a magic; `shown` has what each output of a cell showed last."""
    found = SimpleNamespace(user_ns={}, shown=[], magics={})
    found.register_magic_function = lambda function, kind, name: found.magics.update({name: (function, kind)})

    def show(output, data):
        if output._handle is None:
            found.shown.append(data)
        output._handle = found.shown[-1]
        output._handle.update(data)

    monkeypatch.setattr(magic.Output, "_show", show)
    return found


WHOLE = f"{CODE}\n# spec\n{SPEC}"


@pytest.mark.parametrize("text", [WHOLE, f"/* spec\n{SPEC}*/\n{CODE}", WHOLE.replace("# spec", "// --- Spec ---")])
def test_each_line_of_the_files_has_its_number_in_the_cell(text):
    kernel = cells.written(text)
    whole = f"%%cudalab\n{text}".splitlines()
    assert kernel.spec.name == "softmax.py"
    for suffix, holds, lacks in ((".cu", "__global__", "import"), (".py", "import", "__global__")):
        lines = kernel.spec.with_suffix(suffix).read_text().splitlines()
        assert all(line in ("", whole[i]) for i, line in enumerate(lines))
        assert any(holds in line for line in lines)
        assert not any(lacks in line for line in lines)


def test_a_spec_is_deduced_with_a_reference_and_headers_are_those_of_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("half.cuh").write_text('#include "more/deep.cuh"\n')
    Path("more").mkdir()
    Path("more/deep.cuh").write_text("// nothing\n")
    kernel = cells.written(SILU, reference="x / (1 + np.exp(-x))", name="mine")
    assert (kernel.name, (kernel.folder / "more" / "deep.cuh").read_text()) == ("mine", "// nothing\n")
    assert "return x / (1 + np.exp(-x))\n" in kernel.spec.read_text()
    with pytest.raises(SpecError, match=r"--reference 'np.exp\(x\)', or paste this(.|\n)*# spec\n(.|\n)*todo\("):
        cells.written(SILU)


def test_results_are_shown_and_kept_and_a_failed_cell_leaves_none_of_an_earlier_one(shell, tmp_path):
    cudalab.load_ipython_extension(shell)
    function, kind = shell.magics["cudalab"]
    timed().save(tmp_path / "run.json")
    function(f"show {tmp_path / 'run.json'} --size small --out r")
    assert kind == "line_cell"
    assert isinstance(shell.user_ns["r"], cudalab.Results)
    assert shell.shown[-1]["text/plain"] == str(shell.user_ns["r"])
    assert shell.shown[-1].get("text/html") == shell.user_ns["r"]._repr_html_()
    shell.user_ns["r"] = "of an earlier cell"
    with pytest.raises(magic.CellError):
        magic.ran(shell, "check --out r --size nope", WHOLE)
    assert "r" not in shell.user_ns


CELLS = {"SILU": SILU, "WHOLE": WHOLE, "": None}


@pytest.mark.parametrize(("line", "cell", "error"), [
    *table("notebook", "errors"),
    ("check", f"{WHOLE}1 / 0\n", rf"^softmax.py: ZeroDivisionError.*line {len(WHOLE.splitlines()) + 2}\)"),
])  # fmt: skip
def test_what_is_wrong_is_said_without_a_traceback(shell, line, cell, error):
    with pytest.raises(magic.CellError, match=error) as raised:
        magic.ran(shell, line, CELLS.get(cell, cell))
    assert raised.value._render_traceback_() == [f"Error: {raised.value}"]
    assert not shell.user_ns


def test_commands_on_the_file_of_a_cell_are_magics():
    output = magic.Output("/tmp/a&b/softmax.py")
    assert output._as_magics("next: cudalab bench /tmp/a&b/softmax.py -o x") == "next: %%cudalab bench -o x"
    assert output._as_magics("<b>cudalab inspect /tmp/a&amp;b/softmax.py</b>") == "<b>%%cudalab inspect</b>"


def test_without_ipython():
    with pytest.raises(Unavailable, match="notebook"):
        cudalab.load_ipython_extension(None)


@pytest.mark.process
@pytest.mark.sweep
def test_the_rows_of_a_cell_name_its_lines(shell):
    broken = CODE.replace("expf(x[i] - top) / sum", "expg(x[i])")
    magic.ran(shell, "--only host --size small --out r", WHOLE.replace(CODE, broken))
    line = next(i for i, text in enumerate(broken.splitlines(), cells.FIRST) if "expg" in text)
    assert re.search(rf"softmax\.cu[:(]{line}\b", shell.shown[-1]["text/plain"])
    assert [case.status for case in shell.user_ns["r"].cases] == ["error"]
