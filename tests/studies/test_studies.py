"""Every study in one process at its tiny sizes: its variants are right and timed, and it has a finding."""

from __future__ import annotations

from copy import deepcopy

import pytest
from studying import rows, tiny

from cudalab.results import record
from cudalab.study import found
from cudalab.study.run import study

pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("quick_studies")

NAMES = sorted(set(found.studies()) - {"ddp", "load-balance"})  # which need two processes
COUNTED_ON_A_GPU = ("jit-gelu", "profile", "training-graph")  # by tests of their own
NOT_EVERYWHERE = ("apex",)  # has no wheels
SWEEP = ("jit-gelu",)  # PyTorch's compiler takes seconds
UNKNOWN_HERE = ("training-graph", "cpu-vs-gpu")  # a part of whose finding needs a GPU
NOT_COMPARED = ("clocks", "cpu-vs-gpu", "data-values", "energy")  # with a baseline: float64 judges what they compute


def there(name, size, kind):
    """The variants of a study that run on this kind of device."""
    return {v.label for v in found.Workload(found.study(name), size).variants() if kind in v.devices}


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.sweep] * (n in SWEEP)) for n in NAMES])
def test_each_variant_is_right_and_timed_and_the_finding_is_made_of_the_numbers(studied, name):
    run = studied.run(name)
    for size in tiny(name):
        assert {label for label, case in rows(run, size).items() if case.status == record.OK} == there(
            name, size, "cpu"
        )
    ran = [case for case in run.cases if case.status != record.SKIPPED]
    for case in ran:
        assert (case.status, bool(case.times)) == (record.OK, True), (case.size, case.label, case.reason)
        assert name in NOT_COMPARED or (case.parity.ok and case.parity.n), (case.size, case.label)
    said = found.study(name).finding(run)
    assert said and "nan" not in said and ("?" not in said or name in UNKNOWN_HERE)
    other = deepcopy(run)
    for case in other.cases:
        if case.label != found.study(name).baseline:
            case.times = {}
    assert found.study(name).finding(other) or name in UNKNOWN_HERE  # what is missing is no reason to fail


@pytest.mark.gpu
@pytest.mark.parametrize("name", [name for name in NAMES if name not in COUNTED_ON_A_GPU])
def test_on_a_gpu(name):
    run = study(name, sizes=",".join(tiny(name)), device="cuda", budget=0.05)
    assert run.complete
    assert {case.size for case in run.cases if case.times} == set(tiny(name))
    for case in run.cases:
        due = case.label in there(name, case.size, "cuda") and case.label not in NOT_EVERYWHERE
        allowed = record.OK if due else record.SKIPPED
        assert case.status in (record.OK, allowed), (case.size, case.label, case.reason)
    assert found.study(name).finding(run)
