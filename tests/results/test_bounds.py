"""A results file cannot exhaust the machine, and what is not a file is refused at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest
from fuzzing import case, whole

import cudalab
from cudalab import Results, report
from cudalab.base import memo
from cudalab.base.errors import InputError
from cudalab.results import bounds, formats


@pytest.mark.parametrize(
    ("path", "what"),
    [("/dev/full", "a device"), ("/dev/zero", "a device"), ("pipe", "a named pipe"), (".", "a folder"),
     ("none.json", "No such file")],
)  # fmt: skip
def test_what_is_not_a_file_is_refused_at_once(tmp_path, monkeypatch, path, what):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    start = time.monotonic()
    with pytest.raises(InputError, match=what) as caught:
        cudalab.load(path)
    assert ("cannot read" in str(caught.value)) == (path == "none.json")
    assert path in str(caught.value) and time.monotonic() - start < 5


def test_a_folder_names_the_files_in_it(tmp_path):
    whole().save(tmp_path / "r.json")
    with pytest.raises(InputError, match=r"is a folder, not a results file; give a file, such as .*r\.json"):
        cudalab.load(tmp_path)


def test_an_open_pipe_is_read(tmp_path):
    whole().save(tmp_path / "r.json")
    with (tmp_path / "r.json").open("rb") as file:
        show = [sys.executable, "-m", "cudalab", "show", "/dev/stdin", "--format", "csv"]
        done = subprocess.run(["sh", "-c", 'cat | exec "$@"', "sh", *show], stdin=file, capture_output=True, text=True)
    assert done.returncode == 0 and "torch_eager" in done.stdout, done.stderr


def test_too_large_is_said_before_anything_is_decoded(tmp_path, monkeypatch):
    whole().save(tmp_path / "r.json")
    monkeypatch.setattr(bounds, "VALUES", 100)
    with pytest.raises(InputError, match=r"too large .*: \d+ values; at most 100 are read. Measure fewer"):
        cudalab.load(tmp_path / "r.json")
    with (tmp_path / "sparse.json").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(InputError, match="too large for a results file: more than 256 MiB"):
        cudalab.load(tmp_path / "sparse.json")


def test_too_many_cases_and_columns_are_refused(monkeypatch):
    data = whole().to_json()
    monkeypatch.setattr(bounds, "CASES", 6)
    with pytest.raises(InputError, match="7 cases; at most 6"):
        formats.decoded(data, "r.json")
    monkeypatch.undo()
    monkeypatch.setattr(bounds, "CELLS", 20)
    with pytest.raises(InputError, match="4 kinds of time and quantities in 7 cases"):
        formats.decoded(data, "r.json")


def test_a_csv_that_would_repeat_too_much_is_refused(monkeypatch):
    monkeypatch.setattr(bounds, "BYTES", 1000)
    with pytest.raises(InputError, match=r"would repeat \d+ characters of options and machine in each of 7 lines"):
        formats.encoded(whole(), "csv")


def seconds(run, format):
    start = time.process_time()
    report.render(run, format, 80)
    return time.process_time() - start


@pytest.mark.slow
@pytest.mark.parametrize("format", ["table", "csv"])
def test_the_time_of_a_table_grows_with_its_groups_and_rounds(format):
    """Not with their square: 16 times as many take much less than 256 times as long."""
    few, many = whole(), whole()
    few.cases, many.cases = ([case("pycuda", kinds=("cold",)) for _ in range(n)] for n in (30, 480))
    for run in (few, many):
        for i, one in enumerate(run.cases):
            one.size = f"s{i}"
    assert seconds(many, format) < 70 * max(seconds(few, format), 0.01)
    few.cases, many.cases = ([case("pycuda", times={"cold": [[1e-5]] * n})] for n in (1_000, 64_000))
    assert seconds(many, format) < 100 * max(seconds(few, format), 0.02)


def test_what_is_kept_is_kept_only_while_the_run_is_unchanged():
    run = whole()
    first = run.cases[0]
    with memo.unchanged():
        assert first.timing("cold") is first.timing("cold")
        assert run.groups() is run.groups()
    was = first.median("cold")
    first.times["cold"] = [[2 * sample for sample in one] for one in first.times["cold"]]
    assert first.median("cold") == pytest.approx(2 * was)
    with memo.unchanged():
        assert first.median("cold") == pytest.approx(2 * was)


def test_a_run_without_cases_converts_to_every_format_or_says_that_it_cannot():
    run = whole()
    run.cases = []
    for form in formats.WHOLE:
        assert Results.of(formats.decoded(formats.encoded(run, form), "r")) == run
    for form in formats.EXPORTS:
        json.loads(formats.encoded(run, form))
    with pytest.raises(InputError, match=r"a line for each case and this run has none; write \.json or \.jsonl"):
        formats.encoded(run, "csv")


def test_a_csv_with_a_carriage_return_reads_back():
    run = whole()
    run.cases[4].reason, run.cases[0].variant = "a\rb\r\nc", "\r"
    assert formats.decoded(formats.encoded(run, "csv"), "any name").cases == run.cases
