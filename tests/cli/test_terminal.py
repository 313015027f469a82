"""Progress and colours: what a person at a terminal sees, what a log holds, and what Python code is told."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from ast import literal_eval

import pytest
import tables
import twice
from click import Context

import cudalab
from cudalab.base import numbers
from cudalab.base.errors import CudalabError
from cudalab.cli import live, main, measure, terminal, watch
from cudalab.engine import messages
from cudalab.engine.groups import Group
from cudalab.engine.messages import WORKER, Glimpse, Step
from cudalab.engine.progress import Pace, Progress, guess
from cudalab.report import table
from cudalab.report.results import Results
from cudalab.results.record import Case, Machine, Parity
from cudalab.spec import dtype, find

LABELS = ("host:gelu_scalar", "host:gelu_vec", "numpy", "torch_compile", "torch_eager", "torch_native", "torch_script")
SPOKEN = """
import time

print("as the spec is imported")

def inputs(shape, dtype, rng):
    print("the spec says hello", flush=True)
    time.sleep(0.4)
    return {"x": rng.standard_normal(shape).astype(dtype)}
"""
SPEC = SPOKEN + twice.SPEC.replace("    reference", "    inputs=inputs,\n    reference")
# Makes its standard input the terminal whose keys it obeys, as a shell does.
BOOT = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
ASIDE = ("CI", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "LINES")


@pytest.fixture
def bench(tmp_path):
    """The command that benchmarks a kernel which prints, in two groups."""
    command = [sys.executable, "-m", "cudalab", "bench", str(twice.written(tmp_path, SPEC))]
    return [*command, "--only", "numpy,host", "--device", "cpu", "--budget", "0.01"]


@pytest.fixture
def plain(monkeypatch):
    """An environment that asks for nothing special."""
    for name in ASIDE:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    return monkeypatch


class Watched:
    """A command on a terminal of its own, with every picture that was ever on the screen."""

    def __init__(self, command, columns=80, rows=24):
        pyte = pytest.importorskip("pyte")
        self.fd, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.screen = pyte.Screen(columns, rows)
        self.stream, self.frames, self.raw = pyte.ByteStream(self.screen), [], b""
        self.child = subprocess.Popen(
            [sys.executable, "-c", BOOT, *command], stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
            env=dict(os.environ),  # readline, which pytest loads, sets COLUMNS and LINES behind Python's back
        )  # fmt: skip
        os.close(theirs)

    def until(self, text=None, limit=20.0):
        """Read until `text` is on the screen; None: to the end, and give the exit code."""
        deadline = time.monotonic() + limit
        while text is None or text not in "".join(self.frames[-1:]):
            assert time.monotonic() < deadline, self.frames[-1:]
            if not select.select([self.fd], [], [], 0.1)[0]:
                continue
            try:
                data = os.read(self.fd, 1 << 16)
            except OSError:  # the other end is closed
                return self.child.wait()
            self.raw += data
            self.stream.feed(data)
            self.frames.append("\n".join(line.rstrip() for line in self.screen.display).rstrip())
        return None


@pytest.mark.process
@pytest.mark.wall
@pytest.mark.sweep
def test_the_table_fills_in_and_is_gone_at_the_end(bench, plain):
    watched = Watched(bench, rows=60)
    assert watched.until() == 0
    pictures = "\n\n".join(watched.frames)
    assert re.search(r"^\[1/2\] twice small float32: [a-z ]+   0:0\d$", pictures, re.MULTILINE)
    assert re.search(r"^    numpy       waiting$", pictures, re.MULTILINE)
    assert re.search(r"^twice small float32: 2 right; numpy [\d.,]+\S* µs( \(busy\))?\n\[2/2\]", pictures, re.MULTILINE)
    assert re.search(r"^\[2/2\] twice large float32: .* s left$", pictures, re.MULTILINE)
    last = watched.frames[-1]
    assert "[2/2]" not in last
    assert "waiting" not in last
    assert "the spec says hello" in last  # what a kernel prints stays, above
    assert re.search(r"^twice  float32  right: ", last, re.MULTILINE)
    assert not watched.screen.cursor.hidden


@pytest.mark.process
def test_a_check_that_watches_judges_each_edit(bench, plain, tmp_path):
    spec, saved = tmp_path / "twice.py", tmp_path / "twice.py~"
    text = spec.read_text()
    spec.write_text(f"{text}\n(")
    options = ["--watch", "--skip", "host,cupy_raw,pycuda", "--size", "small", "--device", "cpu"]
    watched = Watched([*bench[:3], "check", bench[4], *options], rows=60)
    watched.until("watching twice.cu, twice.py; Ctrl-C ends")
    assert "SyntaxError: '(' was never closed" in watched.frames[-1]
    saved.write_text(text)
    saved.replace(spec)  # as vim saves
    watched.until("twice.py changed")
    watched.until("watching")
    assert re.search("numpy +right", watched.frames[-1])
    assert "SyntaxError" not in watched.frames[-1], "the screen was not cleared"
    assert "no library to check: the spec names none" in watched.frames[-1]
    os.write(watched.fd, b"\x03")
    assert watched.until() == 130
    assert watched.frames[-1].endswith("stopped")


def test_files_that_a_kernel_depends_on_are_watched(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    spec, code, header, helper = (tmp_path / name for name in ("twice.py", "twice.cu", "two.cuh", "sizes_of_twice.py"))
    spec.write_text(f"from sizes_of_twice import SIZES\n{SPEC}")
    code.write_text(f'#include "two.cuh"\n{twice.SOURCE}')
    helper.write_text("SIZES = {}")
    files = watch.Files([str(tmp_path)])
    assert not files.changed()
    header.write_text("")  # where it is looked for
    assert files.changed() == {header}
    helper.write_text("SIZES = {} = {")
    assert files.changed() == {helper}
    code.unlink()
    assert files.changed() == {code}, "the folder has no pair for now"
    code.write_text(twice.SOURCE)
    assert files.changed() >= {code}
    assert (str(files), files.changed()) == ("sizes_of_twice.py, twice.cu, twice.py", set())
    with pytest.raises(CudalabError, match="no kernel named 'twicee'"):
        watch.Files(["twicee"])


@pytest.mark.parametrize("width", [50, 60, 80])
def test_names_are_wrapped_where_a_table_has_no_room_and_nothing_is_cut(width):
    made = table.columns_of(["kernel", "variant", "max ULP", "shapes"], left=2)
    made.add_row("gelu_backward", "host:gelu_backward_one", "0.62", "12,345,678")
    out = io.StringIO()
    table.screen(out, width, False).print(table.fitted(made, width, (1, 0)))
    row, *more = out.getvalue().splitlines()[2:]
    assert max(map(len, (row, *more))) <= width
    assert row.split()[-2:] == ["0.62", "12,345,678"]
    assert row.startswith("gelu_backward host:")
    assert [line.strip() for line in more] == (["gelu_backward_one"] if width < 60 else [])


@pytest.mark.process
@pytest.mark.wall
def test_ctrl_c_leaves_a_clean_screen(bench, plain):
    watched = Watched(bench, columns=40, rows=10)
    watched.until("numpy       waiting")  # the last line: an echo inside a picture would garble it
    assert not watched.screen.cursor.hidden  # nor is it after SIGKILL, therefore
    os.write(watched.fd, b"\x03")
    assert watched.until() == 130
    assert watched.frames[-1].endswith("stopped after 0 of 2 groups; nothing was\nsaved; to save results, add -o FILE")
    assert "[1/2]" not in watched.frames[-1]
    assert "waiting" not in watched.frames[-1]
    assert not watched.screen.cursor.hidden


@pytest.mark.process
def test_a_status_line_is_replaced_and_leaves_nothing_behind(plain):
    script = """
