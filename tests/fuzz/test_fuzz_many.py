"""A tenth of 20,000 inputs: results files, command lines, specs and pages. None may end in a traceback, a hang, much
memory, a control sequence or an empty message.

CUDALAB_FUZZ_TIMES=1 tries all of them (`make test-all` does), CUDALAB_FUZZ_SEED others.
"""

from __future__ import annotations

import csv
import io
import re
import string

import click
import mutations
import pytest
from click.testing import CliRunner
from fuzzing import said_clearly
from mutations import Bounded, anything, attempt, bytewise, checked_page, clean, mutated, text, wild

from cudalab import report
from cudalab.base import child
from cudalab.base.errors import CudalabError, InputError, Unavailable
from cudalab.cli import main
from cudalab.device import cpu
from cudalab.engine import session
from cudalab.engine.selection import Selection
from cudalab.report import comparison
from cudalab.report.html import page
from cudalab.report.results import Results
from cudalab.results import compare, formats
from cudalab.results.file import load
from cudalab.spec.kernel import Budget, Kernel
from cudalab.spec.launch import Launch

COUNTS = {
    "results files, bytewise": 4_500, "results files, mutated": 4_000, "results files, wild": 1_700, "pages": 1_100,
    "command lines, terminal False": 3_000, "command lines, terminal True": 3_000, "specs": 3_100,
}  # fmt: skip
PARTS = 5  # of the command lines, which take minutes


@pytest.fixture(scope="module", autouse=True)
def _memory():
    with Bounded():
        yield


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("many") / "r.json"


def read(path, data, good=False):
    """The run in a file with these bytes, or None where a clear message refuses it,
    which is never one that is `good`."""
    path.write_bytes(data)
    try:
        return load(path)
    except InputError as error:
        assert str(path) in said_clearly(error, data)
        assert not good, error
        return None


def shown(run, rng):
    """Show a run in one format and width."""
    format, width = rng.choice(["table", "markdown", "csv", "json"]), rng.choice([None, 1, 40, 80])
    said = report.render(run, format, width, False, rng.random() < 0.5, rng.choice(["", "ascii", "blocks"]))
    clean(said)
    if format == "csv":
        for row in csv.reader(io.StringIO(said)):
            assert not [cell for cell in row if cell[:1] in tuple("=+-@") and not re.fullmatch(r"-[0-9.e+-]+", cell)]
    if format == "markdown":
        assert "<" not in said


def converted(run, rng, path):
    """The run in another format and back."""
    form = rng.choice(formats.FORMATS)
    try:
        data = formats.encoded(run, form)
    except InputError as error:
        assert form == "csv" and not run.cases, said_clearly(error)
        return
    if form in formats.WHOLE:
        assert formats.decoded(data, str(path)) == run
    elif form == "csv":
        assert formats.decoded(data, str(path)).cases == run.cases


@pytest.mark.parametrize("made", [bytewise, mutated, wild])
def test_results_files(path, made):
    earlier = []

    def one(rng, _):
        if (run := read(path, made(rng), made is wild)) is None:
            return
        shown(run, rng)
        converted(run, rng, path)
        if earlier and rng.random() < 0.3:
            found = compare.compare(earlier[-1], run, force=rng.random() < 0.5)
            for format in ("table", "markdown", "json"):
                clean(comparison.render(found, ("a", text(rng)), format, rng.choice([None, 40])))
        earlier[:] = [run]

    group = f"results files, {made.__name__}"
    attempt(group, COUNTS[group], one)


def test_pages(path):
    def one(rng, i):
        timed = not i % 4  # charts take most of the time
        made = [Results.of(read(path, wild(rng, True, timed), True)) for _ in range(rng.choice([1, 1, 2]))]
        files = [(text(rng).replace("\0", "") or "r.json", run) for run in made]
        checked_page(page.render(files))

    attempt("pages", COUNTS["pages"], one)


COMMANDS = {name: main.get_command(click.Context(main), name) for name in main.list_commands(click.Context(main))}
FILES = ["good.json", "other.json", "check.json", "study.json", "bad.json", "cut.json", "empty.json", "good.csv",
         "good.jsonl",
         "folder", "fifo", "/dev/full", "/dev/zero", "/dev/null", "none.json", "a" * 5000, "none/none.json", "", ".",
         "/",
         "out.json", "out.html", "out.svg", "out.csv", "-", "link.json", "loop.json", "readonly/x.json", "mine.py",
         "./mine.py", "mine.cu", "./folder"]  # fmt: skip
