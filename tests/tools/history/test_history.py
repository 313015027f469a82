"""`cudalab record` keeps medians and what they depend on; `cudalab history` finds steps and mixes nothing."""

from __future__ import annotations

import gzip
import json
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import first_history  # bench/first_history.py
import numpy as np
import pytest
import steps as simulated  # bench/steps.py
from commands import invoke, ran
from tables import table

from cudalab.results.file import save
from cudalab.results.record import FORMAT, VERSION, Case, Machine, Results
from cudalab.tools.history import record, steps, store

TORCH = {"python": "3.12", "torch": "2.10"}


def run(
    number: int, seconds: float, driver: str = "580", card: str = "aa", cu: str = "1", slowed="", **more
) -> Results:
    """The run of hour `number` with one entry of a kernel, cold and hot, and the copy beside it."""
    times = {"cold": [[seconds]], "hot": [[seconds / 2]]}
    cases = [Case("gelu", "large", (9,), "float32", "pycuda", "gelu_vec", times=times),
             Case("gelu", "large", (9,), "float32", "copy", status="ceiling", times={"cold": [[1e-5]]},
                  condition={"sm_hz": 1980e6 + 7e6 * (number % 3), "throttled": slowed})]  # fmt: skip
    machine = Machine("cuda", "H200", {"driver": driver, "card": card}, more.pop("versions", TORCH))
    created = f"2026-01-{1 + number // 24:02}T{number % 24:02}:00:00+00:00"
    return Results(FORMAT, VERSION, created, {"order": "shuffled"}, machine, sources={"gelu.cu": cu * 64},
                   cases=cases, kind="bench", commit=f"{number:040}", **more)  # fmt: skip


