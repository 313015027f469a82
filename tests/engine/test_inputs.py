"""The contents that inputs take in turn: they differ between seeds, and one process draws new ones at the end."""

from __future__ import annotations

import numpy as np
import pytest
import specs
from cpu_rows import cpu_rows

from cudalab import Budget, In
from cudalab.checks.inputs import alike
from cudalab.device.cpu import Cpu
from cudalab.engine import inputs
from cudalab.engine.groups import Group
from cudalab.engine.job import Job
from cudalab.engine.selection import Selection
from cudalab.spec.dtype import dtype


def kernel(folder, **fields):
    return specs.kernel(folder, "one", "", sizes={"small": (400,)}, **{
        "reference": lambda x: x + 1, "budgets": Budget(1), **fields})  # fmt: skip


def row(made, modes=("launch",)):
    return cpu_rows(Group(made, "small", (400,), dtype("float32")), "numpy", modes=modes)[0]


def constant(share):
    """Inputs of which this share is the same for each seed."""

    def make(shape, kind, rng):
        x = np.random.default_rng(1).standard_normal(shape)
        fresh = round(x.size * (1 - share))
        x.reshape(-1)[:fresh] = rng.standard_normal(fresh)
        return {"x": x.astype(kind)}

    return make


@pytest.mark.parametrize("share", [1.0, 0.99, 0.6])
def test_a_kernel_whose_inputs_hardly_change_is_not_timed(tmp_path, share):
    case = row(kernel(tmp_path, inputs=constant(share)))
    assert case.status == "error" and not case.times
    assert f"{share:.0%} of the elements are the same for each seed" in case.reason
    assert case.reason.endswith("draw them from rng, the third parameter")
    assert row(kernel(tmp_path, inputs=constant(share)), modes=()).status == "ok"  # a check alone times nothing


@pytest.mark.parametrize(
    "fields", [{"inputs": constant(0.4)}, {}, {"inputs": {"x": In("int32", 0, 3)}}, {"inputs": {"x": In("bool")}}]
)
def test_inputs_of_few_values_change_enough(tmp_path, fields):
    case = row(kernel(tmp_path, reference=lambda x: x * 1.0, **fields))
    assert case.status == "ok", case.reason


def drawn(n, seed, **constant):
    return {"x": np.random.default_rng(seed).standard_normal(n), **constant}


@pytest.mark.parametrize(
    ("of_seed", "in_place", "said"),
    [
        (lambda seed: drawn(4000, seed, table=np.arange(1000.0)), (), ""),
        (lambda seed: drawn(250, seed, table=np.arange(1000.0)), (), "80% of the elements"),
        (lambda seed: drawn(9, seed, y=np.zeros(500)), (), "98% of the elements"),
        (lambda seed: drawn(9, seed, y=np.zeros(500)), ("y",), ""),  # no input
        (lambda seed: {"x": np.zeros(10)}, (), ""),  # few elements
        (lambda seed: {"x": np.zeros(0)}, (), ""),
        (lambda seed: {"x": np.zeros(100 + seed)}, (), ""),  # other shapes
    ],
)
def test_a_large_constant_share_is_said_and_a_small_one_is_no_harm(of_seed, in_place, said):
    found = alike(of_seed(1), of_seed(2), in_place=in_place)
    assert said in found and bool(said) == bool(found)


@pytest.mark.parametrize(("large", "confirming"), [(False, 3), (True, 1)])
def test_of_large_inputs_one_process_draws_new_ones_at_the_end_and_the_seed_says_which(
    tmp_path, monkeypatch, large, confirming
):
    monkeypatch.setattr(inputs, "LARGE", 0 if large else 1 << 30)
    group, found = Group(kernel(tmp_path), "small", (400,), dtype("float32")), []
    for seed in (6, 7):
        last = []
        for process in range(3):
            device = Cpu()
            job = Job(device, Selection(), ("launch",), seed, 0.01, lambda step: None, processes=3, process=process)
            arrays = group.arrays(seed)
            operands = device.place(group.kernel, group.dtype, arrays)
            last.append(inputs.Inputs(job, group, arrays, None, operands).in_turn().last)
        found.append(last)
    assert [sum(last) for last in found] == [confirming] * 2
    assert (found[0] == found[1]) is not large
