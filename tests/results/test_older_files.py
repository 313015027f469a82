"""Files of older versions load, know their kind, and are printed as they were when they were written."""

from __future__ import annotations

from pathlib import Path

import pytest

import cudalab
from cudalab import report

DATA = Path(__file__).parents[1] / "data"
FILES = {
    "bench": DATA / "results_v1.json",
    "check": DATA / "shown" / "check_v4.json",
    "study": DATA / "shown" / "study_v4.json",
}
SHOWN = {"bench": "bench_v1", "check": "check_v4", "study": "study_v4"}


@pytest.mark.parametrize("kind", FILES)
def test_an_older_file_gets_its_kind_when_it_is_loaded(kind, tmp_path):
    assert '"kind":"' not in FILES[kind].read_text(encoding="utf-8")
    run = cudalab.load(FILES[kind])
    assert (run.kind, run.timed, run.of_study) == (kind, kind != "check", kind == "study")
    for suffix in ("json", "jsonl"):
        run.save(tmp_path / f"new.{suffix}")
        assert cudalab.load(tmp_path / f"new.{suffix}") == run


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize(
    ("format", "width", "suffix"),
    [("table", 80, "80.txt"), ("table", 140, "140.txt"), ("markdown", None, "md"), ("csv", None, "csv")],
)
def test_show_prints_an_older_file_as_before(kind, format, width, suffix):
    expected = (DATA / "shown" / f"{SHOWN[kind]}.{suffix}").read_text(encoding="utf-8")
    assert report.render(cudalab.load(FILES[kind]), format, width) + "\n" == expected
