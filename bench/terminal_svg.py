"""Runs commands of the lab in a terminal and draws what it shows: the pictures that README.md begins with.

    python bench/terminal_svg.py

A barrier of one of the lab's kernels is deleted in a copy, and the check names both lines of the race; the last command
has a speed-up against the fastest rival, of a committed run. What the commands print is not edited: each runs in a
pseudo-terminal, and the picture has its screen as it is at the end. A phone shows the narrow one, whose terminal has
fewer columns: there the letters of the wide one would be 6 pixels high.
"""

from __future__ import annotations

import fcntl
import math
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import textwrap
from collections import defaultdict
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from xml.etree import ElementTree

import pyte
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Picture:
    """What a picture shows, and how wide its terminal is."""

    name: str
    columns: int
    commands: tuple[str, ...]

    @property
    def path(self) -> Path:
        return ROOT / "docs" / self.name


KERNEL = "transpose"
COMMANDS = (
    f"sed -i '/^    __syncthreads/d' {KERNEL}.cu",
    f"cudalab check {KERNEL}.cu -q --only host:transpose_tile --dtype float32 --size small --device cpu --seed 0",
    "cudalab show bench/results/h200/bias_gelu.json --dtype float16 --size xlarge | tail -n 1",
)
WIDE = Picture("session.svg", 100, COMMANDS)
NARROW = Picture("session-narrow.svg", 54, COMMANDS)
TALL, SMALLER = 500, 0.75  # pixels: the height of a picture on a page, and of one of its own at most
WRONG = 1  # the exit code of a check that finds something
SAYS = "A terminal with commands of the lab and what they print"
ROWS = 200
ASIDE = ("CI", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "LINES")  # they change the output
NAMES = {"brown": "yellow", "brightbrown": "bright_yellow"}  # colours of pyte that rich calls otherwise

# Those of the report's dark theme: light and dark pages alike show the picture on its own dark ground.
THEME = TerminalTheme(
    (16, 21, 27), (232, 237, 242),
    [(163, 174, 185), (255, 138, 128), (53, 201, 160), (227, 181, 61), (86, 180, 233), (231, 156, 203), (87, 181, 234),
     (232, 237, 242)],
)  # fmt: skip
FORMAT = """\
<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" xmlns="http://www.w3.org/2000/svg">
<title>SAYS</title>
<style>
.{unique_id}-matrix {{ font: {char_height}px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; }}
.{unique_id}-title {{ font: 18px Arial, Helvetica, "Liberation Sans", sans-serif; }}
{styles}
</style>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def workplace(folder: Path) -> None:
    """Copy the kernel and what it includes to a folder, and show the lab's results there."""
    for path in (*(ROOT / "kernels").glob(f"{KERNEL}.*"), ROOT / "kernels" / "common", ROOT / "kernels" / "triton"):
        (shutil.copytree if path.is_dir() else shutil.copy)(path, folder / path.name)
    (folder / "bench").symlink_to(ROOT / "bench")


def screen(command: str, columns: int, folder: Path = ROOT) -> list[Text]:
    """The lines on the screen of a terminal of so many columns after a shell's command in a folder, in their colours.

    Ends the script where the command fails; a check that finds something does not.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    around = {name: value for name, value in os.environ.items() if name not in ASIDE}
    path = f"{Path(sys.executable).parent}{os.pathsep}{around.get('PATH', '')}"
    child = subprocess.Popen(
        ["sh", "-c", command], stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, cwd=folder,
        env={**around, "TERM": "xterm-256color", "PATH": path},
    )  # fmt: skip
    os.close(theirs)
    shown = pyte.Screen(columns, ROWS)
    stream = pyte.ByteStream(shown)
    while data := _read(ours):
        stream.feed(data)
    os.close(ours)
    if (code := child.wait()) and not (code == WRONG and command.startswith("cudalab check")):
        raise SystemExit(f"{command}: exit code {code}")
    lines = [_line([shown.buffer[y][x] for x in range(columns)]) for y in range(shown.cursor.y + 1)]
    while lines and not lines[-1].plain:
        lines.pop()
    return lines


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other end is closed
        return b""


def _line(cells: list[pyte.screens.Char]) -> Text:
    line = Text(end="")
    for look, held in groupby(cells, key=lambda cell: (cell.fg, cell.bg, cell.bold, cell.italics, cell.reverse)):
        front, back, bold, italic, reverse = look
        style = Style(color=_colour(front), bgcolor=_colour(back), bold=bold, italic=italic, reverse=reverse)
        line.append("".join(cell.data for cell in held), style)
    line.rstrip()
    return line


def _colour(name: str) -> str | None:
    if name == "default":
        return None
    return f"#{name}" if re.fullmatch("[0-9a-f]{6}", name) else NAMES.get(name, name.replace("bright", "bright_"))


def typed(command: str, columns: int) -> list[str]:
    """A command on as many lines as it takes beside a prompt, each but the last with a backslash at its end."""
    lines = textwrap.wrap(command, columns - 4, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return [f"{line} \\" for line in lines[:-1]] + lines[-1:]


def drawn(sessions: list[tuple[str, list[Text]]], columns: int) -> str:
    """Commands and what they printed in a terminal of so many columns, as SVG."""
    with open(os.devnull, "w") as nowhere:
        console = Console(record=True, width=columns, file=nowhere, force_terminal=True, color_system="truecolor")
        for i, (command, lines) in enumerate(sessions):
            parts = [Text("") for _ in range(min(i, 1))]
            first, *more = typed(command, columns)
            parts += [Text.assemble(("$ ", "bold green"), (first, "bold")), *(Text(part, "bold") for part in more)]
            for line in (*parts, *lines):
                console.print(line, soft_wrap=True, highlight=False)
        svg = console.export_svg(
            title="cudalab", theme=THEME, unique_id="session", code_format=FORMAT.replace("SAYS", SAYS)
        )
    size = re.search(r'width="([\d.]+)" height="([\d.]+)" role', svg)
    assert size
    scale = min(SMALLER, TALL / float(size[2]))
    width, height = (math.floor(scale * float(length)) for length in size.groups())
    svg = svg.replace(size[0], f'width="{width}" height="{height}" role')
    svg = re.sub(r' clip-path="[^"]*"|<text [^>]*>\n</text>', "", svg)
    return svg.replace(
        " textLength=", ' lengthAdjust="spacingAndGlyphs" textLength='
    )  # no gaps between the blocks of bars


def written(svg: str) -> list[str]:
    """The lines in a picture."""
    wide, tall = 12.2, 24.4  # a character, as rich draws it
    lines: dict[int, str] = defaultdict(str)
    for text in ElementTree.fromstring(svg).iterfind(".//{*}g[@class='session-matrix']/{*}text"):  # from left to right
        row, column = int(float(text.get("y", 0)) / tall), round(float(text.get("x", 0)) / wide)
        lines[row] = lines[row].ljust(column) + (text.text or "").replace("\u00a0", " ")
    return [lines[row].rstrip() for row in range(max(lines) + 1)]


if __name__ == "__main__":
    for picture in (WIDE, NARROW):
        columns = picture.columns
        with tempfile.TemporaryDirectory() as place:
            workplace(Path(place))
            sessions = [(command, screen(command, columns, Path(place))) for command in picture.commands]
        picture.path.write_text(drawn(sessions, columns))
