"""Results files and pages with anything in them: read and shown, or refused by name; and a file is never lost.

A tenth of the inputs; CUDALAB_FUZZ_TIMES=1 tries all of them (`make test-all` does), CUDALAB_FUZZ_SEED others.
"""

from __future__ import annotations

import copy
import csv
import io
import json
import os
import re
from math import inf, isfinite

import numpy as np
import pytest
from click.testing import CliRunner
from fuzzing import more, said_clearly, whole
from hypothesis import example, given
from hypothesis import strategies as st
from mutations import RUNS, TEXTS, attempt, bounded, bytewise, checked_page, clean, mutated, text, wild

import cudalab
from cudalab import report
from cudalab.base.errors import InputError, Unavailable
from cudalab.base.text import visible
from cudalab.checks.parity import compare
from cudalab.cli import main
from cudalab.cli.options import FORMATS
from cudalab.engine import resume, session
from cudalab.report import comparison, markdown
from cudalab.report.html import page
from cudalab.report.results import Results
from cudalab.results import compare as comparing
from cudalab.results import formats, salvage
from cudalab.spec.dtype import dtype
from cudalab.spec.kernel import Budget

FIRST = json.loads(TEXTS[0])
ODD_FILES = [
    b"", b"\0" * 100, b"\xff\xfe", b"NaN", b"null", b"true", b"5", b'""', b"[]", b"{}", b"[" * 100_000,
    b'{"a":' * 100_000, b'{"format": "cudalab-results", "version": 1}',
    b'{"format": "cudalab-results", "version": 1e999}',
    b'{"format": "cudalab-results", "version": [[]]}', b'{"format": "cudalab-results", "version": "1"}',
    b'{"format": "cudalab-results", "version": 1, "x": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    b'{"format": "cudalab-results", "version": ' + b"9" * 5000 + b"}", b'\xef\xbb\xbf{"format": "cudalab-results"}',
    b'{}\n{}', b'{"format": "cudalab-results", "version": 2}\n5', b"[]\n[]", b"kernel,size", b"kernel,size\n,",
    b"kernel,\0", b'kernel,"' + b"x" * 200_000, b"kernel,\xff", b"\xef\xbb\xbfkernel,size\r\n1,2",
    b"kernel,kernel\n1,2",
]  # fmt: skip


def with_all(**changes):
    return json.dumps({**FIRST, **changes}).encode()


def one(**changes):
    """The bytes of a run of two cases, the second with other values, as they come."""
    cases = copy.deepcopy(FIRST["cases"][:2])
    cases[1].update(changes)
    return with_all(cases=cases)


FOUND = [  # files that once ended in an exception, or in control sequences
    with_all(cases=[{**FIRST["cases"][0], "backend": "[/red]"}]),
    with_all(cases=[{**FIRST["cases"][0], "variant": "\x1b[2J"}]),
    with_all(cases=[{**FIRST["cases"][0], "kernel": "\u202egelu\n\n| x"}]),
    *(one(times={"cold": [samples]}) for samples in ([1e300], [5e-324], [1e-300, 1e300])),
    *(one(nbytes=number) for number in (10**30, 10**400, -1)),
    one(shape=[10**30, -1]), one(costs={"graph build": 1e308}), one(cross={"x": 1e308}),
    one(condition={"sm_hz": 1e308, "throttled": 0.5}), one(parity={"ok": True, "n": 10**400, "rounded": 0.5}),
    one(parity={"ok": True, "n": -1, "rounded": 1e308}), one(parity={"ok": True, "rel_l2": None}),
    with_all(calibration={"empty event pair": [1e308]}),
    with_all(machine={"device": "cuda", "name": "", "details": {"l2_bytes": 10**400}}),
]  # fmt: skip
COUNTS = {"bytewise": 4_500, "mutated": 4_000, "wild": 1_700, "pages": 1_100}
WAYS = [
    *((format, None, False, True, "") for format in FORMATS),
    *(("table", 1, False, False, "ascii"), ("table", 80, True, True, "blocks"), ("table", 40, False, True, "ascii")),
]


@pytest.fixture(scope="module", autouse=True)
def _memory():
    with bounded():
        yield


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("results") / "r.json"


def shown(run: Results, ways=WAYS) -> None:
    """Show a run in each way: no exception, no control sequence, no formula for a spreadsheet, no HTML."""
    for format, *how in ways:
        said = report.render(run, format, *how)
        if format != "json":  # which is for programs: as it is in the file
            clean(re.sub(r"\x1b\[[0-9;]*m", "", said) if how[1] else said)
        if format == "csv":
            cells = [cell for row in csv.reader(io.StringIO(said)) for cell in row]
            assert not [c for c in cells if c[:1] in tuple("=+-@") and not re.fullmatch(r"-[0-9.e+-]+", c)]
        assert format != "markdown" or "<" not in said
    run.to_dicts()


def converted(run: Results, path) -> None:
    """Write the run in every format; what can be read again is the same."""
    for form in formats.FORMATS:
        try:
            data = formats.encoded(run, form)
        except InputError as error:
            assert form == "csv" and not run.cases, said_clearly(error)
            continue
        if form in formats.WHOLE:
            assert Results.of(formats.decoded(data, str(path))) == run
        elif form == "csv":
            assert formats.decoded(data, str(path)).cases == run.cases


def read(path, data, good=False):
    """The run in a file with these bytes; None if a clear message refuses it, which is never one that is `good`."""
    path.write_bytes(data)
    try:
        return cudalab.load(path)
    except InputError as error:
        assert str(path) in said_clearly(error, data)
        assert not good, error
        return None
    finally:
        assert path.read_bytes() == data


@pytest.mark.parametrize("run", RUNS, ids=range(len(RUNS)))
def test_the_runs_that_are_damaged_here_are_good(path, run):
    run.save(path)
    assert cudalab.load(path) == run
    assert all(isfinite(v) for v in run.wall.values())
    assert os.stat(path).st_size > 1000
    shown(run)
    converted(run, path)


@pytest.mark.parametrize("name", ["r.json", "r.jsonl", "r.csv"])
@pytest.mark.parametrize("data", ODD_FILES + FOUND, ids=range(len(ODD_FILES + FOUND)))
def test_odd_files(path, data, name):
    if run := read(path.with_name(name), data):
        shown(run)


@pytest.mark.parametrize("made", [bytewise, mutated, wild])
def test_results_files(path, made):
    earlier = []

    def one(rng, _):
        if (run := read(path, made(rng), made is wild)) is None:
            return
        shown(run, rng.sample(WAYS, 1))
        converted(run, path)
        if earlier and rng.random() < 0.3:
            found = comparing.compare(earlier[-1], run, force=rng.random() < 0.5)
            for format in ("table", "markdown", "json"):
                clean(comparison.render(found, ("a", text(rng)), format, rng.choice([None, 40])))
        earlier[:] = [run]
        run.save(path)
        assert cudalab.load(path) == run

    attempt(f"results files, {made.__name__}", COUNTS[made.__name__], one)


def test_pages(path):
    def one(rng, i):
        timed = not i % 4  # charts take most of the time
        made = [read(path, wild(rng, True, timed), True) for _ in range(rng.choice([1, 1, 2]))]
        checked_page(page.render([(text(rng).replace("\0", "") or "r.json", run) for run in made]))

    attempt("pages", COUNTS["pages"], one)


def test_what_is_salvaged_is_a_part_of_the_run(path):
    def one(rng, _):
        data = bytewise(rng)
        try:
            run = salvage.salvaged(data, str(path))
        except InputError as error:
            said_clearly(error, data)
        else:
            assert not run.complete
            formats.encoded(run, "json")

    attempt("salvaged", 300, one)


def test_a_file_that_is_cut_short_says_where(path):
    def one(rng, _):
        data = rng.choice(TEXTS).encode()
        path.write_bytes(data[: rng.randrange(len(data))])
        with pytest.raises(InputError, match=r"byte|position|\$|field|empty|line|truncated|cudalab results|version"):
            cudalab.load(path)

    attempt("cut", 600, one)


@pytest.fixture(scope="module")
def no_worker():
    def nobody(*_):
        raise Unavailable("no worker in this test")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "Team", nobody)
        yield