from cudalab.cli.live import status_line
with status_line() as show:
    for word in ("first " * 30, "second"):
        show(f"now: {word}")
        show("")
        print(f"found: {word[:6]}", flush=True)
    show("now: \\x1b[2J")
"""
    watched = Watched([sys.executable, "-c", script], columns=40, rows=10)
    assert watched.until() == 0
    assert watched.frames[-1] == "found: first\nfound: second"
    assert b"now: first" in watched.raw
    assert rb"now: \x1b[2J" in watched.raw
    assert not watched.screen.cursor.hidden


@pytest.mark.process
@pytest.mark.wall
@pytest.mark.sweep
def test_a_terminal_that_is_resized(bench, plain):
    watched = Watched(bench, columns=140, rows=30)
    watched.until("[1/2] twice")
    fcntl.ioctl(watched.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 12, 40, 0, 0))
    watched.screen.resize(12, 40)
    os.killpg(watched.child.pid, signal.SIGWINCH)
    assert watched.until() == 0
    assert "[2/2]" not in watched.frames[-1]


@pytest.mark.sweep
@pytest.mark.parametrize("variables", [{"TERM": "dumb"}, {"CI": "true"}])
def test_a_terminal_that_is_a_log_gets_lines(bench, plain, variables):
    for name, value in variables.items():
        plain.setenv(name, value)
    watched = Watched([*bench, "--sizes", "small"])
    assert watched.until() == 0
    assert re.search(rb"^\[1/1\] twice small float32: all 2 right; .*numpy \S+ \S+s, took", watched.raw, re.MULTILINE)
    text = re.sub(rb"\x1b\[[0-9;]*m", b"", watched.raw) if "CI" in variables else watched.raw  # colours are welcome
    assert b"\x1b" not in text


@pytest.mark.process
@pytest.mark.wall
@pytest.mark.sweep
def test_a_pipe_gets_lines_and_quiet_means_nothing(bench, plain):
    done = subprocess.run([*bench, "--format", "csv"], capture_output=True, text=True, check=True)
    assert "\x1b" not in done.stdout + done.stderr
    said = done.stderr.splitlines()
    assert f"measuring {bench[4]}" in said
    assert "as the spec is imported" in said
    first = next(line for line in said if line.startswith("[1/2]"))
    assert re.fullmatch(r"\[1/2\] twice small float32: all 2 right; .*numpy \S+ µs, (under )?\d+ s left", first)
    assert re.fullmatch(r"\[2/2\] twice large float32: all 2 right; .*numpy \S+ µs, took \d+ s", said[-2])
    assert re.fullmatch(r"for the same inputs: --seed \d+", said[-1])
    lines = done.stdout.splitlines()
    assert lines[0].startswith("kernel,size,dtype")
    assert all(line.startswith("twice,") for line in lines[1:])
    plain.setenv("CUDALAB_QUIET", "1")
    done = subprocess.run([*bench, "--sizes", "small"], capture_output=True, text=True, check=True)
    assert set(done.stderr.splitlines()) == {"as the spec is imported", "the spec says hello"}
    assert "numpy" in done.stdout


# ---- the picture -------------------------------------------------------------------------------------------------


def progress(label="numpy", phase="check", **more):
    seen = {"host:gelu_scalar": Glimpse("ok", 9305.0, 0.0022), "host:gelu_vec": Glimpse("WRONG", None)}
    return Progress(Step("gelu large float32", phase, label), 2, 6, 72.4, 130.0, LABELS, seen, **more)


def test_the_picture_and_the_line_of_a_finished_group():
    lines = [text for text, _ in live.picture(progress(), ["gelu small float32: fastest numpy 812 µs"], 80, 24)]
    assert lines == [
        "gelu small float32: fastest numpy 812 µs",
        "[3/6] gelu large float32: checking   1:12, 2 min left",
        "    host:gelu_scalar  right, 9305 ULP   first 2,200 µs",
        "    host:gelu_vec     WRONG",
        "  > numpy             checking",
        *(f"    {label:16}  waiting" for label in LABELS[3:]),
    ]
    rows = [case("torch_native", seconds=8e-4), case("torch_eager", seconds=16e-4)]
    said = live.summary(group(*rows, *(case(f"host:gelu_{i}") for i in range(6))), short=True)
    assert said == "gelu small float32: 8 right; torch_native 800 µs"
    event = Progress(Step("a\x1b[2Jb", "check", "c\nd"), 0, 1, labels=("c\nd",))
    for text, _ in live.picture(event, [], 80, 24):
        assert text.isprintable()


@pytest.mark.parametrize(
    ("event", "head"),
    [
        (progress(process=2, processes=3), "[3/6] gelu large float32, process 2 of 3: checking   1:12, 2 min left"),
        (Progress(Step("", "start"), elapsed=3.0), "starting   0:03"),
        (Progress(Step("worker", "loading libraries"), elapsed=3.0), "starting: loading libraries   0:03"),
        (Progress(Step("gelu small float32", "compile"), elapsed=3.0, groups=2),
         "[1/2] gelu small float32: compiling   0:03"),
    ],
)  # fmt: skip
def test_the_first_line_of_the_picture_says_what_is_done(event, head):
    assert live.picture(event, [], 80, 24)[0][0] == head


@pytest.mark.parametrize("width", [20, 40, 80, 140])
@pytest.mark.parametrize("height", [2, 3, 5, 10, 24])
@pytest.mark.parametrize("label", ["", LABELS[0], LABELS[3], LABELS[-1]])
def test_the_picture_fits(width, height, label):
    done = [f"group {i}: {'x' * 90}" for i in range(9)]
    lines = [text for text, _ in live.picture(progress(label), done, width, height)]
    assert 1 <= len(lines) < height
    assert max(map(len, lines)) <= width - live.MARGIN
    if width >= 40 and height >= 5:
        assert any(line.startswith("[3/6] gelu large") for line in lines)
        assert not label or any(line.startswith(f"  > {label}") for line in lines)
    if (width, height) == (40, 10):
        assert not any("group" in line for line in lines)
    if (width, height) == (80, 5):
        assert re.search(r"and \d more", lines[-1])


def test_durations_and_characters(plain):
    seconds = {0.2: "under 1 s", 41.2: "41 s", 59.7: "1 min", 150: "2 min", 3600: "1 h 0 min", 4800: "1 h 20 min"}
    assert {one: numbers.duration(one) for one in seconds} == seconds
    drawn = [terminal.draws(Stream(*of)) for of in ((True,), (False,), (False, "ascii"), (False, None))]
    assert drawn == [True, True, False, False]
    plain.setenv("TERM", "linux")
    assert not terminal.draws(Stream(True))
    assert terminal.encodable("5 µs █", Stream(False, "ascii")) == "5 us \\u2588"
    assert terminal.encodable("5 µs █", Stream(False)) == "5 µs █"


# ---- lines in a log ----------------------------------------------------------------------------------------------


def group(*cases, timed=True, done=1, groups=9):
    options = {"modes": "launch"} if timed else {}
    run = Results("cudalab-results", 2, "2026-01-01", options, Machine("cpu", "CPU"), cases=list(cases))
    return Progress(Step("gelu small float32", "finished"), done, groups, 10.0, 41.0, finished=run)


def case(label, status="ok", seconds=0.0):
    backend, _, variant = label.partition(":")
    times = {"wall": [[seconds * (1 + i / 1000)] * 3 for i in range(12)]} if seconds else {}
    parity = Parity(ok=status == "ok", n=4)
    return Case("gelu", "small", (4,), "float32", backend, variant, status, "why", parity, times=times)


def test_a_line_for_each_timed_group():
    said = []
    log = live.Log(said.append, clock=lambda: 0.0)
    log(Progress(Step("gelu small float32", "check", "numpy")))
    log(group(case("numpy", seconds=8e-4), case("torch_eager", seconds=16e-4), case("host:gelu_vec", "WRONG")))
    log(group(case("host:gelu_full", "error"), done=9))
    log(group(case("host:gelu_full", "error"), done=9))
    log(group(done=9))
    assert said == [
        "[1/9] gelu small float32: 1 WRONG (host:gelu_vec), 2 right; fastest library: numpy 800 µs, 2.00 times as fast "
        "as torch_eager 1,610 µs (1.96 to 2.04, FASTER), 41 s left",
        "  WRONG host:gelu_vec: why",
        "[9/9] gelu small float32: 1 error (host:gelu_full), 0 right, took 10 s",
        "  error host:gelu_full: why",
        "[9/9] gelu small float32: 1 error (host:gelu_full), 0 right, took 10 s",
        "[9/9] gelu small float32: no variant runs here, took 10 s",
    ]


@pytest.mark.parametrize(
    ("label", "bad", "count", "seconds", "lines"),
    [
        ("numpy", {4: "WRONG"}, 9, 0.5, ["[1/9]", "[4/9]", "", "[8/9]", "[9/9]"]),
        ("host:gelu_vec", dict.fromkeys(range(1, 20), "error"), 19, 0.01, ["[1/19]", "", "[19/19]"]),
    ],
    ids=["right groups", "one fault at all shapes"],
)
def test_groups_that_were_only_checked_do_not_flood_a_log(label, bad, count, seconds, lines):
    said, now = [], [0.0]
    log = live.Log(said.append, clock=lambda: now[0])
    for i in range(1, count + 1):
        log(group(case(label, bad.get(i, "ok")), timed=False, done=i, groups=count))
        now[0] += seconds
    assert [line.split(" ")[0] for line in said] == lines


# ---- the time left -----------------------------------------------------------------------------------------------


def test_the_time_left_follows_what_was_finished_and_a_guess_the_work():
    now = [100.0]
    pace = Pace([1.0, 1.0, 4.0], clock=lambda: now[0])
    assert pace.left() is None
    now[0] += 3
    assert pace.left() is None
    pace.reach(1)
    assert pace.left() == 15  # three times as slow as guessed
    now[0] += 2
    pace.reach(1)  # told again
    assert pace.left() == 13
    now[0] += 5
    assert pace.left() == 12  # late; but the one after it is not
    pace.reach(2)
    assert pace.left() == pytest.approx(20)
    now[0] += 30
    pace.reach(3)
    assert pace.left() == 0
    kernel = find.kernels()["gelu"]
    small, large = (Group(kernel, "s", (n,), dtype.dtype("float32")) for n in (10, 10**9))
    assert guess(large, 3, 0.0) > 100 * guess(small, 3, 0.0)
    assert guess(small, 6, 1.0) == pytest.approx(2 * guess(small, 3, 1.0))


# ---- from Python -------------------------------------------------------------------------------------------------


@pytest.mark.sweep
def test_python_code_is_told_how_far_a_run_is(bench):
    events = []
    cudalab.bench(bench[4], sizes="small,large", only="numpy,host", device="cpu", budget=0.01, progress=events.append)
    assert [e.done for e in events] == sorted(e.done for e in events)
    assert {e.groups for e in events} == {2}
    finished = [e for e in events if e.finished]
    assert [(e.done, e.step.phase, len(e.finished.cases)) for e in finished] == [(1, "finished", 2), (2, "finished", 2)]
    assert "twice small float32: inputs" in map(str, events)
    assert finished[0].labels == ("host:twice", "numpy")
    assert finished[0].left > 0
    assert finished[1].left == 0
    seen = finished[1].glimpses["numpy"]
    assert seen.status == "ok"
    assert 0 < seen.seconds < 1
    assert finished[1].glimpses["host:twice"].seconds == 0


def test_glimpses_and_what_is_torn():
    board = os.memfd_create("test")
    assert messages.read_glimpses(board) == {}
    many = {f"label {i}": Glimpse("ok", 0.5, 1e-6) for i in range(100)}
    messages.write_glimpses(board, many)
    messages.write_board(board, 1, Step("g", "p" * 100))
    assert messages.read_glimpses(board) == many
    messages.write_glimpses(board, {"a": Glimpse("WRONG", None)})
    assert messages.read_glimpses(board) == {"a": Glimpse("WRONG", None)}
    os.pwrite(board, b'{"a":{"sta","b', messages.BOARD)
    assert messages.read_glimpses(board) == {}
    os.close(board)


# ---- colours and characters --------------------------------------------------------------------------------------


class Stream(io.StringIO):
    def __init__(self, tty, encoding="utf-8"):
        super().__init__()
        self.tty, self.named = tty, encoding

    def isatty(self):
        return self.tty

    @property
    def encoding(self):
        return self.named


@pytest.mark.parametrize(("tty", "variables", "colored", "lives"), tables.table("terminal", "streams", literal_eval))
def test_colours_and_lines_that_can_be_written_over(plain, tty, variables, colored, lives):
    for name, value in variables.items():
        plain.setenv(name, value)
    assert terminal.colored(Stream(tty)) is colored
    assert terminal.live(Stream(tty)) is lives


@pytest.mark.process
def test_an_encoding_without_micro_is_no_reason_to_fail(plain, tmp_path):
    path = tmp_path / "r.json"
    group(case("numpy", seconds=8e-4)).finished.save(path)
    plain.setenv("PYTHONIOENCODING", "ascii")
    command = [sys.executable, "-m", "cudalab", "show", "--plots", str(path)]
    done = subprocess.run(command, capture_output=True, check=True)
    assert b"variant ULP   us" in done.stdout
    assert b"|" in done.stdout
    plain.setenv("FORCE_COLOR", "1")
    assert b"\x1b[1m" in subprocess.run(command, capture_output=True, check=True).stdout


@pytest.mark.process
def test_an_error_is_cut_between_words_on_a_terminal_and_is_one_line_in_a_pipe(plain):
    command = [sys.executable, "-m", "cudalab", "check", "no_such_kernel"]
    watched = Watched(command, columns=60)
    assert watched.until() == 2
    lines = watched.frames[-1].splitlines()
    env = dict(os.environ)  # readline, which pytest loads, sets COLUMNS behind Python's back
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert len(done.stderr.splitlines()) == 1 and len(done.stderr) > 120
    assert " ".join(lines) == done.stderr.strip() and max(map(len, lines)) <= 60  # no word is cut


@pytest.mark.parametrize(("columns", "indent"), [(80, 34), (64, 34), (63, 4), (40, 4), (20, 4)])
def test_a_text_beside_a_name_is_indented_where_there_is_room(monkeypatch, columns, indent):
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = terminal.wrapped(f"{'NVML':34}{'word ' * 40}", 34).splitlines()
    assert max(map(len, lines)) <= max(columns, terminal.ROOM) and len(lines) > 1
    assert all(line.startswith(" " * indent + "word") for line in lines[1:])


@pytest.mark.parametrize(("columns", "shown"), tables.table("terminal", "a command to copy"))
def test_a_command_to_copy_is_in_one_piece(monkeypatch, capsys, columns, shown):
    monkeypatch.setenv("COLUMNS", columns)
    with pytest.raises(SystemExit) as stop:
        terminal.stopped("stopped after 1 of 3 groups; continue with:", "cudalab bench gelu --resume a_long_name.json")
    assert stop.value.code == 130
    assert capsys.readouterr().err == shown


def test_a_run_of_the_whole_lab_says_so_once_a_device_is_open_and_how_to_name_a_kernel():
    said = []
    with Context(main.get_command(Context(main), "check"), info_name="check"):
        log = live.Log(said.append, begins=measure._what_begins((), ""))
    log(Progress(Step(WORKER, "start")))
    assert not said  # the device may not open
    for _ in range(2):
        log(Progress(Step("", "start")))
    assert said == [f"checking all {len(find.kernels())} kernels of the lab: minutes; for one: cudalab check gelu"]
