"""The pictures of a terminal at the top of README.md: their commands run, and they show what is printed today."""

from __future__ import annotations

import re
import shlex

import pytest
from documents import ROOT
from pages.committed import printed
from typed import parsed

pytest.importorskip("pyte")

import terminal_svg

from cudalab.spec import find

README = (ROOT / "README.md").read_text()
PICTURES = [terminal_svg.WIDE, terminal_svg.NARROW]
AGAIN = "run: make report"


def lines_of(picture):
    return terminal_svg.written(picture.path.read_text())


def shown_after(picture, command):
    """The lines between a command and the next one."""
    lines = lines_of(picture)
    first, *more = terminal_svg.typed(command, picture.columns)
    start = lines.index(f"$ {first}") + 1 + len(more)
    end = next((i for i, line in enumerate(lines) if i >= start and line.startswith("$ ")), len(lines))
    return "\n".join(lines[start:end]).strip("\n")


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_it_has_the_commands_that_the_script_runs(picture):
    lines = lines_of(picture)
    assert {shlex.split(command)[1] for command in picture.commands} == {"check", "show"}
    assert len([line for line in lines if line.startswith("$ ")]) == len(picture.commands)
    for command in picture.commands:
        first, *more = terminal_svg.typed(command, picture.columns)
        start = lines.index(f"$ {first}")
        assert lines[start + 1 : start + 1 + len(more)] == more, AGAIN
        assert shlex.split("".join(line.removesuffix("\\") for line in (first, *more))) == shlex.split(command)
        name, *words = shlex.split(command)[1:]
        parsed(name, words)


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_what_show_prints_is_what_it_shows(picture):
    command = picture.commands[1]
    words = shlex.split(command)[1:]
    expected = printed(*words, "--plots", width=picture.columns)  # as on a terminal
    assert shown_after(picture, command) == "\n".join(line.rstrip() for line in expected.splitlines()), AGAIN


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_what_was_checked_is_what_the_kernel_has(picture):
    words = shlex.split(picture.commands[0])
    kernel, only = find.kernel(words[2]), words[words.index("--only") + 1].split(",")
    rows = re.findall(
        rf"^{kernel.name} +(\w+) +(\S+)(?: \*)? +(\w+)", shown_after(picture, picture.commands[0]), re.MULTILINE
    )
    labels = [f"host:{entry}" for entry in kernel.entries if {"host", f"host:{entry}"} & {*only}]
    assert [(variant, verdict) for _, variant, verdict in rows] == [(label, "right") for label in (*labels, "numpy")]


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_it_is_small_and_loads_nothing(picture):
    svg = picture.path.read_text()
    assert len(svg.encode()) < 80_000
    assert set(re.findall(r"https?://[^\s\"<]+", svg)) == {"http://www.w3.org/2000/svg"}
    assert max(map(len, lines_of(picture))) <= picture.columns


def test_a_phone_gets_letters_that_can_be_read():
    """A screen of 390 pixels leaves 358 for a picture; letters below 10 pixels are hard to read."""
    source = re.search(r'<source media="\(max-width: (\d+)px\)" srcset="docs/([^"]+)">', README)
    assert source[2] == terminal_svg.NARROW.name
    sizes = {}
    for picture in PICTURES:
        svg = picture.path.read_text()
        width, size = (float(re.search(pattern, svg)[1]) for pattern in (r'viewBox="0 0 ([\d.]+)', r"font: ([\d.]+)px"))
        sizes[picture] = size / width
    assert 358 * sizes[terminal_svg.NARROW] >= 10
    assert (int(source[1]) - 32) * sizes[terminal_svg.WIDE] >= 10, "the wide one begins where its letters can be read"
    alt = re.search(r'<img src="docs/session\.svg" alt="([^"]+)">', README)[1]
    assert len(alt) > 80


@pytest.mark.process
def test_a_terminal_is_drawn_as_it_is():
    colours = r"printf '\033[1;32mright\033[0m  \342\226\210\342\226\216 x\n\n a\rb\n'"
    lines = terminal_svg.screen(f"sh -c {shlex.quote(colours)}", 60)
    svg = terminal_svg.drawn([("sh", lines)], 60)
    assert terminal_svg.written(svg) == ["$ sh", "right  \u2588\u258e x", "", "ba"]
    assert re.search(r"r\d \{ fill: #35c9a0;font-weight: bold", svg)
    with pytest.raises(SystemExit, match="false: exit code 1"):
        terminal_svg.screen("false", 60)
