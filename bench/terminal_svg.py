"""Runs commands of the lab in a terminal and draws what it shows: docs/session.svg, which README.md begins with.

    python bench/terminal_svg.py

Nothing is edited: each line of COMMANDS runs in a pseudo-terminal, and the picture has its screen as it is at the end.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
from collections import defaultdict
from itertools import groupby
from pathlib import Path
from xml.etree import ElementTree

import pyte
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "session.svg"
COMMANDS = (
    "cudalab check softmax --dtypes bfloat16 --only host,numpy --device cpu --seed 0",
    "cudalab show bench/results/h200/softmax.json --dtypes bfloat16 --sizes xlarge",
)
SAYS = "A terminal with commands of the lab and what they print"
COLUMNS, ROWS = 100, 200
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


def screen(command: str) -> list[Text]:
    """The lines on the screen of a terminal after a command, in their colours."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    around = {name: value for name, value in os.environ.items() if name not in ASIDE}
    path = f"{Path(sys.executable).parent}{os.pathsep}{around.get('PATH', '')}"
    child = subprocess.Popen(
        shlex.split(command), stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, cwd=ROOT,
        env={**around, "TERM": "xterm-256color", "PATH": path},
    )  # fmt: skip
    os.close(theirs)
    shown = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.ByteStream(shown)
    while data := _read(ours):
        stream.feed(data)
    os.close(ours)
    if code := child.wait():
        raise SystemExit(f"{command}: exit code {code}")
    lines = [_line([shown.buffer[y][x] for x in range(COLUMNS)]) for y in range(shown.cursor.y + 1)]
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


def drawn(sessions: list[tuple[str, list[Text]]]) -> str:
    """Commands and what they printed, as SVG."""
    with open(os.devnull, "w") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere, force_terminal=True, color_system="truecolor")
        for i, (command, lines) in enumerate(sessions):
            parts = [Text("") for _ in range(min(i, 1))]
            for line in (*parts, Text.assemble(("$ ", "bold green"), (command, "bold")), *lines):
                console.print(line, soft_wrap=True, highlight=False)
        svg = console.export_svg(
            title="cudalab", theme=THEME, unique_id="session", code_format=FORMAT.replace("SAYS", SAYS)
        )
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
    PICTURE.write_text(drawn([(command, screen(command)) for command in COMMANDS]))
