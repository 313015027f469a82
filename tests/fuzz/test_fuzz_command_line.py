"""Any text in any option: what it says, or a clear error; never a traceback, a hang or an allocation.

A tenth of the command lines; CUDALAB_FUZZ_TIMES=1 tries all of them (`make test-all` does), CUDALAB_FUZZ_SEED others.
"""

from __future__ import annotations

import math
import os
import re

import click
import pytest
from click.testing import CliRunner
from fuzzing import ODD, at_most, damaged, more, said_clearly, texts
from hypothesis import example, given
from hypothesis import strategies as st
from mutations import RUNS, attempt, bounded, clean, text

from cudalab import backends, run_study
from cudalab.base import child
from cudalab.base.errors import CudalabError, Unavailable
from cudalab.cli import main
from cudalab.device import cpu
from cudalab.engine import plan, runs, session
from cudalab.engine.selection import Selection
from cudalab.results import formats, record
from cudalab.results.record import Machine, Results
from cudalab.spec.sizes import MAX_ELEMENTS, MAX_SIZES, parse

COUNT = 3_000  # command lines, with a terminal and without
PARTS = 5  # of them, which take minutes


@pytest.fixture(scope="module", autouse=True)
def _memory():
    with bounded():
        yield


NAMED = {"small": (1, 3, 224, 224), "xlarge": (1024, 3, 224, 224)}
SIZES = "small,64K,1Mi,2^20,4096x4096,2^[10:24:2],[1:9]x3"
ALPHABET = st.text("0123456789^x[]:,kMGi smalr-.*", max_size=24)
numbers = st.integers(0, 10**19)
terms = st.one_of(
    st.builds("{}^{}".format, numbers, numbers),
    st.builds("[{}:{}:{}]".format, numbers, numbers, numbers),
    st.builds("{}^[{}:{}]".format, numbers, numbers, numbers),
    st.builds("{}{}".format, numbers, st.sampled_from(["", "K", "Mi", "g", "T"])),
)
expressions = st.lists(st.lists(terms, min_size=1, max_size=40).map("x".join), min_size=1, max_size=4).map(",".join)
pieces = re.findall(r"\w+|\W", SIZES)
size_texts = st.one_of(ALPHABET, texts, damaged(SIZES, pieces), expressions)


@more(20)
@given(size_texts)
@example("1000^200")
@example("999999^999")
@example("x".join(["999999999999999999"] * 40))
@example("1x" * 100 + "1")
@example("\u0663")
@example("2^[0:1000000000]")
@example("[1:100000000000000000]x[1:100000000000000000]")
@example("1," * 50_000 + "1")
@example("[," * 50_000)
@example("x" * 50_000)
def test_sizes(text):
    with at_most(2):
        try:
            sizes = parse(text, NAMED)
        except CudalabError as error:
            said_clearly(error)
            return
    assert 1 <= len(sizes) <= MAX_SIZES
    for label, size in sizes.items():
        assert label.isascii()
        assert all(isinstance(n, int) and n >= 1 for n in size.shape)
        assert 1 <= math.prod(size.shape) <= MAX_ELEMENTS
        assert len(size.shape) <= 32  # what NumPy 1 can hold
        assert parse(label, NAMED) == {label: size}


def without_cases(run, *_):
    """The results of a session that measures nothing."""
    return Results(record.FORMAT, record.VERSION, "2026-01-01T00:00:00+00:00", run.options, Machine("cpu", "none"))


COMMANDS = {name: main.get_command(click.Context(main), name) for name in main.list_commands(click.Context(main))}
FILES = [
    "good.json", "other.json", "check.json", "study.json", "bad.json", "cut.json", "empty.json", "good.csv",
    "good.jsonl", "folder", "fifo", "/dev/full", "/dev/zero", "/dev/null", "none.json", "a" * 5000, "none/none.json",
    "", ".", "/", "out.json", "out.html", "out.svg", "out.csv", "-", "link.json", "loop.json", "readonly/x.json",
    "mine.py", "./mine.py", "mine.cu", "./folder",
]  # fmt: skip
WORDS = [
    "gelu", "add2d", "plus_one", "softmax", "list", "graphs", "checkpoint", "all", "float32", "float32,bfloat16",
    "int32", "small", "large", "64K", "2^[10:12]", "pycuda", "torch_*", "host:gelu_*", "*", "cold", "hot,call", "wall",
    "cpu", "auto", "cuda", "cuda:7", "0", "1", "-1", "0.5", "nan", "inf", "1e300", "2%", "150%", "bash", "zsh", "table",
    "json", "csv", "markdown", "nvbench", "speedup", "bandwidth", "sm_80", "sm_90,sm_00", "A100", "random_sample",
    "a=b", "memory_gib=1", "shuffled", "dirty", "launch", "graph",
]  # fmt: skip


