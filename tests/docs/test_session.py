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
    assert len([line for line in lines_of(picture) if line.startswith("$ ")]) == len(picture.commands)
    for command in picture.commands:
        shown_after(picture, command)  # which finds it
        words = shlex.split(command.partition(" | ")[0])
        if words[0] == "cudalab":
            parsed(words[1], words[2:])


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_both_lines_of_the_race_are_those_of_the_kernel_without_its_barrier(picture):
    source = (ROOT / "kernels" / f"{terminal_svg.KERNEL}.cu").read_text().splitlines()
    kept = [line for line in source if not re.match("^    __syncthreads", line)]
    assert len(kept) == len(source) - 1
    said = " ".join(shown_after(picture, picture.commands[1]).split())
    found = re.search(r"race .* reads at \w+\.cu:(\d+), thread .* writes at \w+\.cu:(\d+), without a barrier", said)
    read, write = (kept[int(number) - 1] for number in found.groups())
    assert "= tile[" in read and re.match(r" *tile\[.*\] = x\[", write), AGAIN


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_the_speed_up_is_that_of_the_committed_run(picture):
    command = picture.commands[2]
    last = printed(*shlex.split(command.partition(" | ")[0])[1:], width=300).splitlines()[-1]
    assert shown_after(picture, command).replace("\n", "") == last, AGAIN
    assert "times as fast as torch" in last and "FASTER" in last


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_it_is_small_and_loads_nothing(picture):
    svg = picture.path.read_text()
    assert len(svg.encode()) < 80_000
    assert set(re.findall(r"https?://[^\s\"<]+", svg)) == {"http://www.w3.org/2000/svg"}
    assert max(map(len, lines_of(picture))) <= picture.columns
    assert int(re.search(r' height="(\d+)" role', svg)[1]) <= 500


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
