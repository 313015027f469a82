"""What is committed and what is measured here, in terminals of several widths: nothing is cut, nothing essential moves.

The first table of each group has the variants' names, the main times, the intervals and the verdicts.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

import cudalab
from cudalab import report
from cudalab.report import below_tables, check_table, columns, table
from cudalab.results import record

H200 = Path("bench/results/h200")
RUNS = sorted([*H200.glob("*.json"), *(H200 / "checks").glob("*.json")])
WIDTHS = (60, 100, *(pytest.param(width, marks=pytest.mark.sweep) for width in (80, 140)))
LOADED = {}


def loaded(path):
    if path not in LOADED:
        LOADED[path] = cudalab.load(path)
    return LOADED[path]


def group(run):
    """The run with the group alone whose names are longest: what is hardest to fit."""
    cases = max(run.groups().values(), key=lambda cases: max(len(c.label) for c in cases))
    return record.Results(**{f: getattr(run, f) for f in run.__struct_fields__} | {"cases": cases})


def rows(text):
    """The lines of the first table, each with the pieces of its name joined."""
    head, found = False, []
    for line in text.splitlines():
        if line.startswith(("variant", "kernel ")):
            if head:
                break
            head = True
        elif head and (not line.strip() or line.startswith("  note ")):
            break
        elif head and line.startswith(" "):
            name, _, rest = found[-1].partition(" ")
            found[-1] = f"{name}{line.strip()} {rest}"
        elif head:
            found.append(line)
    return found


def test_a_pipe_breaks_no_line_of_text_and_a_table_that_no_terminal_holds_says_so():
    """Who searches a file for a message finds it whole; a compiler's lines stay lines."""
    long = f"got {'1.2345, ' * 40}want 0\n  of two lines"
    case = record.Case("gelu", "small", (8,), "float32", "pycuda", "a", status=record.WRONG, reason=long)
    case.notes = ["a note " * 40 + "ends"]
    timed = record.Case("gelu", "small", (8,), "float32", "numpy", times={"wall": [[1e-3]] * 9})
    run = record.Results(record.FORMAT, record.VERSION, "2026", {"modes": "launch"}, cases=[case, timed],
                         machine=record.Machine("cpu", "a CPU " * 40))  # fmt: skip
    piped, wide = (report.render(run, "table", width).splitlines() for width in (None, table.PIPED_WIDTH))
    for line in columns.heading(run), f"  WRONG pycuda:a: {long}".replace("\n", "\n  "), *below_tables.footer(run):
        for part in line.split("\n"):
            assert part in piped
    assert any(line.endswith("a note ends") and line.startswith("  note pycuda:a: a note") for line in piped)
    assert max(map(len, wide)) <= table.PIPED_WIDTH
    of_table = ("variant ", "numpy ", "pycuda:a ")
    assert (
        [line for line in piped if line.startswith(of_table)]
        == [line for line in wide if line.startswith(of_table)]
        != []
    )
    text = report.render(group(loaded(RUNS[0])), "table", 24)
    assert re.search(r"The table has \d+ columns, the terminal 24: widen it, or give --format csv\.$", text)
    assert "\u2026" not in text


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.stem)
def test_committed_results(path, width):
    run = group(loaded(path)) if loaded(path).timed else loaded(path)
    text = report.render(run, "table", width)
    assert "\u2026" not in text
    assert max(map(len, text.splitlines())) <= width
    lines = rows(text)
    if not run.timed:
        for cells, _ in check_table.check_rows(run):
            backend, _, entry = cells[2].partition(":")
            assert any(all(cell in line for cell in (backend, cells[3], cells[4])) for line in lines), cells
            assert entry in text
        headers, _ = check_table.headers_and_rows([cells for cells, _ in check_table.check_rows(run)])
        hidden = [name for name in table.DROPPED if name in headers and not all(word in text for word in name.split())]
        assert not hidden or f"columns left out: {', '.join(hidden)}" in " ".join(text.split())
        return
    shown = {c.name: c.cells for c in columns.drawn(run, run.cases)}
    needed = ("variant", f"{run.main_kind.replace('_', ' ')} \u00b5s", "x eager", "95 % interval", "verdict")
    for cells in zip(*(shown[name] for name in needed if name in shown), strict=True):
        assert any(all(cell in line for cell in cells) for line in lines), (cells, lines)
    heads = "\n".join(line.rstrip() for line in text.splitlines())
    assert "95 % interval" not in shown or "95 %\n" in heads or " 95 % " in heads
    assert not re.search(r"^(?:.* )?% interval", text, re.MULTILINE)
    for name, cells in shown.items():
        assert all(word in text for word in name.split()), name
        assert all(cell in text for cell in cells) or name == "variant", name
        assert name == "variant" or {*cells} != {"-"}


@pytest.mark.process
@pytest.mark.parametrize("words", [("show", str(H200 / "layernorm.json"), "--size", "large", "--no-plots"), ("list",)])
def test_on_a_terminal(words, monkeypatch):
    """The real path: a command on a terminal of 60 columns."""
    for name in ("COLUMNS", "LINES", "CI"):
        monkeypatch.delenv(name, raising=False)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    child = subprocess.Popen([sys.executable, "-m", "cudalab", *words], stdout=theirs, stderr=theirs, stdin=theirs,
                             env={**os.environ, "NO_COLOR": "1", "TERM": "xterm"})  # fmt: skip
    os.close(theirs)
    data = b""
    while True:
        try:
            piece = os.read(ours, 1 << 16)
        except OSError:  # the other end is closed
            break
        data += piece
    assert child.wait() == 0
    text = data.decode().replace("\r\n", "\n")
    assert max(map(len, text.splitlines())) <= 60
    whole = " ".join(text.split())
    if words[0] == "list":
        for name in ("gelu_backward_scalar", "32768x4096", "pycuda_elementwise", "torch_compile"):
            assert re.search(rf"(^|[ ,]){name}(,|$| )", whole), name
    else:
        assert "layernorm_eight *" in text and "+FASTER" in text and "\x1b" not in text
        assert text.index("* ours") < text.index("variant"), "the legend would fill a screen of 24 lines"
