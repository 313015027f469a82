"""Results files with anything in them: read and shown, or refused by name; and a file on disk is never lost."""

from __future__ import annotations

import copy
import json
import os
import re
import unicodedata
from math import inf, isfinite

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner
from fuzzing import at_most, damaged, more, of_study, said_clearly, texts, whole
from hypothesis import example, given
from hypothesis import strategies as st

import cudalab
from cudalab import report
from cudalab.base.errors import InputError, Unavailable
from cudalab.base.text import visible
from cudalab.checks.parity import compare
from cudalab.cli import main
from cudalab.cli.options import FORMATS
from cudalab.engine import resume, session
from cudalab.report import markdown
from cudalab.report.results import Results
from cudalab.results import formats, salvage
from cudalab.spec.dtype import dtype
from cudalab.spec.kernel import Budget

WHOLE = [whole(), whole("cpu"), whole("cpu", timed=False), of_study(), of_study("another")]
TREES = [json.loads(run.to_json()) for run in WHOLE]
NUMBERS = [0, -1, 1, 1e-300, 5e-324, 1e300, 1e-12, 1e12, 2**63, 2**64, 10**30, 10**400, -(10**30), 0.5, True, None]
junk = st.one_of(texts, st.sampled_from(NUMBERS), st.sampled_from([[], {}, [[]], {"": []}, [None], "ok", "WRONG"]),
                 st.recursive(st.none() | st.integers() | texts, lambda inner: st.lists(inner, max_size=3)
                              | st.dictionaries(texts, inner, max_size=3), max_leaves=6))  # fmt: skip


