"""The search for the size at which one variant overtakes another, with a worker of known answers."""

from __future__ import annotations

import re
from math import prod

import numpy as np
import pytest
from commands import invoke, refused
from standing_in import StandIn

import cudalab
from cudalab.base.errors import CudalabError
from cudalab.engine import session
from cudalab.engine.rows import row
from cudalab.report.crossover import sentences
from cudalab.results import record
from cudalab.tools.crossover.bisect import between, crossover

ONE, OTHER = "pycuda:gelu_vec", "torch_native"


class Worker(StandIn):
    """`times(label, elements)` seconds, or a status in place of a time."""

    noise = 0.002

    def cases(self, group, timed=True):
        found = [row(group, label) for label in self.labels(group)]
        for case in found:
            case.nbytes = 8 * prod(group.shape)
            said = type(self).times(case.label, prod(group.shape))
            if isinstance(said, str):
                case.status, case.reason = said, "because"
            else:
                case.times = {"cold": [[float(s)] for s in said * self.rng.normal(1, self.noise, 20)]}
        return found


@pytest.fixture
def lab(monkeypatch):
    """Let the worker take the given times, and be told which sizes it was asked for."""

    def install(times, **attributes):
        seen = []

        def noted(label, n):
            seen.append(n)
            return times(label, n)

        attributes = {"times": staticmethod(noted), **attributes}
        monkeypatch.setattr(session, "Team", type("Worker", (Worker,), attributes))
        return seen

    return install


def lines(label, n):
    """1 us + n / 1e12 s against 3 us + n / 4e12 s: equal at n = 2.67e6."""
    return 1e-6 + n / 1e12 if label == ONE else 3e-6 + n / 4e12


EQUAL = 2e-6 / (1 / 1e12 - 1 / 4e12)


def test_the_interval_holds_the_crossing_and_the_verdicts_at_its_ends_are_sure(lab, tmp_path):
    lab(lines)
    path = tmp_path / "probes.json"
    found = crossover(ONE, OTHER, dtype="float16", output=path)
    ((low, high),) = found.changes
    assert low.elements < EQUAL < high.elements < 1.35 * low.elements  # one process
    assert found.ahead(low) == ONE and found.ahead(high) == OTHER
    ((low, high),) = crossover(OTHER, ONE).changes
    assert low.elements < EQUAL < high.elements
    saved = cudalab.load(path)
    assert saved.complete and {c.dtype for c in saved.cases} == {"float16"}
    assert [c.size for c in saved.cases if c.label == ONE] == [p.size for p in found.probes]
    said = f"{ONE} is faster up to {low.size}, {OTHER} from {high.size} on (gelu, float16, cold)"
    assert sentences(found)[0].startswith(said)


@pytest.mark.parametrize("resolution", [0.3, 0.02])
def test_the_interval_is_as_narrow_as_asked_where_the_verdict_is_never_unsure(lab, resolution):
    seen = lab(lambda label, n: 1e-6 if (label == ONE) == (n < 100_000) else 2e-6)
    ((low, high),) = crossover(ONE, OTHER, resolution=resolution).changes
    assert low.elements < 100_000 <= high.elements <= (1 + resolution) * low.elements + 1
    assert len(seen) / 2 <= 2 + 1.5 * np.log2(14 / np.log2(1 + resolution))
    assert all(n % 64 == 0 for n in seen)


def test_sizes_that_are_not_decided_lie_inside(lab):
    lab(lambda label, n: 2e-6 if label == ONE or 2**14 <= n <= 2**20 else (3e-6 if n < 2**14 else 1e-6))
    found = crossover(ONE, OTHER)
    ((low, high),) = found.changes
    assert 2**14 / 1.06 < low.elements < 2**14 and 2**20 < high.elements < 2**20 * 1.06
    assert "; not decided at " in sentences(found)[0]


def test_no_crossing_is_said_with_both_factors_and_an_end_that_is_not_sure_is_none(lab):
    seen = lab(lambda label, n: (2e-6 if n < 2**20 else 1e-3) if label == ONE else (3e-6 if n < 2**20 else 1.1e-3))
    found = crossover(ONE, OTHER)
    assert len(seen) == 4 and not found.changes
    (said,) = sentences(found)
    factors = r"by 1\.(49|5|50|51)\d*x \(1.* to 1.*\) at 1024 and 1\.(09|10|11)\d*x \(1.* to 1.*\) at 16777216"
    assert re.fullmatch(rf"{ONE} is faster at both ends, {factors} \(gelu, float32, cold\)", said)
    lab(lambda label, n: 1e-6 if n < 2**20 or label == ONE else 2e-6)
    (said,) = sentences(crossover(ONE, OTHER))
    neither = r"at 1024 which is faster is not decided \(0\.9\d+ to 1\.0\d+x\)"
    assert re.match(rf"no crossover found: {neither}, at 16777216 pycuda", said)