WORDS = ["gelu", "add2d", "plus_one", "softmax", "list", "graphs", "checkpoint", "all", "float32",
         "float32,bfloat16", "int32",
         "small", "large", "64K", "2^[10:12]", "pycuda", "torch_*", "host:gelu_*", "*", "cold", "hot,call", "wall",
         "cpu", "auto",
         "cuda", "cuda:7", "0", "1", "-1", "0.5", "nan", "inf", "1e300", "2%", "150%", "bash", "zsh", "table",
         "json", "csv",
         "markdown", "nvbench", "speedup", "bandwidth", "sm_80", "sm_90,sm_00", "A100", "random_sample", "a=b",
         "memory_gib=1",
         "shuffled", "dirty", "launch", "graph"]  # fmt: skip


def codes(command) -> set[int]:
    """The exit codes that a command's help names; 2 is also click's for bad usage."""
    said = re.sub(r"\s+", " ", command.help or "").partition("Exit code: ")[2]
    return {int(code) for code in re.findall(r"\b[0-9]\b", said)} | {0, 2}


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A folder with files of every kind, where no command starts a process or measures."""
    import os

    folder = tmp_path_factory.mktemp("desk")
    runs = dict(zip(("good", "other", "check", "study"), mutations.RUNS))
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
            first = done.output.partition("Error: ")[2].partition("\n")[0]
            assert first.strip(), said

    group = f"command lines, terminal {terminal}"
    attempt(group, COUNTS[group], one, part, PARTS)


def launch(x, y):
    return Launch((1,), (64,), (x, y))


def reference(x):
    return x


GOOD = {
    "summary": "y = x", "dtypes": ("float32", "int32"), "sizes": {"small": (3, 5)}, "edges": ((1,), (0,)),
    "reference": reference, "entries": {"more": launch},
    "budgets": {"float32": Budget(0.5), "int32": Budget(0)}, "pointwise": True,
}  # fmt: skip
FIELDS = sorted(Kernel.__dataclass_fields__)


def odd(rng):
    """A value of any type, as a spec may hold it."""
    kind = rng.randrange(9)
    if kind < 4:
        return anything(rng)
    return rng.choice([
        lambda: 0, lambda x: x, lambda *a, **k: None, lambda s, d, r: {}, reference, launch, print, int, Kernel,
        object(),
        b"x", (), (1,), ((1,),), (None,), ("float32",), ("float32", "float32"), ("complex64",), {"small": (0,)},
        {"small": 5},
        {"small": (-1,)}, {"": (1,)}, {"small": (2**62, 2**62)}, {1: (1,)}, {"more": 5}, {"nothing": launch},
        {"float32": 5},
        {"float32": Budget(0)}, {"A": (1, 2)}, {"A": ()}, {"A": ("x",)}, {"a": (1,)}, {"A": tuple(range(1000))},
        range(3),
        {1, 2}, frozenset(), NotImplemented, ..., 1j, string, slice(None), memoryview(b"x"), bytearray(3),
        (x for x in ()),
    ])  # fmt: skip


def test_specs(tmp_path):
    """Each field of a spec with values of wrong types; a spec that is taken can be planned."""
    (tmp_path / "more.cu").write_text('extern "C" __global__ void more(const float* x, float* y) {}')
    file = str(tmp_path / "more.py")

    def one(rng, i):
        fields = {"file": file, **GOOD, FIELDS[i % len(FIELDS)]: odd(rng)}
        for _ in range(rng.choice([0, 0, 1, 3])):
            fields[rng.choice(FIELDS)] = odd(rng)
        if rng.random() < 0.1:
            del fields[rng.choice(sorted(fields))]
        try:
            kernel = Kernel(**fields)
            kernel.accepts((2, 3))
            Selection.parse("", "")
        except CudalabError as error:
            said_clearly(error, fields)
        except TypeError as error:  # Python's own, for a field that is missing
            assert "missing" in str(error), error
        try:
            Budget(odd(rng), odd(rng), odd(rng))
        except CudalabError as error:
            said_clearly(error)

    attempt("specs", COUNTS["specs"], one)


def test_there_are_enough():
    assert sum(COUNTS.values()) >= 20_000