def places(tree, path=()):
    """Paths of everything in nested dicts and lists."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from places(value, (*path, key))


PLACES = [list(places(tree)) for tree in TREES]


@st.composite
def altered(draw):
    """The JSON of a run in which a few values are replaced, missing or doubled."""
    which = draw(st.integers(0, len(TREES) - 1))
    tree = copy.deepcopy(TREES[which])
    for path in draw(st.lists(st.sampled_from(PLACES[which]), min_size=1, max_size=3)):
        at = tree
        try:
            for key in path[:-1]:
                at = at[key]
            how = draw(st.sampled_from(["replace", "replace", "replace", "same kind", "delete", "add"]))
            if how == "delete":
                del at[path[-1]]
            elif how == "add" and isinstance(at, list):
                at.insert(path[-1], draw(junk))
            elif how == "add":
                at[draw(texts)] = draw(junk)
            else:
                value = at[path[-1]]
                number = isinstance(value, (int, float)) and not isinstance(value, bool)
                kind = st.sampled_from(NUMBERS[:-2]) if number else texts if isinstance(value, str) else junk
                at[path[-1]] = draw(kind if how == "same kind" else junk)
        except (KeyError, IndexError, TypeError):  # an earlier change has taken that place away
            continue
    return json.dumps(tree).encode()


@st.composite
def bytes_of_it(draw, forms=("json",)):
    """The bytes of a run, cut anywhere, with a few changed."""
    data = bytearray(formats.encoded(draw(st.sampled_from(WHOLE)), draw(st.sampled_from(forms))))
    if draw(st.booleans()):
        del data[draw(st.integers(0, len(data))) :]
    for at, byte in draw(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=3)):
        if data:
            data[at % len(data)] = byte
    return bytes(data)


ODD_FILES = [
    b"", b"\0" * 100, b"\xff\xfe", b"NaN", b"null", b"true", b"5", b'""', b"[]", b"{}", b"[" * 100_000,
    b'{"a":' * 100_000, b'{"format": "cudalab-results", "version": 1}',
    b'{"format": "cudalab-results", "version": 1e999}',
    b'{"format": "cudalab-results", "version": [[]]}', b'{"format": "cudalab-results", "version": "1"}',
    b'{"format": "cudalab-results", "version": 1, "x": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    b'{"format": "cudalab-results", "version": ' + b"9" * 5000 + b"}", b'\xef\xbb\xbf{"format": "cudalab-results"}',
    b'{}\n{}', b'{"format": "cudalab-results", "version": 2}\n5', b"[]\n[]", b"kernel,size", b"kernel,size\n,",
    b"kernel,\0",
    b'kernel,"' + b"x" * 200_000, b"kernel,\xff", b"\xef\xbb\xbfkernel,size\r\n1,2", b"kernel,kernel\n1,2",
]  # fmt: skip
files = st.one_of(altered(), altered(), bytes_of_it(), st.sampled_from(ODD_FILES), st.binary(max_size=60))


@st.composite
def lines_of_it(draw):
    """A run as JSON Lines or CSV, with a few lines or cells replaced, removed, doubled or swapped."""
    text = formats.encoded(draw(st.sampled_from(WHOLE)), draw(st.sampled_from(["jsonl", "csv"]))).decode()
    pieces = re.split(draw(st.sampled_from(["(\n)", "(,)", '("+)'])), text)
    return draw(damaged(text, pieces)).encode("utf-8", "surrogatepass")


others = st.one_of(lines_of_it(), bytes_of_it(("jsonl", "csv")), st.sampled_from(ODD_FILES))


def one(**changes):
    """The bytes of a run of two cases, the second with other values, as they come."""
    tree = copy.deepcopy(TREES[0])
    tree["cases"] = tree["cases"][:2]
    tree["cases"][1].update(changes)
    return json.dumps(tree).encode()


def with_all(**changes):
    return json.dumps({**TREES[0], **changes}).encode()


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("results") / "r.json"


def shown(run: Results) -> None:
    """Show a run in every format and width: no exception, and no control sequence for a terminal."""
    for format in FORMATS:
        for width, color, costs in [(None, False, True), (1, False, False), (80, True, True)][
            : 3 if format == "table" else 1
        ]:
            text = report.render(run, format, width, color, costs)
            if format == "json":
                continue  # for programs: as it is in the file
            plain = text if not color else "".join(part.partition("m")[2] if i else part
                                                   for i, part in enumerate(text.split("\x1b[")))  # fmt: skip
            bad = {c for c in plain if unicodedata.category(c) in ("Cc", "Cf", "Cs") and c != "\n"}
            assert not bad, bad
    run.to_dicts()


def loaded(path, data):
    """The run that a file with these bytes holds, shown in every form; None if it is refused, by a clear message."""
    path.write_bytes(data)
    try:
        run = cudalab.load(path)
    except InputError as error:
        assert str(path) in said_clearly(error, data)
        return None
    shown(run)
    return run


@more(4)
@given(data=files)
@example(data=with_all(cases=[{**TREES[0]["cases"][0], "backend": "[/red]"}]))
@example(data=with_all(cases=[{**TREES[0]["cases"][0], "variant": "\x1b[2J"}]))
@example(data=with_all(cases=[{**TREES[0]["cases"][0], "kernel": "\u202egelu\n\n| x"}]))
@example(data=one(times={"cold": [[1e300]]}))
@example(data=one(times={"cold": [[5e-324]]}))
@example(data=one(times={"cold": [[1e-300, 1e300]]}))
@example(data=one(nbytes=10**30))
@example(data=one(nbytes=10**400))
@example(data=one(nbytes=-1))
@example(data=one(shape=[10**30, -1]))
@example(data=one(costs={"graph build": 1e308}))
@example(data=one(cross={"x": 1e308}))
@example(data=one(condition={"sm_hz": 1e308, "throttled": 0.5}))
@example(data=one(parity={"ok": True, "n": 10**400, "rounded": 0.5}))
@example(data=one(parity={"ok": True, "n": -1, "rounded": 1e308}))
@example(data=one(parity={"ok": True, "rel_l2": None}))
@example(data=with_all(calibration={"empty event pair": [1e308]}))
@example(data=with_all(machine={"device": "cuda", "name": "", "details": {"l2_bytes": 10**400}}))
def test_results_files(path, data):
    with at_most(10):
        if run := loaded(path, data):
            assert path.read_bytes() == data
            run.save(path)
            assert cudalab.load(path) == run


@more(4)
@given(data=others, name=st.sampled_from(["r.json", "r.jsonl", "r.csv"]))
@example(data=b"", name="r.csv")
@example(data=b"", name="r.jsonl")
def test_files_in_other_forms(path, data, name):
    path = path.with_name(name)
    with at_most(10):
        if run := loaded(path, data):
            for form in formats.READ:
                again = formats.decoded(formats.encoded(run, form), str(path)) if run.cases else run
                if form == "csv":
                    again = msgspec.structs.replace(again, calibration=run.calibration, wall=run.wall)
                assert Results.of(again) == run if run.cases else again is run
            for form in formats.EXPORTS:
                formats.encoded(run, form)
    assert path.read_bytes() == data
    path.unlink()


@more(2)
@given(data=bytes_of_it(("json", "jsonl")))
def test_what_is_salvaged_is_a_part_of_the_run(path, data):
    try:
        run = salvage.salvaged(data, str(path))
    except InputError as error:
        said_clearly(error, data)
    else:
        assert not run.complete
        formats.encoded(run, "json")


@more(4)
@given(data=bytes_of_it())
def test_a_file_that_is_cut_short_says_where(path, data):
    path.write_bytes(data)
    try:
        cudalab.load(path)
    except InputError as error:
        assert any(word in str(error) for word in ("byte", "position", "$", "field", "empty", "line", "truncated",
                                                   "cudalab results", "results version")), error  # fmt: skip


@pytest.fixture(scope="module")
def no_worker():
    class Nobody:
        def __init__(self, *_):
            raise Unavailable("no worker in this test")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "Team", Nobody)
        yield


OPTIONS = [("options", {**TREES[0]["options"], name: value}) for name in [*TREES[0]["options"], "order", "cross_check"]
           for value in (None, 5, -1, 0.5, "x", "", [], ["gelu", 5], {"a": 1}, True, 10**400, "\x1b")]  # fmt: skip


@pytest.mark.usefixtures("no_worker")
@more(2)
@given(data=st.one_of(files, st.sampled_from(OPTIONS).map(lambda change: with_all(**dict([change])))))
@example(data=with_all(options={"kernels": 5}))
@example(data=with_all(options={"kernels": "gelu", "device": 5}))
@example(data=with_all(options={"kernels": ["gelu"], "device": None, "order": 5, "modes": "launch"}))
@example(data=with_all(options={"kernels": ["gelu"], "timeout": [], "cross_check": {}, "modes": "launch"}))
def test_resuming_from_such_a_file_leaves_it_as_it_is(path, data):
    path.write_bytes(data)
    run = CliRunner().invoke(main, ["bench", "--resume", str(path)])
    assert isinstance(run.exception, SystemExit), repr(run.exception)
    assert run.exit_code == 2, run.output
    assert "Error: " in run.output
    assert path.read_bytes() == data
    assert list(path.parent.iterdir()) == [path]


def test_endless_patience_is_kept_in_the_file(path):
    run = whole()
    run.options |= {"timeout": inf, "budget": inf}
    run.save(path)
    assert cudalab.load(path) == run
    _, options = resume.adopted(str(path), (), {"timeout": 120.0, "budget": 1.0}, set())
    assert options == {"timeout": inf, "budget": inf}


@more(1)
@given(st.lists(st.floats(), min_size=1), st.lists(st.floats(), min_size=1), st.sampled_from(["float64", "float32"]))
@example([1e200], [1.0], "float64")  # the square of this error is not finite
@example([1e200], [-1e200], "float64")
def test_any_comparison_can_be_kept_in_a_file(path, got, want, name):
    kind, n = dtype(name), min(len(got), len(want))
    run = whole("cpu", timed=False)
    with np.errstate(over="ignore"):
        given = np.array(got[:n]).astype(kind.numpy)
    run.cases[0].parity = compare(given, np.array(want[:n]), kind, Budget(0.5))
    run.save(path)
    assert cudalab.load(path) == run
    shown(run)


def test_reasons_that_are_no_unicode_do_not_lose_the_run(path):
    run = whole()
    run.cases[4].reason = "bad \ud800 text"
    shown(run)
    run.save(path)
    assert cudalab.load(path).cases[4].reason == "bad \\ud800 text"


@pytest.mark.parametrize(
    "name", ["[red]", "[/red]", "[bold red on white]x", "\x1b[31m", "a\nb", "\r", "\u202e", "\x9b1m"]
)
@pytest.mark.parametrize("format", [f for f in FORMATS if f != "json"])
def test_names_are_shown_as_text(format, name):
    run = whole()
    run.machine.name = run.cases[0].kernel = run.cases[0].variant = run.cases[4].reason = name
    run.cases[5].backend = run.cases[3].notes[0] = run.cases[2].condition["throttled"] = name
    shown(run)
    as_text = markdown.inline(name) if format == "markdown" else visible(name)
    text = report.render(run, format, 200)
    assert as_text in text or name == "a\nb"
    shown(run)


def test_the_runs_that_are_damaged_here_are_good(path):
    for run in WHOLE:
        run.save(path)
        assert cudalab.load(path) == run
        assert all(isfinite(v) for v in run.wall.values())
        shown(run)
        assert os.stat(path).st_size > 1000