def test_more_than_one_change_is_said(lab):
    def times(label, n):
        ahead = ONE if n < 2**12 or 2**18 <= n < 2**22 else OTHER
        return 1e-6 if label == ahead and not 2**16 <= n < 2**18 else 2e-6  # unsure where it looks first

    lab(times)
    found = crossover(ONE, OTHER)
    assert len(found.changes) == 3
    assert sentences(found)[-1].startswith("several crossovers")


def test_one_dimension_of_two_grows(lab):
    seen = lab(lambda label, n: 1e-6 if (label == ONE) == (n < 2**20) else 2e-6)
    found = crossover("pycuda:add2d_vec", "torch_eager", lowest="65536x1024", highest="16x1024")
    assert {p.size.split("x")[1] for p in found.probes} == {"1024"} and min(seen) == 2**14


@pytest.mark.parametrize(("status", "code"), [(record.WRONG, 1), (record.ERROR, 2), (record.SKIPPED, 2)])
def test_a_wrong_answer_or_an_error_ends_the_search_and_what_was_measured_is_kept(lab, tmp_path, status, code):
    lab(lambda label, n: status if label == OTHER and 2**18 < n < 2**28 else lines(label, n))
    path = tmp_path / "probes.json"
    assert "because" in refused("crossover", ONE, OTHER, "--to", "2^28", "-o", path, "-q", code=code)
    assert len(cudalab.load(path).cases) >= 4


def test_ctrl_c_keeps_what_there_is(lab, tmp_path):
    def times(label, n):
        if 2**10 < n < 2**24:
            raise KeyboardInterrupt
        return lines(label, n)

    lab(times)
    path = tmp_path / "probes.json"
    done = invoke("crossover", ONE, OTHER, "-o", path, "-q")
    assert done.exit_code == 130 and f"stopped after 2 sizes; {path} has what was measured" in done.output
    saved = cudalab.load(path)
    assert not saved.complete and {c.size for c in saved.cases} == {"1024", "16777216"}


def test_the_table_fits_80_columns(lab):
    lab(lines)
    done = invoke("crossover", ONE, OTHER, "-q", COLUMNS="80")
    assert done.exit_code == 0 and max(map(len, done.output.splitlines())) <= 80 and "\x1b" not in done.output
    rows = [line.split() for line in done.output.splitlines() if line[:1].isdigit()]
    assert [int(cells[0]) for cells in rows] == sorted(int(cells[0]) for cells in rows)
    assert rows[0][-1] == ONE and rows[-1][-1] == OTHER


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((ONE, OTHER, "--kind", "graph"), "has no graph times here; it has: cold"),
        ((ONE, "numpy"), "numpy is for the CPU"),
    ],
)
def test_what_the_worker_has_not_is_one_clear_message(lab, args, message):
    lab(lines)
    assert message in refused("crossover", *args, "-q")


def test_on_the_cpu_a_gpus_variant_is_refused_with_the_reason(lab):
    lab(lines, device="cpu")
    with pytest.raises(CudalabError, match="needs a GPU, and no GPU here"):
        crossover("numpy", ONE)


def test_between():
    assert between(5, 6) is None and between(5, 7) == 6
    assert between(2**10, 2**20) == 2**15
    for low, high in ((1, 2**28), (64, 2**20), (1000, 1060), (3, 9), (2**27, 2**28)):
        assert low < between(low, high) < high and between(low, high) == pytest.approx((low * high) ** 0.5, rel=0.3)
    assert between(32, 4096, range(0, 5000, 96)) == 384
    assert between(32, 4096, [32, 64, 4096]) == 64
    assert between(32, 4096, [16, 32, 4096]) is None


def test_the_guess_at_the_number_of_sizes_is_told(lab):
    lab(lines)
    events = []
    crossover(ONE, OTHER, progress=events.append)
    finished = [e for e in events if e.finished is not None]
    assert [e.done for e in finished] == list(range(1, len(finished) + 1))
    assert all(e.done < e.groups for e in finished)


def test_the_worker_has_what_the_search_needs():
    """The stand-in has no method that the real one lacks."""
    from cudalab.engine.team import Team

    assert all(hasattr(Team, name) for name in ("labels", "cases", "glimpses", "__enter__", "__exit__"))
