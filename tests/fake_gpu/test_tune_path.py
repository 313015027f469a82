"""`cudalab tune` end to end on the CPU stand-in: Kernel Tuner itself, in the lab's worker, with PyCUDA."""

from __future__ import annotations

from pathlib import Path

import pytest

from cudalab.engine import runs
from cudalab.report import tuning as report
from cudalab.spec import tuned as stored
from cudalab.tools.tune import tune

pytest.importorskip("kernel_tuner")
DATA = Path(__file__).parents[1] / "data" / "tune"


@pytest.fixture
def spec(tmp_path):
    """A copy of a pair of files, beside which a winner may be kept."""

    def copied(name):
        for suffix in (".cu", ".py"):
            (tmp_path / f"{name}{suffix}").write_bytes((DATA / f"{name}{suffix}").read_bytes())
        return tmp_path / f"{name}.py"

    return copied


def tuned(path, **options):
    return tune.tune(str(path), **{"sizes": "small", **options}, budget=0.05, finalists=2, timeout=60)


@pytest.mark.sweep
def test_what_is_wrong_is_never_timed_and_the_winner_is_used(spec):
    path = spec("scale")
    (found,) = tuned(path, sizes="small,1000")
    timed = [t.parameters for t in found.ranking]
    assert sorted(p["THREADS"] for p in timed) == [32, 256]
    assert all(p["PER_THREAD"] == 1 for p in timed)
    assert {t.parameters["PER_THREAD"] for t in found.excluded} == {3}
    assert all("WRONG" in t.reason for t in found.excluded)
    (choice,) = stored.load(path.with_suffix(".tuned.json")).choices
    assert choice.parameters == found.winner.parameters
    assert "4 of 4 configurations tried" in report.render([found])
    stored.save(path.with_suffix(".tuned.json"), [_with(choice, THREADS=256)])
    run = runs.bench(str(path), sizes="small", only="pycuda", budget=0.05, modes="launch")
    row = next(c for c in run.cases if c.label == "pycuda:scale")
    assert row.parameters == {"THREADS": 256, "PER_THREAD": 1}
    assert row.notes == [n for n in row.notes if "tuned" not in n]


def _with(choice, **parameters):
    import msgspec

    return msgspec.structs.replace(choice, parameters={**choice.parameters, **parameters})


@pytest.mark.sweep
def test_a_configuration_that_fails_costs_itself_alone(spec):
    (found,) = tuned(spec("faulty"))
    assert [t.parameters for t in found.ranking] == [{"HOW": 0}]
    reasons = {t.parameters["HOW"]: t.reason for t in found.excluded}
    assert "HOW is 1" in reasons[1]
    assert reasons.keys() == {1, 2, 3}
    assert all(reasons.values())
    assert found.winner is found.finalists[0]


@pytest.mark.sweep
def test_a_strategy_that_samples(spec):
    (found,) = tuned(spec("scale"), strategy="random_sample", most=2)
    assert len(found.ranking) + len(found.excluded) == 2


def test_kernel_tuner_has_the_strategies():
    from kernel_tuner.interface import strategy_map

    assert set(tune.STRATEGIES) <= set(strategy_map)
