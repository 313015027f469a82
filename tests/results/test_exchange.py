"""A run in other formats: each file reads back as written, viewers' formats have the fields they need, no file is
lost."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import statistics
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from commands import invoke
from fuzzing import case, whole
from tables import table

import cudalab
from cudalab import report
from cudalab.base.errors import InputError, NotFound
from cudalab.engine.cross_check import nvbench
from cudalab.report.results import Results
from cudalab.results import formats, pytest_benchmark_file, schema
from cudalab.results import record as results
from cudalab.results.file import writable
from cudalab.results.record import ErrorCurve, Machine, Parity
from cudalab.timing import rounds
from cudalab.timing.events import COLD

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "results-file.md"


@pytest.fixture
def run():
    found = whole()
    found.cases = [
        case("torch_eager", 10, cross={"nvbench cold": 1e-5}, composed=True),
        case("pycuda", 2, variant="gelu_vec", costs={"bind": 1.0}, notes=["a, note", 'with "quotes"\nand lines']),
        case("copy", 1.9, status=results.CEILING, parity=None, condition={"sm_hz": 1e9, "throttled": "power cap"}),
        case("pycuda", variant="bad", status=results.WRONG, reason="3 of 12 differ: [0] got nan", times={},
             parity=Parity(ok=False, n=12, wrong=3, max_ulp=None, curve=ErrorCurve([-1.0, 2.5], [0.5, None]))),
        case("cupy_raw", status=results.ERROR, reason="does not compile:\nline 3 | \u00fc, 'x'", times={}, parity=None),
        case("torch_eager", 30, size="100"),
        case("triton", 7, size="100", shape=()),
    ]  # fmt: skip
    found.machine.name, found.no_gpu = "NVIDIA Test", ""
    found.machine.details["compute_capability"] = "9.0"
    found.options["timeout"] = math.inf
    return found


def without_what_csv_lacks(run):
    run.calibration, run.wall = {}, {}
    return run


converted = partial(invoke, "convert")


@pytest.mark.parametrize("name", ["r.json", "r.jsonl", "R.NDJSON", "odd name", "r.csv"])
@pytest.mark.parametrize("form", formats.READ)
def test_every_form_is_known_by_what_is_in_it(run, tmp_path, form, name):
    path = tmp_path / name
    path.write_bytes(formats.encoded(run, form))
    assert cudalab.load(path) == (without_what_csv_lacks(run) if form == "csv" else run)


def test_json_lines_are_the_run_then_a_case_a_line_and_may_come_one_by_one(run, tmp_path):
    run.save(tmp_path / "r.jsonl")
    head, *cases = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    assert head["cases"] == len(cases) == len(run.cases)
    assert (head["format"], head["version"], head["created"]) == (run.format, run.version, run.created)
    assert [c["backend"] for c in cases] == [c.backend for c in run.cases]
    head = json.loads(formats.encoded(run, "jsonl").split(b"\n")[0])
    del head["cases"]
    lines = [head, *json.loads(run.to_json())["cases"]]
    path = tmp_path / "r.jsonl"
    for n in range(1, len(lines) + 1):
        path.write_text("\n\n".join(map(json.dumps, lines[:n])))
        assert cudalab.load(path).cases == run.cases[: n - 1]


def test_version_1_as_json_lines(tmp_path):
    tree = json.loads((ROOT / "tests" / "data" / "results_v1.json").read_text())
    cases = tree.pop("cases")
    (tmp_path / "r.jsonl").write_text("\n".join(map(json.dumps, [tree, *cases])))
    assert cudalab.load(tmp_path / "r.jsonl") == cudalab.load(ROOT / "tests" / "data" / "results_v1.json")


def test_csv_shows_medians_and_holds_samples_however_deeply_nested(run, tmp_path):
    rows = list(csv.DictReader(io.StringIO(formats.encoded(run, "csv").decode())))
    assert float(rows[1]["cold"]) == run.cases[1].median("cold")
    assert json.loads(rows[1]["times"]) == run.cases[1].times
    assert {row["machine"] for row in rows} == {"NVIDIA Test"}
    assert rows[0]["shape"] == "1x3x4"
    nested: list = []
    for _ in range(600):
        nested = [nested]
    run.options["x"], path = nested, tmp_path / "r.csv"
    path.write_bytes(formats.encoded(run, "csv"))
    assert cudalab.load(path).options == run.options


def test_csv_lines_and_columns_may_come_and_go(run, tmp_path):
    path = tmp_path / "r.csv"
    path.write_bytes(formats.encoded(run, "csv"))
    table = list(csv.DictReader(io.StringIO(path.read_text())))
    kept = [{"mine": "x", **{k: v for k, v in row.items() if k not in ("cold", "verdict")}} for row in table[5:0:-2]]
    with path.open("w", newline="", encoding="utf-8-sig") as file:  # as Excel writes it
        writer = csv.DictWriter(file, list(kept[0]))
        writer.writeheader()
        writer.writerows(kept)
    assert cudalab.load(path).cases == run.cases[5:0:-2]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: "", "is empty|no rows"),
        (lambda t: t.split("\n")[0], "no rows"),
        (lambda t: t.replace("NVIDIA Test", "another", 1), "has rows of several runs, which differ in machine"),
        (lambda t: t.replace(",times,", ",moments,", 1), "has no column times; write one with every sample"),
        (lambda t: t.replace("1x3x4", "1x?", 1), r"a shape is '1x\?'"),
        (lambda t: t.replace('"{""cold""', '"{""cold', 1), "line 2, times: not JSON"),
        (lambda t: t.replace("4800", "-5", 1), r"not a valid results file.*cases\[0\].nbytes"),
        (lambda t: t[: t.rindex("pycuda")], "a different number of columns than the first"),
        (lambda t: t.replace("\n", ",extra\n", 2), "a different number of columns than the first"),
        (lambda t: t.replace(",ok,", ",fine,", 1), "Invalid enum value 'fine'"),
    ],
)
def test_a_csv_that_cannot_be_read_says_why(run, tmp_path, change, message):
    path = tmp_path / "r.csv"
    text = formats.encoded(run, "csv").decode()
    path.write_text(change(text))
    with pytest.raises(InputError, match=message) as caught:
        cudalab.load(path)
    assert str(path) in str(caught.value)


def test_pandas_in_and_out_and_frames_that_cannot_be_a_run(run, tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = run.to_frame(samples=True)
    (tmp_path / "r.csv").write_bytes(formats.encoded(run, "csv"))
    part = frame[frame["size"] == "small"].drop(columns=["cold", "verdict"]).assign(mine=1)
    assert Results.from_frame(part).cases == run.cases[:5]
    expected = without_what_csv_lacks(run)
    assert Results.from_frame(frame) == expected
    assert Results.from_frame(pandas.read_csv(tmp_path / "r.csv")) == expected
    assert Results.from_frame(pandas.DataFrame(frame.to_dict("list")).sample(frac=1, random_state=0)).complete is False
    for broken, message in (
        (run.to_frame(), r"has no column .*to_frame\(samples=True\)"),
        (frame.head(0), "no rows"),
        (frame.assign(times=[{"cold": [[float("nan")]]}] * len(frame)), "not a valid results file: Expected `float`"),
        (frame.assign(times="x"), "column times: not JSON"),
        (frame.assign(notes=[[object()]] * len(frame)), "holds a value that JSON cannot represent"),
    ):
        with pytest.raises(InputError, match=message):
            Results.from_frame(broken)


@pytest.mark.parametrize("form", formats.WHOLE)
def test_a_file_that_was_cut_off_says_so_and_is_salvaged(run, tmp_path, form):
    path, mended, data = tmp_path / "r.out", tmp_path / "mended.json", formats.encoded(run, form)
    second = data.index(b'"100"')  # the first case of the second group
    number = data.rindex(b"e-") + 2  # in the middle of one
    for cut, count in (
        (second - 10, 0), (second + 50, 0), (data.rindex(b"triton"), 5), (number, 5), (len(data) - 30, 5)
    ):  # fmt: skip
        path.write_bytes(data[:cut])
        with pytest.raises(InputError, match=r"seems cut off.*cudalab convert --salvage .*--resume"):
            cudalab.load(path)
        before = path.read_bytes()
        assert converted(path, mended, "--salvage").exit_code == 0
        kept = cudalab.load(mended)
        assert kept.cases == run.cases[:count]  # not of the last group that has begun
        assert (kept.complete, kept.created, kept.options) == (False, run.created, run.options)
        assert path.read_bytes() == before


def test_json_lines_that_are_cut_off_between_lines_or_have_a_bad_one(run, tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_bytes(b"\n".join(formats.encoded(run, "jsonl").split(b"\n")[:4]))
    with pytest.raises(InputError, match="seems cut off: it has 3 of 7 cases"):
        cudalab.load(path)
    lines = formats.encoded(run, "jsonl").split(b"\n")
    for broken, message in (
        (b"{]", "line 3: JSON is malformed"),
        (b"[1]", "line 3: Expected `object`"),
        (b'{"a": 1, "a": 2}', "line 3: an object has the key 'a' twice"),
    ):
        path.write_bytes(b"\n".join([*lines[:2], broken, *lines[3:]]))
        with pytest.raises(InputError, match=message):
            cudalab.load(path)


def test_nothing_to_salvage(run, tmp_path):
    path, out = tmp_path / "r.json", tmp_path / "out.json"
    for data in (b"", b"junk", run.to_json()[:60]):
        path.write_bytes(data)
        done = converted(path, out, "--salvage")
        assert done.exit_code == 2
        assert "nothing can be salvaged" in done.output
    assert "cannot read" in converted(tmp_path / "none", out, "--salvage").output
    assert not out.exists()


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 7, 8, 101, 102, 103])
def test_statistics_are_those_of_pytest_benchmark(n):
    """Its definitions, written out: quartiles by method 2 of even counts, by method 3 of odd ones."""
    data = np.random.default_rng(n).lognormal(size=n) * 1e-6
    found, s = pytest_benchmark_file.statistics(data), sorted(data.tolist())
    q, k = n % 4, n // 4
    if n == 1:
        q1 = q3 = s[0]
    elif n % 2 == 0:
        q1, q3 = statistics.median(s[: n // 2]), statistics.median(s[n // 2 :])
    elif q == 1:
        q1, q3 = 0.25 * s[k - 1] + 0.75 * s[k], 0.75 * s[3 * k] + 0.25 * s[3 * k + 1]
    else:
        q1, q3 = 0.75 * s[k] + 0.25 * s[k + 1], 0.25 * s[3 * k + 1] + 0.75 * s[3 * k + 2]
    low, high = q1 - 1.5 * (q3 - q1), q3 + 1.5 * (q3 - q1)
    assert (found["q1"], found["q3"]) == pytest.approx((q1, q3))
    assert found["stddev"] == pytest.approx(statistics.stdev(s) if n > 1 else 0)
    assert found["median"] == pytest.approx(statistics.median(s))
    assert found["ld15iqr"] == min(v for v in s if v >= low)
    assert found["hd15iqr"] == max(v for v in s if v <= high)
    assert found["iqr_outliers"] == sum(v < low or v > high for v in s)
    assert found["ops"] == pytest.approx(n / sum(s))
    assert found["data"] == data.tolist()


def test_export_for_pytest_benchmark(run):
    """The keys that `pytest-benchmark compare` 5.3.1 reads; it was run by hand on such a file of H200 results."""
    tree = json.loads(formats.encoded(run, "pytest-benchmark"))
    assert {"machine_info", "commit_info", "benchmarks", "datetime", "version"} <= set(tree)
    assert len(tree["benchmarks"]) == sum(len(c.times) for c in run.cases)
    by_name = {b["fullname"]: b for b in tree["benchmarks"]}
    assert len(by_name) == len(tree["benchmarks"])
    ours = by_name["gelu-small-float32-cold::pycuda:gelu_vec"]
    assert ours["group"] == "gelu-small-float32-cold"
    assert ours["stats"]["median"] == run.cases[1].median("cold")
    assert ours["stats"]["rounds"] == len(ours["stats"]["data"]) == 12
    assert {"name", "param", "params", "extra_info", "options"} <= set(ours)
    assert all(b["params"]["kind"] in b["group"] for b in tree["benchmarks"])


def test_export_for_nvbench(run):
    """What nvbench-compare of cuda-bench 0.3.0 reads; its scripts were run by hand on such a file of H200 results."""
    tree = json.loads(formats.encoded(run, "nvbench"))
    assert tree["meta"]["version"]["json"]["string"] == "1.0.0"
    (device,) = tree["devices"]
    assert (device["id"], device["name"], device["l2_cache_size"], device["sm_version"]) == (
        0, "NVIDIA Test", 2**26, 900,
    )  # fmt: skip
    (bench,) = tree["benchmarks"]
    assert [axis["name"] for axis in bench["axes"]] == ["Variant", "Size", "DType", "Elements"]
    assert len({state["name"] for state in bench["states"]}) == len(run.cases)
    skipped = [state["skip_reason"] for state in bench["states"] if state["is_skipped"]]
    assert [reason.partition(":")[0] for reason in skipped] == ["WRONG", "error"]
    values = {s["tag"]: s["data"][0] for s in bench["states"][1]["summaries"]}
    samples = np.concatenate(run.cases[1].times["cold"])
    for tag, value in {
        "nv/cold/time/gpu/mean": samples.mean(),
        "nv/cold/time/gpu/stdev/relative": samples.std(ddof=1) / samples.mean(),
        "nv/batch/time/gpu/mean": np.mean(run.cases[1].times["hot"]),
        "cudalab/call/time/median": run.cases[1].median("call"),
    }.items():
        assert values[tag]["type"] == "float64"
        assert isinstance(values[tag]["value"], str)
        assert float(values[tag]["value"]) == pytest.approx(value)
    assert values["nv/cold/sample_size"] == {"name": "value", "type": "int64", "value": "12"}
    for odd in ("\u00b2", "9" * 5000, "x"):
        run.machine.details["compute_capability"] = odd
        assert "sm_version" not in json.loads(formats.encoded(run, "nvbench"))["devices"][0]


def test_nvbench_reads_the_export_of_any_run(run):
    ours = run.cases[1]
    run.cases = [ours]
    found = nvbench.parsed(formats.encoded(run, "nvbench"))
    assert found == {"gelu": {nvbench.COLD: pytest.approx(ours.median("cold")),
                              nvbench.BATCH: pytest.approx(np.mean(ours.times["hot"]))}}  # fmt: skip
    run.cases = [case("numpy", kinds=("wall",))]
    (state,) = json.loads(formats.encoded(run, "nvbench"))["benchmarks"][0]["states"]
    assert {"nv/cold/time/cpu/mean", "nv/cold/sample_size"} <= {s["tag"] for s in state["summaries"]}


def test_convert_by_suffix_and_by_name(run, tmp_path):
    run.save(tmp_path / "r.json")
    for name in ("r.jsonl", "r.csv", "again.json"):
        done = converted(tmp_path / "r.json", tmp_path / name)
        assert (done.exit_code, done.stdout, done.stderr) == (0, "", f"wrote {tmp_path / name}\n")
    assert cudalab.load(tmp_path / "r.jsonl") == cudalab.load(tmp_path / "again.json") == run
    for format in formats.EXPORTS:
        out = tmp_path / f"{format}.json"
        for _ in range(2):  # an export may be replaced by an export
            assert converted(tmp_path / "r.json", out, "--to", format).exit_code == 0
        assert json.loads(out.read_text())["benchmarks"]
        assert "was written for another tool" in converted(out, tmp_path / "x.json").output
    assert not (tmp_path / "x.json").exists()
    assert converted(tmp_path / "r.json", "-", "--to", "jsonl").output.encode() == (tmp_path / "r.jsonl").read_bytes()


@pytest.mark.process
@pytest.mark.parametrize("command", [["convert", "@", "-", "--to", "json"], ["show", "@", "--format", "json"]])
def test_json_on_standard_output_is_utf_8_whatever_the_encoding(run, tmp_path, command):
    path, run.machine.name = tmp_path / "r.json", "\u0416"
    run.save(path)
    words = [str(path) if word == "@" else word for word in command]
    done = subprocess.run([sys.executable, "-m", "cudalab", *words], capture_output=True, check=True,
                          env={**os.environ, "PYTHONIOENCODING": "latin-1"})  # fmt: skip
    assert done.stdout.strip() == run.to_json().strip()


def test_what_would_be_lost_is_not_replaced(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run.save("r.json")
    (tmp_path / "notes.csv").write_text("mine,yours\n1,2\n")
    (tmp_path / "real.json").write_text('{"machine_info": {}, "benchmarks": []}')
    before = {p: p.read_bytes() for p in tmp_path.iterdir()}
    for words, message in table("results", "conversions that are refused", str.split, str):
        done = converted(*words)
        assert done.exit_code == 2
        assert message in done.output.replace("\n", " ")
    assert {p: p.read_bytes() for p in tmp_path.iterdir()} == before


def test_a_csv_is_no_place_for_a_run_that_is_measured_nor_medians_for_one_that_is_read(run, tmp_path):
    for save in (run.save, writable):
        with pytest.raises(InputError, match=r"does not hold a whole run; save .*r\.json, then: cudalab convert"):
            save(tmp_path / "r.csv")
    with pytest.raises(NotFound, match="known: json, jsonl, csv"):
        formats.encoded(run, "xml")
    assert not list(tmp_path.iterdir())
    (tmp_path / "r.csv").write_text(report.render(run, "csv"))
    with pytest.raises(InputError, match="cannot be read back"):
        cudalab.load(tmp_path / "r.csv")


def test_the_page_describes_the_fields_as_they_are_and_the_schema_is_printed(tmp_path):
    text = PAGE.read_text(encoding="utf-8")
    assert schema.filled(text) == text, "stale: python -m cudalab.results.schema docs/results-file.md"
    for record in schema.RECORDS:
        assert all(f"| `{name}` |" in text for name in record.__struct_fields__)
    assert all(f["description"] for r in schema.json_schema()["$defs"].values() for f in r["properties"].values())
    (example,) = re.findall(r"```json\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "r.json").write_text(example)
    assert cudalab.load(tmp_path / "r.json").cases[0].median("cold") == pytest.approx(1.2e-5)
    printed = json.loads(invoke("convert", "--schema").output)
    assert printed == schema.json_schema()
    assert set(printed["$defs"]) == {"Results", "Machine", "Case", "Parity", "ErrorCurve", "Prediction", "Place"}
    assert printed["$defs"]["Case"]["properties"]["nbytes"]["description"].startswith("bytes")


def test_the_largest_run_of_200_cases_is_below_10_mb_and_loads_within_two_seconds():
    rng = np.random.default_rng(0)

    def most(samples):  # milliseconds have the most digits
        return np.round(rng.uniform(1e-3, 5e-3, (rounds.MOST_ROUNDS, samples)), rounds.DIGITS).tolist()

    times = {kind: most(COLD if kind == "cold" else 1) for kind in ("cold", "hot", "graph", "graph_cold", "call")}
    cases = [case(f"backend_{i % 14}", size=f"2^{i // 14}", times=times) for i in range(200)]
    run = Results(results.FORMAT, results.VERSION, "", {}, Machine("cuda", "NVIDIA H200"), cases=cases)
    data = run.to_json()
    assert 5e6 < len(data) < 10e6
    start = time.process_time()
    loaded = formats.decoded(data, "r.json")
    taken = time.process_time() - start
    assert Results.of(loaded) == run
    assert taken < 2  # 0.2 s on an idle core
