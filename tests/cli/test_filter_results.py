"""Which rows of results files the options select, and the commands that read files and say what they wrote."""

from __future__ import annotations

import gzip
import json
import re

import pytest
from commands import invoke, ran, refused
from report_runs import timed
from tables import table

import cudalab
from cudalab.base.errors import NotFound
from cudalab.cli.filter_results import filtered
from cudalab.results.record import CEILING


@pytest.fixture
def file(tmp_path):
    timed().save(tmp_path / "run.json")
    return tmp_path / "run.json"


def labels(run):
    return {case.label for case in run.cases if case.status != CEILING}


@pytest.mark.parametrize("text", ["large", "la*", "1000000", "1M", "10^6", "large,la*", "all"])
def test_a_size_is_a_name_a_glob_or_a_form_of_the_grammar(text):
    (run,) = filtered([timed()], sizes=text)
    assert {case.size for case in run.cases} == ({"small", "large", "xlarge"} if text == "all" else {"large"})


def test_a_size_may_have_a_length_behind_it_and_a_run_that_has_nothing_of_it_is_empty():
    run = timed()
    for case in run.cases:
        case.size += ",k=8" if case.size == "large" else ", k=4" if case.size == "small" else ""
    for text, want in (("k=8", "large,k=8"), ("1M,k=8", "large,k=8"), ("1M", "large,k=8"), ("small,k=4", "small, k=4")):
        assert {case.size for case in filtered([run], sizes=text)[0].cases} == {want}
    with pytest.raises(NotFound, match="no size in these results named 'large,k=4'"):
        filtered([run], sizes="large,small,k=4")
    one, two = timed(), timed()
    one.cases = [case for case in one.cases if case.size == "small"]
    assert [len(run.cases) > 0 for run in filtered([one, two], sizes="large")] == [False, True]


def test_a_kernel_is_a_name_a_glob_or_a_path(tmp_path):
    for name in ("gelu.cu", "other.cu"):
        (tmp_path / name).touch()
    for text in ("gelu", "g*", "nothing/gelu.py", "./gelu.cu", str(tmp_path), "all"):
        assert filtered([timed()], kernels=text) == [timed()]
    with pytest.raises(NotFound, match=r"no kernel in these results named '\./other\.py'; known: gelu"):
        filtered([timed()], kernels="./other.py")


@pytest.mark.parametrize(("only", "skip", "kept"), table("filter_results", "variants"))
def test_variants_are_backends_entries_or_both(only, skip, kept):
    (run,) = filtered([timed()], only=only, skip=skip)
    assert labels(run) == set(kept.split())
    assert any(case.status == CEILING for case in run.cases)


@pytest.mark.filterwarnings("default:left out")
def test_a_folder_stands_for_its_results_files(file, tmp_path):
    (packed := tmp_path / "small.json.gz").write_bytes(gzip.compress(file.read_bytes()))
    (tmp_path / "notes.txt").write_text("no results")
    (tmp_path / "package.json").write_text('{"name": "mine"}')
    (tmp_path / "h.json").write_text('{\n "format": "cudalab-history", "file": "cudalab-results"}')
    (tmp_path / "h.csv").write_text("kernel_id,nbytes\n")
    alone = invoke("show", file, "--size", "small").stdout
    both = invoke("show", tmp_path, "--size", "small")
    assert both.stderr == f"Warning: left out of {tmp_path}: h.csv, h.json, package.json: no results\n"
    assert (both.exit_code, both.stdout) == (0, f"{file}:\n{alone}\n{packed}:\n{alone}")
    assert invoke("show", file, packed, "--size", "small").stdout == both.stdout
    for words in (("--format", "csv"), ("-o", tmp_path / "all.json")):
        refused = invoke("show", tmp_path, *words)
        assert refused.exit_code == 2 and "is for one file, but 2 were given" in refused.stderr
    (empty := tmp_path / "empty").mkdir()
    for command in (("show", empty), ("report", empty, "-o", tmp_path / "r.html")):
        refused = invoke(*command)
        assert refused.exit_code == 2 and "is a folder without results files (.json, " in refused.stderr