NAMES = [*FIRST["options"], "order", "cross_check"]
VALUES = [None, 5, -1, 0.5, "x", "", [], ["gelu", 5], {"a": 1}, True, 10**400, "\x1b"]


def not_resumed(path, data):
    """Resuming from such a file fails with a message, and leaves the file as it is."""
    path.write_bytes(data)
    there = set(path.parent.iterdir())
    run = CliRunner().invoke(main, ["bench", "--resume", str(path)])
    assert isinstance(run.exception, SystemExit), repr(run.exception)
    assert run.exit_code == 2, run.output
    assert "Error: " in run.output
    assert path.read_bytes() == data
    assert set(path.parent.iterdir()) == there


@pytest.mark.usefixtures("no_worker")
@pytest.mark.parametrize(
    "options",
    [
        {"kernels": 5},
        {"kernels": "gelu", "device": 5},
        {"kernels": ["gelu"], "device": None, "order": 5, "modes": "launch"},
        {"kernels": ["gelu"], "timeout": [], "cross_check": {}, "modes": "launch"},
    ],
)
def test_resuming_with_such_options_leaves_the_file_as_it_is(path, options):
    not_resumed(path, with_all(options=options))


@pytest.mark.usefixtures("no_worker")
def test_resuming_from_such_a_file_leaves_it_as_it_is(path):
    def one(rng, i):
        options = {**FIRST["options"], rng.choice(NAMES): rng.choice(VALUES)}
        not_resumed(path, with_all(options=options) if i % 2 else rng.choice([mutated, bytewise])(rng))

    attempt("resumed", 300, one)


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
def test_names_are_shown_as_text(name):
    run = whole()
    run.machine.name = run.cases[0].kernel = run.cases[0].variant = run.cases[4].reason = name
    run.cases[5].backend = run.cases[3].notes[0] = run.cases[2].condition["throttled"] = name
    shown(run)
    if name != "a\nb":
        assert markdown.inline(name) in report.render(run, "markdown", 200)
        assert visible(name) in report.render(run, "table", 200)
        assert visible(name) in report.render(run, "csv", 200)
