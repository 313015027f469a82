"""A bench tries the hard inputs of a kernel once: an entry that is wrong for them has no time."""

from __future__ import annotations

from pathlib import Path

import pytest

import cudalab
from cudalab.checks.parity import Parity
from cudalab.cli import next_steps
from cudalab.engine import hard
from cudalab.engine.groups import Group
from cudalab.engine.hard import HardInputs
from cudalab.results import record
from cudalab.results.record import Case
from cudalab.spec import find
from cudalab.spec.dtype import dtype

EXAMPLE = Path(__file__).parents[2] / "bench" / "examples" / "softmax.py"


def row(group, label, status=record.OK, reason=""):
    backend, _, variant = label.partition(":")
    case = Case(group.name, group.size, group.shape, group.dtype.name, backend, variant)
    case.status, case.reason, case.parity = status, reason, Parity(ok=status == record.OK, n=7)
    return case


class Bench:
    """A run whose entries are wrong at some hard inputs; it keeps what was tried."""

    def __init__(self, labels, wrong=()):
        self.labels, self.wrong, self.tried = labels, dict(wrong), []
        self.hard = HardInputs(self.check, lambda group: self.labels)

    def check(self, group, omit):
        here = [label for label in self.labels if label not in omit]
        self.tried.append((group.size, here))
        status = {label: record.WRONG if self.wrong.get(label) == group.values else record.OK for label in here}
        return [row(group, label, status[label], "it overflows") for label in here]

    def rows(self, kernel=EXAMPLE, size="small", failed=()):
        one = find.kernel(str(kernel))
        group = Group(one, size, one.sizes[size], dtype("float32"))
        cases = [row(group, label, record.ERROR if label in failed else record.OK) for label in self.labels]
        self.hard.judge(cases, group)
        return {case.label: case for case in cases}


def test_an_entry_that_is_wrong_at_a_hard_input_is_wrong_at_every_size():
    bench = Bench(["numpy", "host:softmax", "host:other"], {"host:softmax": "large"})
    for size in ("small", "large"):
        rows = bench.rows(size=size)
        bad = rows["host:softmax"]
        assert (bad.status, bad.reason) == (record.WRONG, "at hard inputs, 5x1023, large: it overflows")
        assert not bad.parity.ok
        assert rows["numpy"].status == rows["host:other"].status == record.OK
    sizes = [size for size, _ in bench.tried]
    assert len(sizes) == len(set(sizes)) > 10  # once, and not again at the second size
    assert {tuple(labels) for _, labels in bench.tried} == {("host:softmax", "host:other")}


def test_entries_that_fail_already_and_libraries_are_not_tried():
    bench = Bench(["numpy", "host:softmax"])
    bench.rows(failed=["host:softmax"])
    assert bench.tried == []


def test_an_entry_that_is_right_at_a_later_size_only_is_tried_there():
    bench = Bench(["host:softmax", "host:other"], {"host:other": "large"})
    assert bench.rows(failed=["host:other"])["host:softmax"].status == record.OK
    assert {tuple(labels) for _, labels in bench.tried} == {("host:softmax",)}
    assert bench.rows(size="large")["host:other"].status == record.WRONG
    assert bench.tried[-1][1] == ["host:other"]


def test_what_there_was_no_time_for_is_noted(monkeypatch):
    monkeypatch.setattr(hard, "SECONDS", -1.0)
    bench = Bench(["host:softmax"])
    (note,) = bench.rows()["host:softmax"].notes
    assert note.endswith(" hard inputs were not tried, to save time") and bench.tried == []


def test_pointwise_kernels_get_hard_values():
    bench = Bench(["host:gelu_vec"])
    bench.rows("gelu")
    assert [size for size, _ in bench.tried] == ["every exponent"]


@pytest.fixture
def spec(tmp_path):
    """A softmax that does not subtract the maximum."""
    for suffix in (".py", ".cu"):
        text = EXAMPLE.with_suffix(suffix).read_text().replace("expf(x[i] - top)", "expf(x[i])")
        (tmp_path / f"softmax{suffix}").write_text(text)
    return str(tmp_path / "softmax.py")


@pytest.mark.process
def test_a_check_may_end_where_an_entry_is_wrong_first_and_ends_where_the_cu_does_not_compile(spec):
    run = cudalab.check(spec, only="numpy,host", device="cpu", exit_first=True)
    assert not run.complete
    *before, last = [case.status for case in run.cases if case.backend == "host"]
    assert last == record.WRONG and set(before) == {record.OK} and len(before) > 3
    code = Path(spec).with_suffix(".cu")
    code.write_text(code.read_text().replace("float top", "float top top"))
    run = cudalab.check(spec, only="host,numpy,torch_*", device="cpu")
    found = [(case.size, case.label, case.status) for case in run.cases if case.status != record.SKIPPED]
    assert found == [("small", "host:softmax", record.ERROR)]
    assert run.complete


@pytest.mark.process
def test_a_softmax_without_its_maximum_is_wrong_in_a_bench(spec):
    run = cudalab.bench(spec, sizes="small", only="numpy,host", device="cpu", budget=0.01)
    ours, numpy = sorted(run.cases, key=lambda case: case.backend)
    assert numpy.status == record.OK and numpy.times
    assert ours.status == record.WRONG and ours.reason.startswith("at hard inputs, 5x1023, ")
    (again,) = [line for line in next_steps.lines(run, None, 200) if "--only host:softmax" in line]
    assert "--size" not in again
