"""Texts of a run have no effect on a terminal, in Markdown or in a spreadsheet, and files keep them as they are."""

from __future__ import annotations

import csv
import io
import json

import click
import pytest
from commands import invoke, ran
from fuzzing import whole
from mutations import clean
from tables import table

from cudalab import Results, report
from cudalab.base.errors import SpecError
from cudalab.report.markdown import inline, opening
from cudalab.results import formats
from cudalab.spec.kernel import Budget, Kernel

FORMULAS = ["=cmd|' /C calc'!A0", "+1", "-1 is negative", "@SUM(A1)", "\t=1", "\r=1", "'=1", "''-1", "\uff1d1"]
PLAIN = ["'quoted'", "'", "a=b", "", "1-2"]
CONTROL = "\x1b[2J\x9b1m\x7f\u202e\u2028\U000e0041"


def named(text):
    run = whole()
    run.machine.name = run.cases[0].kernel = run.cases[4].reason = run.cases[1].variant = text
    run.cases[0].times[text] = [[1e-6]]
    return run


@pytest.mark.parametrize("text", [*FORMULAS, *PLAIN])
def test_formulas_are_texts_in_a_csv_and_read_back(text):
    run = named(text)
    data = formats.encoded(run, "csv")
    assert formats.decoded(data, "r.csv").cases == run.cases
    for held in (data.decode(), report.render(run, "csv")):
        cells = [cell for row in csv.reader(io.StringIO(held, newline="")) for cell in row]
        assert text in FORMULAS or text in cells
        assert not [cell for cell in cells if cell[:1] in ("=", "+", "-", "@", "\t", "\r", "\uff1d")]


@pytest.mark.parametrize("text", [*FORMULAS, *PLAIN])
def test_formulas_pass_through_pandas(text):
    pandas = pytest.importorskip("pandas")
    run = named(text)
    assert Results.from_frame(run.to_frame(samples=True)).cases == run.cases
    if text not in ("\r=1",):  # which pandas reads as a line break
        table = pandas.read_csv(io.BytesIO(formats.encoded(run, "csv")))
        assert Results.from_frame(table).cases == run.cases


@pytest.mark.parametrize("format", ["table", "markdown", "csv", "json"])
def test_nothing_that_is_shown_has_control_characters(tmp_path, monkeypatch, format):
    run = named(CONTROL)
    run.save(tmp_path / "r.json")
    assert CONTROL.encode()[3:5] in (tmp_path / "r.json").read_bytes()
    monkeypatch.setattr(click.testing._NamedTextIOWrapper, "isatty", lambda self: True, raising=False)
    for name, value in {"NO_COLOR": "1", "CI": "1"}.items():
        monkeypatch.setenv(name, value)
    done = ran("show", tmp_path / "r.json", "--format", format)
    clean(done.output)
    if format == "json":
        assert json.loads(done.output)["machine"]["name"] == CONTROL
    for form in ("json", "jsonl", "csv"):
        done = ran("convert", tmp_path / "r.json", "-", "--to", form)
        clean(done.output)


def test_a_wrong_argument_is_repeated_without_its_control_characters():
    for words in (["list", "\x1b[2J"], ["--\x1b[2J"], ["show", "--\x1b[2J"], ["\x1b[2J"]):
        done = invoke(*words)
        assert done.exit_code == 2 and "\\x1b[2J" in done.output, done.output
        clean(done.output)


@pytest.mark.parametrize(("text", "said"), table("escapes", "texts in Markdown"))
def test_markdown_and_html_in_a_text_are_shown_as_text(text, said):
    assert inline(text) == said


def test_markdown_of_a_run_holds_no_html_and_no_line_begins_a_heading_or_a_list():
    for run in (named("<script>hacked()</script>"), whole("cpu", timed=False)):
        run.cases[0].backend = "<b>|x"
        assert "<" not in report.render(run, "markdown")
    lines = {"# h": r"\# h", "1. x": r"1\. x", "- x": r"\- x", "> q": r"\> q", "gelu": "gelu"}
    assert {text: opening(text) for text in lines} == lines


def test_found_by_the_fuzz(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = invoke("new", ".")
    assert done.exit_code == 2 and "'.' cannot name a kernel" in done.output, repr(done.exception)
    with pytest.raises(SpecError, match="reference: no signature found"):
        Kernel(file="k.py", summary="", dtypes=("float32",), sizes={"a": (1,)}, edges=(), reference=int,
               entries={"k": lambda x, y: None}, budgets={"float32": Budget(0)})  # fmt: skip