def cudalab(*words: object) -> str:
    done = ran(*words, COLUMNS="80")
    return done.output


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A function that records runs, which are files of the folder `raw`, and returns the history as JSON."""
    monkeypatch.chdir(tmp_path)
    Path("raw").mkdir()

    def history(runs, *words):
        for number, one in enumerate(runs):
            save(one, f"raw/{number:03}.json")
        assert f"{len(runs)} recorded" in cudalab("record", "raw", "--store", "h.db")
        return json.loads(cudalab("history", "gelu", "--store", "h.db", "--format", "json", *words))

    return history


def noisy(count: int, level: float = 1e-4) -> list[float]:
    return (level * np.exp(np.random.default_rng(3).normal(0, 0.003, count))).tolist()


def test_a_step_is_found_with_what_changed_and_nothing_else_is(kept):
    seconds = noisy(30)
    found = kept([run(i, s * (1.03 if i >= 20 else 1), cu="2" if i >= 20 else "1") for i, s in enumerate(seconds)])
    (series,) = [one for one in found["series"] if one["backend"] == "pycuda"]
    (change,) = series["changes"]
    assert change["run"] == 21 and change["found_with"] <= 25
    assert change["ratio"] == pytest.approx(1.03, abs=0.005)
    assert change["sources"] == ["gelu.cu"] and change["copy"] is None and series["marks"] == []
    assert series["kind"] == "cold" and series["seconds"][0] == seconds[0]
    said = cudalab("history", "gelu", "--store", "h.db")
    assert max(map(len, said.splitlines())) <= 80 and "+3.2 %" in said
    assert "raw/020.json" in said and "gelu.cu changed" in " ".join(said.split())
    assert "\u2581" in said or "\u2584" in said


def test_cards_drivers_and_libraries_are_not_mixed(kept):
    """Card bb is 20 % slower, and with it come a driver that is 5 % faster, and a library that changes nothing."""
    runs = [run(i, s * (1.2 if i % 2 else 1), card="bb" if i % 2 else "aa") for i, s in enumerate(noisy(20))]
    runs += [run(20 + i, s * 0.95, driver="590") for i, s in enumerate(noisy(8))]
    runs += [run(28 + i, s * 0.95, driver="590", versions=TORCH | {"torch": "2.11"}) for i, s in enumerate(noisy(8))]
    found = kept(runs, "--only", "gelu_vec", "--kind", "all")
    cold = {one["card"]: one for one in found["series"] if one["kind"] == "cold" and one["backend"] == "pycuda"}
    assert {len(one["runs"]) for one in cold.values()} == {10, 26} and cold["bb"]["changes"] == []
    assert [mark["differences"] for mark in cold["aa"]["marks"]] == [["driver: 580 -> 590"], ["torch: 2.10 -> 2.11"]]
    (change,) = cold["aa"]["changes"]
    assert change["run"] == 21 and change["with"] == ["driver: 580 -> 590"]
    assert change["ratio"] == pytest.approx(0.95, abs=0.005)
    assert {one["kind"] for one in found["series"]} == {"cold", "hot"}


def test_runs_on_a_gpu_that_was_slowed_down_are_apart(kept):
    runs = [run(i, s * (1.3 if 12 <= i < 18 else 1), slowed="power" if 12 <= i < 18 else "")
            for i, s in enumerate(noisy(30))]  # fmt: skip
    (series,) = [one for one in kept(runs)["series"] if one["backend"] == "pycuda"]
    assert [mark["run"] for mark in series["marks"]] == [13, 19]
    (change,) = series["changes"]
    assert change["run"] == 13 and change["with"] == ["slowed by: nothing -> power"]


def test_one_content_is_recorded_once_and_unfinished_runs_are_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save(run(0, 1e-5), "a.json")
    Path("b.json.gz").write_bytes(gzip.compress(Path("a.json").read_bytes()))
    save(run(1, 1e-5, complete=False), "half.json")
    assert "1 recorded, 1 recorded before" in cudalab("record", "a.json", "b.json.gz")
    assert "0 recorded, 1 recorded before" in cudalab("record", "a.json")
    save(run(2, 1e-5), "c.json")
    cudalab("record", "c.json", "--store", "other.db")
    save(run(3, 1e-5), "c.json")
    cudalab("record", "c.json", "--store", "other.db")
    assert cudalab("history", "gelu", "--store", "other.db").count("overwritten") == 1
    done = invoke("record", "half.json", "gone.json", "c.json")
    assert done.exit_code == 2 and "1 recorded, 2 not recorded" in done.output  # the third is recorded all the same
    assert "finish it first: cudalab bench --resume half.json" in " ".join(done.output.split())
    assert "gelu" in cudalab("history") and "2 runs of 2" in cudalab("history", "gelu")


@pytest.mark.parametrize(("before", "words", "said"), [
    *table("history", "errors"),
    (lambda: Path("cudalab-history.db").touch(), "history gelu", "is empty; record runs: cudalab record results.json"),
    (lambda: Path("cudalab-history.db").write_text("no"), "record a.json", "mv cudalab-history.db cudalab-"),
    (lambda: changed("DELETE FROM times WHERE kind = 'cold'"), "history gelu", "there are hot: --kind hot"),
    (lambda: changed("UPDATE machines SET details = '[1]'"), "history gelu", "rows contradict each other"),
    (lambda: changed(f"PRAGMA user_version = {store.VERSION + 1}"), "history gelu", "has version 2; this cudalab"),
    (lambda: sqlite3.connect("cudalab-history.db").execute("CREATE TABLE x (y)"), "record a.json", "no history of"),
    (lambda: Path("d").mkdir(), "record a.json --store d", "d is not a regular file; give a file of the history"),
])  # fmt: skip
def test_an_error_says_what_to_type(before, words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save(run(0, 1e-5), "a.json")
    Path("a.csv").write_text("mine")
    if callable(before):
        before()
    elif before:
        invoke(*before.split())
    done = invoke(*words.split())
    assert done.exit_code == 2 and said in " ".join(done.output.split()), done.output


def changed(statement: str) -> None:
    cudalab("record", "a.json")
    with sqlite3.connect("cudalab-history.db") as opened:
        opened.execute(statement)


def test_export_and_parquet_without_its_library(kept, monkeypatch):
    kept([run(i, 1e-5) for i in range(3)])
    cudalab("history", "gelu", "--store", "h.db", "-o", "h.csv")
    head, *rows = Path("h.csv").read_text().splitlines()
    first = dict(zip(head.split(","), rows[0].split(","), strict=True))
    assert len(rows) == 6 and first["driver"] == "580" and first["file"] == "raw/000.json"
    assert first["source"] == "1" * 64 and len(first["digest"]) == 64
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    done = invoke("history", "gelu", "--store", "h.db", "-o", "h.parquet")
    assert done.exit_code == 2 and "install pyarrow" in done.output and "or write .csv" in done.output


@pytest.mark.process
def test_the_page_links_the_files(kept):
    kept([run(i, 1e-5, driver="580" if i < 2 else "590") for i in range(4)])
    Path("raw/003.json").unlink()
    Path("out").mkdir()
    cudalab("history", "gelu", "--store", "h.db", "-o", "out/h.html")
    page = Path("out/h.html").read_text()
    assert '<a href="../raw/000.json">' in page and "../raw/003.json (no longer there)" in page
    assert "driver: 580 -&gt; 590" in page and page.count("<svg") == 1


CRASH = """
import os, signal, sys
from cudalab.tools.history import record, store

