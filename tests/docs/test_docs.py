"""The pages are consistent: links have targets, commands can be parsed, lists of fields and columns are complete."""

from __future__ import annotations

import ast
import dataclasses
import pkgutil
import re
import shlex
from itertools import pairwise
from pathlib import Path

import click
import numpy as np
import pytest
from documents import PAGES, ROOT, blocks, prose
from typed import parsed

import cudalab
from cudalab.checks import parity
from cudalab.cli import main
from cudalab.report import check_table, columns, render
from cudalab.results import marks
from cudalab.spec.dtype import DTYPES
from cudalab.spec.kernel import Budget, Kernel, Launch
from cudalab.study import Published, Study, Variant, Work


def str_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


LINK = re.compile(r"\]\((?![a-z]+:)([^)#\s]*)#?([^)\s]*)\)")
LINKS = [(page, *found) for page in PAGES for found in LINK.findall(prose(page))]


def anchors(page: Path) -> set[str]:
    """The headings of a page as GitHub names them."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=str_of)
def test_links_lead_somewhere(page):
    for source, target, anchor in LINKS:
        if source == page:
            there = (page.parent / target).resolve() if target else page
            assert there.exists(), target
            assert there.is_file(), f"{target}: the site can show files only, not folders"
            assert ROOT in there.parents
            assert not anchor or anchor in anchors(there), f"{target}#{anchor}: {sorted(anchors(there))}"


def test_every_page_is_reached_from_the_readme():
    linked = {(ROOT / target).resolve() for page, target, _ in LINKS if page == ROOT / "README.md"}
    pages = {p for p in PAGES if p.parent == ROOT / "docs"} | {ROOT / "bench" / "METHOD.md"}
    assert pages - linked == set()


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "NOTES.md"], ids=str_of)
def test_a_list_has_a_blank_line_before_it(page):
    """Without one, MkDocs shows the items as part of the paragraph above. NOTES.md still has three such lists."""
    lines = prose(page).split("\n")
    item = re.compile(r"([-*]|\d+\.) ")
    for above, line in pairwise(lines):
        if item.match(line) and above and not above.startswith(" "):
            assert item.match(above) or above.startswith(("#", "<!--")), f"{above}\n{line}"


@pytest.mark.parametrize("page", PAGES, ids=str_of)
def test_a_fence_has_a_line_of_its_own(page):
    """One that an editor has filled into a paragraph is no block any more."""
    left = [line for line in prose(page).split("\n") if "```" in line]
    assert not left, f"{page}: put each ``` and each line of its block on a line of its own: {left}"


def commands(page: Path) -> list[str]:
    """The command lines of cudalab in a page: in its blocks and between backticks."""
    text = "\n".join(b.text for b in blocks(page)).replace("\\\n", " ")
    lines = re.findall(r"^(?:\$ |- run: |\s*run: )?(cudalab [^<\n]*)$", text, re.MULTILINE)
    spans = re.findall(r"`(cudalab [^`]*)`", prose(page).replace("\n", " "))
    return [line for line in dict.fromkeys(lines + spans) if not re.search(r"\.\.\.|[A-Z]{4}", line)]


COMMANDS = [(page, line) for page in PAGES if page.name != "commands.md" for line in commands(page)]


@pytest.mark.parametrize(("page", "line"), COMMANDS, ids=[f"{p.stem}: {line}" for p, line in COMMANDS])
def test_a_command_can_be_typed(page, line):
    _, *words = shlex.split(line.split(" | ")[0], comments=True)
    if words[0].startswith("-"):
        assert words[0] in {name for option in main.get_params(click.Context(main)) for name in option.opts}
        return
    try:
        parsed(words[0], words[1:])
    except click.exceptions.Exit as stop:  # --help
        assert stop.exit_code == 0
    except click.MissingParameter:
        assert len(words) == 1, "in a sentence the bare name will do"


def test_links_and_commands_are_found():
    assert len(LINKS) > 40 and len(COMMANDS) > 20
    assert any(anchor for _, _, anchor in LINKS)


@pytest.mark.parametrize("page", PAGES, ids=str_of)
def test_python_can_be_read(page):
    for block in blocks(page):
        if block.language == "python":
            ast.parse(block.text)


@pytest.mark.parametrize("page", PAGES, ids=str_of)
def test_a_name_of_the_package_is_there(page):
    """A name such as `cudalab.nn.GELU` that a page gives can be imported. CHANGELOG.md has names that are gone."""
    text = re.sub(r"torch\.ops\.cudalab[\w.]*|cudalab\.fish", "", page.read_text())
    names = set(re.findall(r"\bcudalab(?:\.[A-Za-z_]\w*)+", text)) if page.name != "CHANGELOG.md" else set()
    assert {name for name in names if not _is_there(name)} == set()


def _is_there(name):
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


def test_a_name_that_is_gone_is_noticed():
    assert _is_there("cudalab.engine.runs.bench") and not _is_there("cudalab.engine.session.bank")


@pytest.mark.sweep
def test_the_page_about_python_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {"x": np.ones((3, 5), np.float32)}
    for block in blocks(ROOT / "docs" / "python.md"):
        if not block.text.startswith("%%"):  # a cell of a notebook
            exec(block.text, names)
    assert names["y"].shape == (3, 5)
    assert "gelu small float32 numpy ok" in capsys.readouterr().out


@pytest.mark.process
def test_the_study_of_the_page_about_studies_runs(tmp_path):
    (block,) = (b for b in blocks(ROOT / "docs" / "studies.md") if b.title == "row_sums.py")
    (tmp_path / "row_sums.py").write_text(block.text)
    run = cudalab.run_study(tmp_path / "row_sums.py", device="cpu", budget=0.02)
    assert [(case.size, case.label, case.status) for case in run.cases] == [
        ("small", "loop", "ok"), ("small", "at once", "ok"),
    ]  # fmt: skip
    assert run.cases[1].quantities == {"input_bytes": 800_000, "items": 100}
    assert re.search(
        r"all rows at once are summed ([\d.,]+( to [\d.,]+)?|an unknown number of) times", render(run, "table")
    )


@pytest.mark.parametrize(
    ("page", "records"), [("studies.md", (Study, Variant, Work, Published)), ("kernel.md", (Kernel, Launch, Budget))]
)
def test_the_page_of_records_has_every_field(page, records):
    text = (ROOT / "docs" / page).read_text()
    fields = {field.name for record in records for field in dataclasses.fields(record)} - {"label", "make"}
    assert {name for name in fields if not re.search(rf"\b{name}\b", text)} == set()


def test_the_page_of_specs_has_every_dtype():
    text = (ROOT / "docs" / "kernel.md").read_text()
    assert {name for name in DTYPES if name not in text} == set()


def test_the_page_of_the_table_has_every_column_and_mark():
    text = (ROOT / "docs" / "table.md").read_text()
    kinds = [kind.replace("_", " ") for kind in (*columns.GPU_KINDS, "wall")]
    others = [
        "max ULP",
        "GB/s",
        "% copy",
        "% limit",
        "x eager",
        "95 % interval",
        "verdict",
        *check_table.CHECK_HEADERS[3:],
    ]
    assert {name for name in (*kinds, *others) if f"| **{name}** |" not in text} == set()
    assert {mark for mark, said in marks.MARKS.items() if f"| `{mark}` |" not in text} == set()


def test_the_examples_of_budgets_are_what_a_check_says():
    """docs/kernel.md, how large a budget: each row is judged by each budget that the header names."""
    text = (ROOT / "docs" / "kernel.md").read_text(encoding="utf-8")
    header, *rows = re.findall(r"^\| reference \|.*|^\| -?[\d.]+[^|]* \| -?[\d.]+[^|]* \|.*", text, re.MULTILINE)
    budgets = [Budget(float(ulp)) for ulp in re.findall(r"Budget\(([\d.]+)\)", header)]
    assert len(budgets) == 3 and len(rows) == 5
    for row in rows:
        want, got, error, *verdicts = (cell.strip() for cell in row.strip("|").split("|"))
        value, result = (float(re.match(r"-?[\d.]+", cell)[0]) for cell in (want, got))
        found = [
            parity.compare(np.array([result], np.float16), np.array([value]), DTYPES["float16"], b) for b in budgets
        ]
        assert ["right" if one.ok else "WRONG" for one in found] == verdicts, row
        assert f"{found[0].max_ulp:.2g}" == error, row
