"""The picture of a terminal at the top of README.md: its commands can be run, and it shows what they print today."""

from __future__ import annotations

import re
import shlex

import pytest
from click import Context
from documents import ROOT
from pages.committed import printed

pytest.importorskip("pyte")

import terminal_svg

from cudalab.cli import main
from cudalab.spec import find

SVG = terminal_svg.PICTURE.read_text()
LINES = terminal_svg.written(SVG)
ASKED = [line for line in LINES if line.startswith("$ ")]


def shown_after(command):
    """The lines between a command and the next one."""
    start = LINES.index(f"$ {command}") + 1
    end = next((i for i, line in enumerate(LINES) if i >= start and line.startswith("$ ")), len(LINES))
    return "\n".join(LINES[start:end]).strip("\n")


def test_it_has_the_commands_that_the_script_runs():
    assert [f"$ {command}" for command in terminal_svg.COMMANDS] == ASKED, "run: make report"
    assert {shlex.split(command)[1] for command in terminal_svg.COMMANDS} == {"check", "show"}
    for command in terminal_svg.COMMANDS:
        name, *words = shlex.split(command)[1:]
        main.get_command(Context(main), name).make_context(name, words)  # raises where a word is not known


def test_what_show_prints_is_what_it_shows():
    command = terminal_svg.COMMANDS[1]
    words = shlex.split(command)[1:]
    expected = printed(*words, "--plots", width=terminal_svg.COLUMNS)  # as on a terminal
    assert shown_after(command) == "\n".join(line.rstrip() for line in expected.splitlines()), "run: make report"


def test_what_was_checked_is_what_the_kernel_has():
    kernel = find.kernel(shlex.split(terminal_svg.COMMANDS[0])[2])
    said = shown_after(terminal_svg.COMMANDS[0])
    rows = re.findall(rf"^{kernel.name} +(\w+) +(\S+) +(\w+)", said, re.MULTILINE)
    assert [(variant, verdict) for _, variant, verdict in rows] == [
        *((f"host:{entry}", "right") for entry in kernel.entries), ("numpy", "right"),
    ]  # fmt: skip


def test_it_is_small_and_loads_nothing():
    assert len(SVG.encode()) < 80_000
    assert set(re.findall(r"https?://[^\s\"<]+", SVG)) == {"http://www.w3.org/2000/svg"}
    assert max(map(len, LINES)) <= terminal_svg.COLUMNS
    text = re.search(r"!\[([^\]]+)\]\(docs/session\.svg\)", (ROOT / "README.md").read_text())[1]
    assert len(text) > 80


def test_a_terminal_is_drawn_as_it_is():
    colours = r"printf '\033[1;32mright\033[0m  \342\226\210\342\226\216 x\n\n a\rb\n'"
    lines = terminal_svg.screen(f"sh -c {shlex.quote(colours)}")
    svg = terminal_svg.drawn([("sh", lines)])
    assert terminal_svg.written(svg) == ["$ sh", "right  \u2588\u258e x", "", "ba"]
    assert re.search(r"r\d \{ fill: #35c9a0;font-weight: bold", svg)
    with pytest.raises(SystemExit, match="false: exit code 1"):
        terminal_svg.screen("false")
