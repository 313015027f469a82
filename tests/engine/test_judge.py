"""Which timed results are compared with the reference; who may take subnormal numbers for 0."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from cpu_rows import cpu_rows
from small_groups import planned
from specs import spec

from cudalab import Budget, backends
from cudalab.engine import judge
from cudalab.engine.judge import FULL, SMALL, Judge
from cudalab.results import record
from cudalab.results.record import Parity

LARGE = np.zeros(SMALL // 4 + 1, np.float32)


class Counting(Judge):
    """Counts comparisons in place of making them; a digest below 0 is that of a wrong result."""

    def __init__(self, seed):
        job = SimpleNamespace(seed=0, device=None, known={})
        group = SimpleNamespace(kernel=None, dtype=None, values="")
        super().__init__(job, group, SimpleNamespace(names=[]), np.random.default_rng(seed))
        self._budgets["v"], self._names["v"] = {}, ""
        self.compared = []

    def compare(self, output, label, contents=0, digest=None):
        self.compared.append(digest)
        self._compared[self._key(contents, digest, [output], label)] = found = Parity(ok=digest >= 0, n=1)
        return found


def wrong_found(seed, digests, clock="cold", output=LARGE, noise=0):
    """Whether one of these results is found to be wrong; `noise`: results of another clock that come before them."""
    judge = Counting(seed)
    for i in range(noise):
        judge.of_timed(LARGE, "v", 0, 10**6 + i, "hot")
    found = (judge.of_timed(output, "v", 0, digest, clock) for digest in digests)
    return any(parity is not None and not parity.ok for parity in found)


def digests(total, wrong):
    """All differ; those whose number is in `wrong` are below 0."""
    return [-1 - i if i in wrong else 1 + i for i in range(total)]


def escape(total, wrong):
    """The probability that no wrong result is compared."""
    return float(np.prod([1 - min(1, FULL / (i + 1)) for i in wrong]))


@pytest.mark.parametrize("total", [*range(1, 200), 400, 1600, 12_800])
def test_a_fifth_of_wrong_results_escapes_with_less_than_one_percent_wherever_they_are(total):
    assert escape(total, range(total - -(-total // 5), total)) < 0.01  # the last ones are compared least


@pytest.mark.sweep
@pytest.mark.parametrize("noise", [0, pytest.param(640, marks=pytest.mark.sweep)])
def test_wrong_results_that_come_late_are_found(noise):
    total = 96
    late = digests(total, range(total - total // 5, total))
    missed = sum(not wrong_found(seed, late, noise=noise) for seed in range(1000))
    assert missed <= 20  # of 1,000, at most 0.9 % of which are expected


def test_a_wrong_result_of_a_variant_with_equal_bits_is_compared_at_once():
    for seed in range(20):
        judge = Counting(seed)
        assert all(judge.of_timed(LARGE, "v", 0, 7, "cold").ok for _ in range(500))
        assert not judge.of_timed(LARGE, "v", 0, -7, "cold").ok


def test_the_first_result_on_each_contents_is_compared():
    for seed in range(20):
        judge = Counting(seed)
        for i in range(500):
            judge.of_timed(LARGE, "v", 0, i, "cold")
        assert not judge.of_timed(LARGE, "v", 1, -1, "cold").ok


def test_small_results_are_always_compared():
    judge = Counting(0)
    for i in range(200):
        assert judge.of_timed(np.zeros(4, np.float32), "v", 0, i, "cold")
    assert len(judge.compared) == 200 and judge.left_out("v") == []


def test_the_row_says_how_many_were_compared():
    counting = Counting(0)
    for i in range(400):
        counting.of_timed(LARGE, "v", 0, i, "cold")
    compared = len(counting.compared)
    assert FULL < compared < 200
    assert counting.left_out("v") == [judge.RESTLESS.format(compared, 400)]


# ---- libraries that take subnormal numbers for 0 ---------------------------------------------------------------------


def flushing(function):
    """A reference that computes as code with -ftz=true does, but not on the lab's copies, which are float64."""

    def flush(x):
        parts = np.ascontiguousarray(x).view(x.real.dtype)
        small = (parts.itemsize < 8) & (np.abs(parts) < 2.0**-126)
        return np.where(small, np.copysign(parts.dtype.type(0), parts), parts).view(x.dtype)

    return lambda x: flush(function(flush(x)))


@pytest.mark.parametrize(("reference", "fields"), [
    (lambda x: 2 * x, {"budgets": Budget(0)}),
    (lambda x: 1 / x, {"budgets": Budget(2)}),
    (lambda x: x * x, {"budgets": Budget(2), "dtypes": ("complex64",)}),
])  # fmt: skip
def test_a_backend_that_always_takes_subnormal_numbers_for_0_is_right_and_its_rows_say_so(
    tmp_path, monkeypatch, reference, fields
):
    def found():
        return cpu_rows(group, "numpy")

    group = next(g for g in planned(spec(tmp_path, flushing(reference), pointwise=True, **fields), sample=1 << 12))
    assert [case.status for case in found()] == [record.WRONG], "what libraries do with hard values is theirs"
    numpy = backends.by_name()["numpy"]
    monkeypatch.setattr(numpy, "flushes", "why", raising=False)
    monkeypatch.setattr(numpy, "variants", lambda kernel: ("", "again"))
    said = "it takes subnormal numbers for 0 (why); apart from that its results are right"
    assert [(case.status, said in case.notes) for case in found()] == [(record.OK, True)] * 2
