"""The commands that stand below a run's tables fit its results, and the command line takes them."""

from __future__ import annotations

import shlex

import pytest
from click import Context
from click.testing import CliRunner

from cudalab.cli import main, next_steps
from cudalab.device import cuda
from cudalab.results.record import Case, Machine, Results


def run_of(kind, *cases, **options):
    options = {"kernels": ["./mine/softmax.py"], "seed": 7, **options}
    return Results("cudalab-results", 6, "2026-01-01", options, Machine("cpu", "CPU"), cases=list(cases), kind=kind)


def case(label, status="ok"):
    backend, _, variant = label.partition(":")
    return Case("softmax", "small", (4,), "float32", backend, variant, status)


RIGHT = [case("numpy"), case("host:softmax")]
WRONG = [case("numpy"), case("host:softmax", "WRONG")]


def commands(run, output=None, width=140):
    return [line[6:].split("  #")[0].strip() for line in next_steps.lines(run, output, width)]


@pytest.fixture(autouse=True)
def nvcc(monkeypatch):
    monkeypatch.setattr(cuda, "nvcc", lambda: "/usr/bin/nvcc")


@pytest.mark.parametrize(("run", "output", "first"), [
    (run_of("bench", *RIGHT), "build/a.json", "cudalab show build/a.json"),
    (run_of("bench", *RIGHT), None, "cudalab bench ./mine/softmax.py -o bench.json"),
    (run_of("check", *RIGHT), None, "cudalab bench ./mine/softmax.py"),
    (run_of("bench", *WRONG), None, "cudalab check --sanitize ./mine/softmax.py"),
    (run_of("check", *WRONG, sanitize=True), None, "cudalab check ./mine/softmax.py --only host:softmax --seed 7"),
])  # fmt: skip
def test_two_or_three_commands_that_the_command_line_takes(run, output, first):
    found = commands(run, output)
    assert found[0] == first
    assert 1 <= len(found) <= 3
    for text in found:
        program, name, *words = shlex.split(text)
        assert program == "cudalab"
        command = main.get_command(Context(main), name)
        command.make_context(name, list(words))


def test_a_budget_that_numpy_misses_too_is_the_first_suspect():
    run = run_of("bench", case("numpy", "WRONG"), case("host:softmax", "WRONG"))
    assert commands(run) == [
        "cudalab check ./mine/softmax.py",
        "cudalab check ./mine/softmax.py --only host:softmax --sizes small --seed 7",
    ]
    assert "wider budget" in next_steps.lines(run, None, 140)[0]


def test_without_room_the_purpose_stands_above_the_command():
    lines = next_steps.lines(run_of("bench", *RIGHT), "a_rather_long_name_of_a_file.json", 60)
    assert lines[0] == "next: # these tables again, with bars"
    assert lines[1] == "      cudalab show a_rather_long_name_of_a_file.json"


def test_inspect_is_named_only_where_there_is_a_compiler(monkeypatch):
    assert "cudalab inspect ./mine/softmax.py" in commands(run_of("bench", *RIGHT))
    monkeypatch.setattr(cuda, "nvcc", lambda: None)
    assert "cudalab inspect ./mine/softmax.py" not in commands(run_of("bench", *RIGHT))


@pytest.mark.slow
def test_they_are_for_people(tmp_path):
    check = ["check", "plus_one", "--only", "numpy", "--device", "cpu", "--sizes", "small"]
    assert "next: cudalab bench plus_one" in CliRunner().invoke(main, check).output
    for quiet in (["-q"], ["--format", "json"]):
        assert "next:" not in CliRunner().invoke(main, [*check, *quiet]).output
