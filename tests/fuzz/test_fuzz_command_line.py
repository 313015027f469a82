"""Any text in any option: a list of sizes or a clear error, never a traceback, a hang or an allocation."""

from __future__ import annotations

import math
import re
import tempfile

import pytest
from click.testing import CliRunner
from fuzzing import ODD, at_most, damaged, more, said_clearly, texts
from hypothesis import example, given
from hypothesis import strategies as st

from cudalab import backends, run_study
from cudalab.base.errors import CudalabError
from cudalab.cli import main
from cudalab.device import cpu
from cudalab.device.open import open_device
from cudalab.engine import plan, runs, session
from cudalab.engine.selection import Selection
from cudalab.results import record
from cudalab.results.record import Machine, Results
from cudalab.spec.sizes import MAX_ELEMENTS, MAX_SIZES, parse

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
            shapes = parse(text, NAMED)
        except CudalabError as error:
            said_clearly(error)
            return
    assert 1 <= len(shapes) <= MAX_SIZES
    for label, shape in shapes.items():
        assert label.isascii()
        assert all(isinstance(n, int) and n >= 1 for n in shape)
        assert 1 <= math.prod(shape) <= MAX_ELEMENTS
        assert len(shape) <= 32  # what NumPy 1 can hold
        assert parse(label, NAMED) == {label: shape}


def without_cases(run, *_):
    """The results of a session that measures nothing."""
    return Results(record.FORMAT, record.VERSION, "2026-01-01T00:00:00+00:00", run.options, Machine("cpu", "none"))


@pytest.fixture(scope="module")
def without_measuring():
    """The real command line, up to the start of a worker."""

    def nothing(self, *_):
        open_device(self.setup.device)  # what the worker does first
        return without_cases(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session.Session, "_measured", nothing)
        patch.setattr(cpu, "cpu_name", lambda: "none")
        yield


def answer(*args):
    """(exit code, all output) of one command; fails if the output is not a message."""
    with at_most(5):
        run = CliRunner().invoke(main, args)
    assert run.exception is None or isinstance(run.exception, SystemExit), repr(run.exception)
    assert run.exit_code in (0, 1, 2)
    assert "Traceback" not in run.output
    if run.exit_code:
        assert "Error" in run.output
        assert len(run.output) < 4000 + 4 * len(repr(args))
    return run.exit_code, run.output


words = [
    "all", "float32", "bfloat16", "int32", ",", "pycuda", "host:gelu_*", "torch_*", "*", "?", "[a-z]*", ":", "launch",
    "graph", "cuda:0", "cpu", "auto", "0", "1.5", "1_000", "-1", "1e300",
]  # fmt: skip
option_texts = st.one_of(texts, st.lists(st.sampled_from([*words, *ODD[:12]]), max_size=6).map("".join))
OPTIONS = ["sizes", "dtypes", "only", "skip", "modes", "device", "budget", "seed", "timeout", "order", "cross-check",
           "format"]  # fmt: skip
STUDY_OPTIONS = ["sizes", "set", "only", "skip", "device", "budget", "seed", "timeout", "format", "resume"]


@pytest.mark.usefixtures("without_measuring")
class TestOptions:
    @more(10)
    @given(st.lists(st.tuples(st.sampled_from(OPTIONS), option_texts), min_size=1, max_size=3))
    @example([("seed", "9" * 5000)])
    @example([("only", "[" * 2000)])
    @example([("only", "*a" * 2000)])
    @example([("dtypes", "f" * 100_000)])
    @example([("sizes", "small\x1b[31m")])
    @example([("timeout", "inf")])
    @example([("device", "cuda:" + "9" * 5000)])
    def test_bench(self, given_options):
        answer("bench", "gelu", *(f"--{name}={text}" for name, text in given_options))

    @more(4)
    @given(st.lists(option_texts, min_size=1, max_size=3))
    @example(["./\0.py"])
    @example(["/"])
    @example(["./"])
    @example(["./" + "a" * 5000])
    @example(["./\ud800.py"])
    @example(["a" * 5000])
    def test_names_of_kernels(self, names):
        answer("check", "--", *names)

    @more(4)
    @given(st.lists(st.tuples(st.sampled_from(STUDY_OPTIONS), option_texts), min_size=1, max_size=3))
    @example([("set", "=")])
    @example([("set", "memory_gib=" + "9" * 5000)])
    @example([("set", "memory_gib=nan")])
    @example([("sizes", "t" * 100_000)])
    def test_study(self, given_options):
        answer("study", "checkpoint", *(f"--{name}={text}" for name, text in given_options))

    @more(2)
    @given(option_texts, st.sampled_from([(), ("list",)]))
    @example("./\0.py", ())
    @example("/", ())
    @example("./" + "a" * 5000, ("list",))
    @example("./\ud800.py", ())
    def test_names_of_studies(self, name, before):
        answer("study", *before, "--", name)

    @more(4)
    @given(texts, st.sampled_from(["-o", "--resume", "show"]))
    @example("\0", "-o")
    @example("\0", "show")
    @example("\ud800", "show")
    @example("\ud800", "-o")
    @example("a" * 5000, "-o")
    def test_names_of_files(self, text, how):
        with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            command = ("show", "--", text) if how == "show" else ("bench", "gelu", how, text)
            answer(*command)

    @more(2)
    @given(option_texts)
    def test_the_same_texts_from_python(self, text):
        for name in ("sizes", "dtypes", "only", "skip", "modes", "device"):
            try:
                runs.bench("gelu", **{name: text})
            except CudalabError as error:
                said_clearly(error, text)


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
