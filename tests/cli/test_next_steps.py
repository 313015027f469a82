"""The commands that stand below a run's tables fit its results, and the command line takes them."""

from __future__ import annotations

import shlex

import pytest
from commands import invoke
from typed import parsed

from cudalab.checks import nans
from cudalab.cli import next_steps
from cudalab.device import cuda
from cudalab.results.record import Case, Machine, Parity, Results
from cudalab.tools.inspect import compilers


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
    monkeypatch.setattr(compilers, "nvdisasm", lambda: "/usr/bin/nvdisasm")


@pytest.mark.parametrize(("run", "output", "first"), [
    (run_of("bench", *RIGHT), "build/a.json", "cudalab show --all build/a.json"),
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
        parsed(name, words)


def test_a_budget_that_numpy_misses_too_is_the_first_suspect():
    run = run_of("bench", case("numpy", "WRONG"), case("host:softmax", "WRONG"))
    assert commands(run) == [
        "cudalab check ./mine/softmax.py",
        "cudalab check ./mine/softmax.py --only host:softmax --size small --seed 7",
    ]
    assert "widen the spec's budget" in next_steps.lines(run, None, 140)[0]


def wrong(label, reason="", **parity):
    found = case(label, "WRONG")
    found.reason, found.parity = reason, Parity(**{"ok": False, "n": 64, "wrong": 64, "rel_l2": 0.003, **parity})
    return found


FINITE, INFINITE, ALONE = {"max_ulp": 9.0}, {"max_ulp": None}, "the wrong entry alone, with the same inputs"


@pytest.mark.parametrize(
    ("advice", "found"),
    [
        ("widen", [wrong("numpy", **FINITE), wrong("host:a", **FINITE)]),
        ("atol", [wrong("numpy", "error 2e-7, where values are near 0", **FINITE), wrong("host:a", **FINITE)]),
        ("atol", [wrong("numpy", max_ulp=2e4, rel_l2=2e-6), wrong("host:a", **FINITE)]),
        *((said, [case("numpy"), wrong("host:a", "error 9e-7, where values are near 0", wrong=3, rel_l2=off)])
          for said, off in (("where terms cancel", 1e-7), ("memory errors", 1e-5))),
        ("overflows in NumPy too", [wrong("numpy", **INFINITE), wrong("host:a", **INFINITE)]),
        *(("memory errors", [wrong("numpy", **FINITE), wrong("host:a", **far)])
          for far in (INFINITE, {"max_ulp": 5e6, "rel_l2": 0.1})),
        ('nans="ignored"', [wrong("numpy", **FINITE), wrong("host:a", f"got 0; {nans.ADVICE}", **INFINITE)]),
        *(("set every element", [wrong("numpy", **FINITE), wrong("host:a", cause, **INFINITE)])
          for cause in ("y is read before it is written: zero it", "never written: 1 of 64 elements of y")),
        (ALONE, [wrong("host:a", max_ulp=5e5)]),
        *((advice, [case("numpy"), wrong("host:a", f"k: writes 4 bytes outside an array at {place}:67", **INFINITE)])
          for advice, place in ((ALONE, "my-k.cu"), ("memory errors", "atomics.h"))),
        *(("memory errors", [wrong("host:a", **far)])
          for far in (INFINITE, {"wrong": 3}, {"rel_l2": 1e20}, {"wrong": 0}, {"rel_l2": 0.5})),
    ],
)  # fmt: skip
def test_the_advice_follows_from_what_is_wrong(advice, found):
    said = next_steps.lines(run_of("check", *found), None, 999)[0].partition("  # ")[2]
    assert advice in said and (advice != ALONE or said == ALONE)


def test_all_kernels_the_size_and_quick_are_kept():
    other = Case("gelu", "small", (4,), "float32", "host", "gelu")
    options = {"kernels": ["softmax", "gelu"], "sizes": "small", "processes": 1, "budget": 0.2}
    assert commands(run_of("bench", *RIGHT, other, **options))[0] == (
        "cudalab bench softmax gelu --size small --quick -o bench.json"
    )
    assert commands(run_of("check", *RIGHT, other, **options))[0] == "cudalab bench softmax gelu --size small"


def test_without_room_the_purpose_stands_above_the_command():
    lines = next_steps.lines(run_of("bench", *RIGHT), "a_rather_long_name_of_a_file.json", 60)
    assert lines == [  # the screen without a GPU is short, and these need no words
        "next: cudalab show --all a_rather_long_name_of_a_file.json",
        "      cudalab report a_rather_long_name_of_a_file.json -o a_rather_long_name_of_a_file.html",
    ]
    assert next_steps.lines(run_of("check", *RIGHT, huge=True), None, 50)[2:4] == [
        "      # keeps all results, for show and compare",
        "      cudalab check ./mine/softmax.py -o check.json",
    ]


@pytest.mark.parametrize("lacking", [(cuda, "nvcc"), (compilers, "nvdisasm")], ids=["nvcc", "nvdisasm"])
def test_inspect_is_named_only_where_it_can_run(monkeypatch, lacking):
    assert "cudalab inspect ./mine/softmax.py" in commands(run_of("check", *RIGHT, huge=True))
    monkeypatch.setattr(*lacking, lambda: None)
    assert "cudalab inspect ./mine/softmax.py" not in commands(run_of("check", *RIGHT, huge=True))


@pytest.mark.parametrize("tried", [False, True])
def test_a_right_kernel_on_the_cpu_is_not_known_to_be_right_in_huge_arrays(tried):
    huge = "cudalab check --huge ./mine/softmax.py"
    assert (huge in commands(run_of("check", *RIGHT, huge=tried))) == (not tried)
    assert huge not in commands(run_of("check", *WRONG)) + commands(run_of("check", case("numpy")))
    skipped = commands(run_of("check", case("numpy"), case("host:softmax", "skipped")))
    assert [words.split()[1] for words in skipped] == ["bench", "check", "inspect"] and huge not in skipped


@pytest.mark.sweep
def test_they_are_for_people(tmp_path):
    check = ["check", "plus_one", "--only", "numpy", "--device", "cpu", "--sizes", "small"]
    assert "next: cudalab bench plus_one" in invoke(*check).output
    for quiet in (["-q"], ["--format", "json"]):
        assert "next:" not in invoke(*check, *quiet).output