def test_convert_and_compare_take_folders_and_several_files(file, tmp_path):
    (packed := tmp_path / "small.json.gz").write_bytes(gzip.compress(file.read_bytes()))
    lines = tmp_path / "lines"
    done = invoke("convert", tmp_path, f"{lines}/", "--to", "jsonl", "--size", "small", "--dtype", "float32")
    assert done.stderr == f"wrote {lines}/{file.stem}.jsonl\nwrote {lines}/small.jsonl\n"
    assert {case.size for case in cudalab.load(lines / "small.jsonl").cases} == {"small"}
    (lines / "alone.jsonl").write_bytes((lines / "small.jsonl").read_bytes())
    both = invoke("compare", tmp_path, lines)
    assert both.exit_code == 3 and "not compared, no file of the same name: " in both.stderr
    assert both.stdout.count(" -> ") == 2 and f"\n{packed} -> {lines}/small.jsonl\n" in both.stdout
    assert re.findall(r"^  (\w+): 2 answers are wrong", both.stdout, re.MULTILINE) == [file.stem, "small"]
    one = invoke("compare", packed, lines).stdout
    assert one == invoke("compare", packed, lines / "small.jsonl").stdout and "In short" not in one
    assert invoke("compare", file, packed, lines / "alone.jsonl").stdout.count(f"{file} -> ") == 2
    for names, count in (((tmp_path, lines), 2), ((file, packed, file), 2), ((packed, lines), 1)):
        documents = json.loads(invoke("compare", *names, "--format", "json").stdout)
        assert [one["format"] for one in documents] == ["cudalab-comparison"] * count
    for words, text in (
        (("compare", lines / "alone.jsonl", tmp_path), "nothing to compare: files are compared by their names"),
        (("convert", file, packed, "-o", tmp_path / "x.csv"), "2 files need a folder to write to"),
        (("convert", file, tmp_path / "x.csv", "-o", tmp_path / "y.csv"), "give the file to write once"),
        (("convert", tmp_path, tmp_path / "x.csv"), "2 files need a folder to write to"),
        (("convert", tmp_path, lines), "lines is a folder; say which format its files get: --to json|"),
        (("convert", packed, lines / "small.jsonl", file, "-o", lines, "--to", "csv"), "would both be written to"),
        (("bench", "--baseline", tmp_path), "is a folder with 2 results files; give one: --baseline "),
    ):
        refused = invoke(*words)
        assert refused.exit_code == 2 and text in refused.stderr, refused.output


def test_every_command_that_reads_takes_them_and_a_part_does_not_replace_the_whole(file, tmp_path):
    part = tmp_path / "part.json"
    done = invoke("show", file, "--only", "gelu_vec", "--size", "1M", "-o", part)
    assert (done.exit_code, done.stderr) == (0, f"wrote {part}\n")
    assert "torch_eager" not in done.stdout
    assert {case.size for case in cudalab.load(part).cases} == {"large"}
    assert labels(cudalab.load(part)) == {"pycuda:gelu_vec", "cupy_raw:gelu_vec"}
    for name, quiet in (("c.csv", []), ("d.csv", ["-q"])):
        done = invoke("convert", file, "-o", tmp_path / name, "--only", "gelu_vec", "--sizes", "large", *quiet)
        assert (done.exit_code, done.output) == (0, "" if quiet else f"wrote {tmp_path / name}\n")
    assert (tmp_path / "c.csv").read_bytes() == (tmp_path / "d.csv").read_bytes()
    assert labels(cudalab.load(tmp_path / "c.csv")) == labels(cudalab.load(part))
    compared = invoke("compare", file, file, "--only", "gelu_vec", "--size", "large", "--dtype", "float32")
    assert re.findall(r"^gelu  .*", compared.stdout, re.MULTILINE) == ["gelu  large (1000000)  float32  cold"]
    for words in (("show", file, "-o", file), ("convert", file, file)):
        assert "would lose the rows that are not" in refused(*words, "--size", "large")
    assert cudalab.load(file) == cudalab.load(file.rename(file.with_name("same.json")))
    assert "Missing argument 'OUT'" in invoke("convert", file).output


@pytest.mark.sweep
def test_a_report_of_a_part(file, tmp_path):
    pytest.importorskip("jinja2")
    page = tmp_path / "page.html"
    done = ran("report", file, "-o", page, "--size", "large", "--only", "pycuda,torch_eager")
    assert re.fullmatch(rf"wrote {page} \([\d.]+ .?B, \d+ s\)\n", done.stderr)
    text = page.read_text()
    assert "torch_eager" in text and not re.search("triton|xlarge", text)
    said = refused("report", file, "-o", tmp_path / "plot.svg", "--size", "*large")
    assert "--size *large matches large, xlarge; a plot shows one size" in said
    assert invoke("report", file, "-o", tmp_path / "plot.svg", "--size", "1M", "-q").output == ""
