"""Two inspections are compared figure by figure; the exit code is 1 where one became worse."""

from __future__ import annotations

import gzip
import json
from functools import partial
from pathlib import Path

import kept_sass
import msgspec
import pytest
from commands import invoke
from tables import table

from cudalab.base.errors import CompileError, InputError
from cudalab.report import inspection_gate
from cudalab.tools import inspect as inspection
from cudalab.tools.inspect import compilers, gate, kept

SASS = Path(__file__).parents[2] / "data" / "sass"
LOOPS = str(SASS / "loops.py")
changed = msgspec.structs.replace


@pytest.fixture(scope="module")
def rows():
    found = inspection.inspect(LOOPS, card="T4", compiled=kept_sass.reader(SASS))
    return kept.inspection_of(found, "13.0").rows


@pytest.fixture
def command(monkeypatch):
    """The command line, with kept machine code in the compiler's place."""
    monkeypatch.setattr(inspection, "inspect", partial(inspection.inspect, compiled=kept_sass.reader(SASS)))
    monkeypatch.setattr(compilers, "release", lambda: "13.0")
    return lambda *words: invoke(*list(words), COLUMNS="120", NO_COLOR="1")


def of(*rows, nvcc="13.0"):
    return kept.Inspection(kept.FORMAT, kept.VERSION, nvcc, rows)


def test_what_is_kept_is_what_was_found_and_compares_as_the_same(rows, tmp_path):
    histogram = next(row for row in rows if row.entry == "histogram")
    assert (histogram.kernel, histogram.architecture, histogram.card) == ("loops", "sm_75", "T4")
    assert histogram.shared == 256 * 4 and histogram.spills == 0
    assert 0 < histogram.predicted < 1e-3 and histogram.registers > 0 and histogram.instructions > 1
    kept.save(of(*rows), tmp_path / "a.json")
    assert kept.load(tmp_path / "a.json") == of(*rows)
    found = gate.compare(of(*rows), of(*rows), 0.0)
    assert found.exit_code == 0
    assert found.counts == {"WORSE": 0, "BETTER": 0, "SAME": 5 * len(rows)}


@pytest.mark.parametrize(("figure", "change", "code"), table("inspect", "figures", str, str, int))
def test_a_figure_that_grows_by_more_than_the_tolerance_is_worse(rows, figure, change, code):
    row = rows[0]
    new = eval(change, {"n": getattr(row, figure)})
    found = gate.compare(of(*rows), of(changed(row, **{figure: new}), *rows[1:]), 0.02)
    assert found.exit_code == code
    assert found.counts["WORSE"] == code


def test_what_cannot_be_compared(rows):
    row = rows[0]
    other = gate.compare(of(row, nvcc="12.8"), of(row), 0.02)
    assert (other.exit_code, other.differences) == (4, ["nvcc 12.8 -> 13.0"])
    assert gate.compare(of(row, nvcc="12.8"), of(row), 0.02, force=True).exit_code == 0
    assert gate.compare(of(row), of(changed(row, card="A10")), 0.02).differences == ["card T4 -> A10"]
    nothing = gate.compare(of(row), of(rows[1]), 0.02)
    assert nothing.exit_code == 4 and nothing.gone and nothing.added
    assert "No entry is in both files" in inspection_gate.sentence(nothing)


def test_every_format_says_what_became_worse(rows):
    row = rows[0]
    found = gate.compare(of(row), of(changed(row, registers=row.registers + 9, spills=8)), 0.02)
    table = inspection_gate.render(found, ("a.json", "b.json"), "table", 100)
    assert "a.json -> b.json" in table and "2 of 5 figures are WORSE: 3 SAME; 1 entry, tolerance 2 %" in table
    assert [line.split()[1:3] for line in table.splitlines() if "WORSE" in line][:1] == [["spills", "0"]]
    assert "from 0" in table
    assert "| spills | 0 B | 8 B | from 0 | WORSE |" in inspection_gate.render(found, ("a", "b"), "markdown")
    document = json.loads(inspection_gate.render(found, ("a", "b"), "json"))
    assert (document["exit_code"], document["counts"]["WORSE"]) == (1, 2)


def test_the_commands(rows, command, tmp_path):
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    done = command("inspect", LOOPS, "--card", "T4", "-o", str(old))
    assert done.exit_code == 0, done.output
    same = command("inspect", LOOPS, "--card", "T4", "--baseline", str(old), "-o", str(new))
    assert same.exit_code == 0 and "None of 15 figures is worse" in same.output
    kept.save(of(changed(rows[0], registers=99), *rows[1:]), new)
    worse = command("compare", str(old), str(new))
    assert worse.exit_code == 1 and "1 of 15 figures is WORSE" in worse.output
    assert command("compare", str(old), str(new), "--min-effect", "0.99").exit_code == 1
    (packed := tmp_path / "new.json.gz").write_bytes(gzip.compress(new.read_bytes()))
    assert command("compare", str(packed), str(old)).exit_code == 0
    assert command("inspect", LOOPS, "--card", "T4", "--baseline", str(old), "-o", str(old)).exit_code == 2
    (tmp_path / "run.json").write_text("{}")
    mixed = command("compare", str(old), str(tmp_path / "run.json"))
    assert mixed.exit_code == 2 and "give two files of one kind" in mixed.output
    for words in (("show", str(old)), ("report", str(old), "-o", str(tmp_path / "page.html"))):
        shown = command(*words)
        said = " ".join(shown.output.split())  # a long path may break the line anywhere
        assert shown.exit_code == 2 and "was written by `cudalab inspect -o` and holds no times" in said


def test_a_kernel_that_is_bad_does_not_hide_the_others_of_a_folder(command, tmp_path, monkeypatch):
    for name in ("loops", "broken", "ways"):
        source = "loops" if name == "broken" else name
        for suffix in (".py", ".cu"):
            text = (SASS / f"{source}{suffix}").read_text()
            (tmp_path / f"{name}{suffix}").write_text(text + "\n1 / 0\n" * (name + suffix == "broken.py"))
    whole = inspection.inspect

    def inspect(kernel, **options):
        if Path(kernel).stem == "ways":
            raise CompileError("ways.cu does not compile:\nways.cu(3): error")
        return whole(kernel, **options)

    monkeypatch.setattr(inspection, "inspect", inspect)
    done = command("inspect", str(tmp_path), "--card", "T4", "-o", str(tmp_path / "new.json"))
    assert done.exit_code == 2 and "histogram" in done.stdout
    assert "broken.py: ZeroDivisionError" in done.stderr and "Error: ways.cu does not compile:" in done.stderr
    assert {row.kernel for row in kept.load(tmp_path / "new.json").rows} == {"loops"}
    gated = command("inspect", str(tmp_path), "--card", "T4", "--baseline", str(tmp_path / "new.json"))
    assert gated.exit_code == 2 and "None of 15 figures is worse" in gated.output
    alone = command("inspect", str(tmp_path / "ways.py"))
    assert (alone.exit_code, alone.stdout) == (2, "") and alone.stderr.startswith("Error: ways.cu does not compile:")


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"format": "cudalab-inspection"}', "\udcff"])
def test_files_of_another_kind_are_refused(tmp_path, text):
    path = tmp_path / "x.json"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(InputError, match=r"x.json is not a file of `cudalab inspect -o`.*; write one: "):
        kept.load(path)