def codes(command) -> set[int]:
    """The exit codes that a command's help names; 2 is also click's for bad usage."""
    said = re.sub(r"\s+", " ", command.help or "").partition("Exit code: ")[2]
    return {int(code) for code in re.findall(r"\b[0-9]\b", said)} | {0, 2}


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A folder with files of every kind, where no command starts a process or measures."""
    folder = tmp_path_factory.mktemp("desk")
    runs = dict(zip(("good", "other", "check", "study"), RUNS))
    for name, run in runs.items():
        run.save(folder / f"{name}.json")
    good = (folder / "good.json").read_bytes()
    (folder / "bad.json").write_text("{}")
    (folder / "cut.json").write_bytes(good[: len(good) // 2])
    (folder / "empty.json").write_text("")
    (folder / "good.csv").write_bytes(formats.encoded(runs["good"], "csv"))
    (folder / "good.jsonl").write_bytes(formats.encoded(runs["good"], "jsonl"))
    (folder / "folder").mkdir()
    os.mkfifo(folder / "fifo")
    (folder / "link.json").symlink_to("good.json")
    (folder / "loop.json").symlink_to("loop.json")
    (folder / "mine.py").write_text("raise SystemExit(3)")
    (folder / "mine.cu").write_text("__global__ void mine(")

    def nobody(*_, **__):
        raise Unavailable("no process in this test")

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(child.subprocess, "Popen", nobody)
        patch.setattr(session, "Team", nobody)
        patch.setattr(cpu, "cpu_name", lambda: "none")
        patch.setenv("NO_COLOR", "1")
        yield folder


def value(rng, option) -> str:
    if isinstance(option.type, click.Choice) and rng.random() < 0.8:
        return rng.choice(option.type.choices)
    kind = rng.random()
    if kind < 0.45:
        return rng.choice(WORDS)
    if kind < 0.55:
        return "".join(rng.choices([*WORDS, ","], k=rng.randrange(6)))
    return rng.choice(FILES) if kind < 0.75 else text(rng)


def line(rng, name: str) -> list[str]:
    """A command line: options of the command, and a few that it may not have."""
    command, words = COMMANDS[name], [name]
    options = [p for p in command.params if isinstance(p, click.Option)]
    for option in rng.sample(options, min(len(options), rng.choice([0, 1, 1, 2, 4]))):
        flag = rng.choice([*option.opts, *option.secondary_opts])
        if option.is_flag:
            words.append(flag)
        else:
            words += [f"{flag}={value(rng, option)}"] if flag.startswith("--") else [flag, value(rng, option)]
    if rng.random() < 0.05:
        words.append(rng.choice(["--", "--nothing", "-x", "--help", "-h", "--version", text(rng)]))
    for argument in (p for p in command.params if isinstance(p, click.Argument)):
        for _ in range(rng.choice([0, 1, 1, 1, 1, 1, 1, 2])):
            words.append(rng.choice(FILES[:10] if rng.random() < 0.6 and "file" in argument.human_readable_name.lower()
                                    else FILES + WORDS[:7]))  # fmt: skip
    return words


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("terminal", [False, True])
def test_command_lines(desk, monkeypatch, terminal, part):
    monkeypatch.setattr(click.testing._NamedTextIOWrapper, "isatty", lambda self: terminal, raising=False)
    monkeypatch.setenv("TERM", "xterm" if terminal else "dumb")
    monkeypatch.setenv("CI", "1")  # no progress, whose lines are redrawn by control sequences
    runner = CliRunner()

    def one(rng, i):
        (desk / "out.json").unlink(missing_ok=True)
        name = sorted(COMMANDS)[i % len(COMMANDS)]
        if name in ("doctor", "selftest") and i % 7:  # they take few options (7: not all in one part)
            name = ("show", "compare", "convert", "report")[i % 4]
        words = line(rng, name)
        done = runner.invoke(main, words)
        said = f"{words}: {done.output[-2000:]}"
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise AssertionError(words) from done.exception
        assert done.exit_code in codes(COMMANDS[name]), said
        assert "Traceback" not in done.output, said
        if terminal or name != "convert":  # the bytes of a file, where they do not go to a terminal
            clean(done.output, "\n\t" if name == "completion" else "\n", said)
        if done.exit_code == 2:
            assert re.search(r"(Error|not recorded): *\S", done.output), said

    attempt(f"command lines, terminal {terminal}", COUNT, one, part, PARTS)


FOUND = [  # command lines that once ended in a traceback, or took long
    *(["bench", "gelu", option] for option in (
        f"--seed={'9' * 5000}", f"--only={'[' * 2000}", f"--only={'*a' * 2000}", f"--dtypes={'f' * 100_000}",
        "--sizes=small\x1b[31m", "--timeout=inf", f"--device=cuda:{'9' * 5000}")),
    *(["check", "--", name] for name in ("./\0.py", "/", "./", "./" + "a" * 5000, "./\ud800.py", "a" * 5000)),
    *(["study", "checkpoint", option] for option in (
        "--set==", f"--set=memory_gib={'9' * 5000}", "--set=memory_gib=nan", f"--sizes={'t' * 100_000}")),
    *(["study", "--", name] for name in ("./\0.py", "/", "./\ud800.py")), ["study", "list", "--", "./" + "a" * 5000],
    *(["show", "--", name] for name in ("\0", "\ud800")),
    *(["bench", "gelu", "-o", name] for name in ("\0", "\ud800", "a" * 5000)),
]  # fmt: skip


@pytest.mark.parametrize("words", FOUND, ids=lambda words: f"{' '.join(words)[:40]!r}")
def test_command_lines_that_once_failed(desk, monkeypatch, words):
    monkeypatch.setattr(session.Session, "_measured", without_cases)
    with at_most(5):
        done = CliRunner().invoke(main, words)
    assert done.exception is None or isinstance(done.exception, SystemExit), repr(done.exception)
    assert done.exit_code in (0, 1, 2)
    assert "Traceback" not in done.output
    assert not done.exit_code or ("Error" in done.output and len(done.output) < 4000 + 4 * len(repr(words)))


words = [
    "all", "float32", "bfloat16", "int32", ",", "pycuda", "host:gelu_*", "torch_*", "*", "?", "[a-z]*", ":", "launch",
    "graph", "cuda:0", "cpu", "auto", "0", "1.5", "1_000", "-1", "1e300",
]  # fmt: skip
option_texts = st.one_of(texts, st.lists(st.sampled_from([*words, *ODD[:12]]), max_size=6).map("".join))


@more(4)
@given(st.sampled_from(["sizes", "dtypes", "only", "skip", "modes", "device", "seed", "budget", "timeout"]),
       st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), texts, st.lists(texts, max_size=3),
                 st.binary(max_size=5), st.dictionaries(texts, texts, max_size=2)))  # fmt: skip
def test_values_of_any_type_from_python(name, value):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session.Session, "_measured", without_cases)
        try:
            runs.bench("gelu", **{name: value})
        except CudalabError as error:
            said_clearly(error, value)
        if name not in ("dtypes", "modes"):
            try:
                run_study("graphs", **{name: value})
            except CudalabError as error:
                said_clearly(error, value)


@more(4)
@given(option_texts, option_texts)
def test_selections_hold_what_they_say(only, skip):
    try:
        chosen = Selection.parse(only, skip)
    except CudalabError as error:
        said_clearly(error, (only, skip))
        return
    group = plan.groups(["gelu"], "small", "")[0]
    every = {v.label for v in Selection().variants(group)}
    assert {v.label for v in chosen.variants(group)} <= every
    assert all(name in backends.by_name() for name in {label.partition(":")[0] for label in every})