for first in range(10):  # ten writers at a time, each with files of its own and some of its neighbour
    if not os.fork():
        names = [f"raw/{i:03}.json" for i in range(3 * first, min(3 * first + 5, 30))]
        list(record.record_files(names, "h.db"))
        os._exit(0)
assert all(os.wait()[1] == 0 for _ in range(10))
with store.writing("h.db") as opened, store.transaction(opened):
    opened.execute("PRAGMA cache_size = 1")  # so that the file itself is written before the end
    opened.execute("DELETE FROM times")
    opened.executemany("INSERT INTO sources (digests) VALUES (?)", [(f"{i:0200}",) for i in range(2000)])
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.process
def test_ten_writers_and_a_kill_lose_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("raw").mkdir()
    for i in range(30):
        save(run(i, 1e-5), f"raw/{i:03}.json")
    done = subprocess.run([sys.executable, "-c", CRASH], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert Path("h.db-journal").stat().st_size  # the transaction was under way
    found = json.loads(cudalab("history", "gelu", "--store", "h.db", "--format", "json"))
    assert [len(one["runs"]) for one in found["series"]] == [30, 30]
    assert not Path("h.db-journal").exists() and "0 recorded, 30 recorded before" in cudalab(
        "record", "raw", "--store", "h.db"
    )


def test_the_committed_history_is_that_of_the_page():
    page = first_history.DOCUMENT.read_text()
    assert first_history.filled(page) == page, "docs/history.md is not up to date; run: make tables"


@pytest.mark.sweep
@pytest.mark.parametrize(("name", "deviation"), list(simulated.classes()))
def test_steps_of_3_percent_are_found_and_unchanged_histories_are_quiet(name, deviation):
    """docs/history.md has the table."""
    for form in simulated.FORMS:
        one = simulated.tried(name, deviation, form, 100, seed=7)
        least = (75, 88) if deviation > 0.007 else (90, 97)
        assert one.alarms <= 1 and one.hits >= least[form != "slow runs"], one


@pytest.mark.wall
def test_ten_thousand_runs_load_in_a_second(tmp_path):
    with store.writing(tmp_path / "h.db") as opened, store.transaction(opened):
        for i in range(10_000):
            assert record._insert(opened, f"{i}.json", str(i), run(i % 600, 1e-5 + 1e-12 * i), tmp_path / "h.db")
    begun = time.perf_counter()
    said = cudalab("history", "gelu", "--store", tmp_path / "h.db")
    assert "10,000 runs" in said and time.perf_counter() - begun < 1


@pytest.mark.parametrize("seconds", [[1e-5] * 9, [1e-5, 2e-5] * 30, [1e-5] * 20 + [9e-5] * 3 + [1e-5] * 20])
def test_few_runs_two_states_and_slow_runs_are_no_steps(seconds):
    assert steps.steps(seconds, 0.003, 0.02) == []
