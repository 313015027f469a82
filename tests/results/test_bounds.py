"""A results file cannot exhaust the machine, and what is not a file is refused at once."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import time

import pytest
from fuzzing import case, whole
from tables import table

import cudalab
from cudalab import Results, report
from cudalab.base import memo, numbers
from cudalab.base.errors import InputError
from cudalab.results import bounds, formats


@pytest.mark.parametrize(("path", "what"), table("results", "what is not a file"))
def test_what_is_not_a_file_is_refused_at_once(tmp_path, monkeypatch, path, what):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    with pytest.raises(InputError, match=what) as caught:
        cudalab.load(path)
    assert ("cannot read" in str(caught.value)) == (path == "none.json")
    assert path in str(caught.value)


@pytest.mark.process
def test_an_open_pipe_is_read(tmp_path):
    whole().save(tmp_path / "r.json")
    with (tmp_path / "r.json").open("rb") as file:
        show = [sys.executable, "-m", "cudalab", "show", "/dev/stdin", "--format", "csv"]
        done = subprocess.run(["sh", "-c", 'cat | exec "$@"', "sh", *show], stdin=file, capture_output=True, text=True)
    assert done.returncode == 0 and "torch_eager" in done.stdout, done.stderr


@pytest.mark.parametrize("name", ["r.json.gz", "r.csv.gz", "r.jsonl.gz", "no suffix"])
def test_a_compressed_file_is_read(tmp_path, name):
    format = formats.SUFFIXES.get(f".{name.split('.')[1]}" if "." in name else "", "json")
    (tmp_path / name).write_bytes(gzip.compress(formats.encoded(whole(), format)))
    assert [c.label for c in cudalab.load(tmp_path / name).cases] == [c.label for c in whole().cases]


def test_a_compressed_file_that_is_damaged_or_too_large_is_refused(tmp_path, monkeypatch):
    packed, path = gzip.compress(formats.encoded(whole(), "json")), tmp_path / "r.json.gz"
    path.write_bytes(packed[:-20])
    with pytest.raises(InputError, match=r"r\.json\.gz: it ends too early"):
        cudalab.load(path)
    path.write_bytes(packed[:30] + bytes(20) + packed[50:])
    with pytest.raises(InputError, match=r"r\.json\.gz: it (is damaged|ends too early)"):
        cudalab.load(path)
    monkeypatch.setattr(bounds, "BYTES", 10_000_000)
    path.write_bytes(gzip.compress(b"[" * 20_000_000))
    with pytest.raises(InputError, match="more than 9 MiB"):
        cudalab.load(path)


def test_a_folder_names_the_files_in_it_and_results_are_not_written_compressed(tmp_path):
    with pytest.raises(InputError, match=r"save .*r\.json, then: gzip .*r\.json"):
        whole().save(tmp_path / "r.json.gz")
    assert not list(tmp_path.iterdir())
    whole().save(tmp_path / "r.json")
    with pytest.raises(InputError, match=r"is a folder, not a results file; give a file, such as .*r\.json"):
        cudalab.load(tmp_path)


def test_too_large_is_said_before_anything_is_decoded(tmp_path, monkeypatch):
    whole().save(tmp_path / "r.json")
    monkeypatch.setattr(bounds, "VALUES", 100)
    with pytest.raises(InputError, match=r"too large .*: \d+ values; at most 100 are read. Measure fewer"):
        cudalab.load(tmp_path / "r.json")
    with (tmp_path / "sparse.json").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(InputError, match="too large for a results file: more than 256 MiB"):
        cudalab.load(tmp_path / "sparse.json")
    monkeypatch.setattr(bounds, "BYTES", 1000)
    with pytest.raises(InputError, match=r"would repeat \d+ characters of options and machine in each of 7 lines"):
        formats.encoded(whole(), "csv")


def test_too_many_cases_and_columns_are_refused(monkeypatch):
    data = whole().to_json()
    monkeypatch.setattr(bounds, "CASES", 6)
    with pytest.raises(InputError, match="7 cases; at most 6"):
        formats.decoded(data, "r.json")
    monkeypatch.undo()
    monkeypatch.setattr(bounds, "CELLS", 20)
    with pytest.raises(InputError, match="4 kinds of time and quantities in 7 cases"):
        formats.decoded(data, "r.json")


def seconds(run, format):
    start = time.process_time()
    report.render(run, format, 80)
    return time.process_time() - start


@pytest.mark.wall
@pytest.mark.sweep
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


def test_the_unit_of_a_group_is_found_once_and_kept_while_the_run_is_unchanged(monkeypatch):
    """Not once for each row from all rows: a group of 4,000 variants took as long as 16 million rows."""
    run, asked, found = whole(), [], numbers.time_unit
    run.cases = [case("pycuda", variant=f"v{i}", kinds=("cold",)) for i in range(20)]
    monkeypatch.setattr(numbers, "time_unit", lambda shortest: asked.append(shortest) or found(shortest))
    report.render(run, "table", 80)
    assert 0 < len(asked) < 5
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


def test_a_csv_with_a_carriage_return_and_a_run_without_cases_read_back():
    run = whole()
    run.cases[4].reason, run.cases[0].variant = "a\rb\r\nc", "\r"
    assert formats.decoded(formats.encoded(run, "csv"), "any name").cases == run.cases
    run = whole()
    run.cases = []
    for form in formats.WHOLE:
        assert Results.of(formats.decoded(formats.encoded(run, form), "r")) == run
    for form in formats.EXPORTS:
        json.loads(formats.encoded(run, form))
    with pytest.raises(InputError, match=r"a line for each case and this run has none; write \.json or \.jsonl"):
        formats.encoded(run, "csv")
