"""`--size fit`: which dimension changes, how far, what bounds it and what is said; the search runs in this process."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from specs import spec

from cudalab import Budget, Launch, Out
from cudalab.base import memory
from cudalab.base.errors import InputError, Unavailable
from cudalab.engine import fit
from cudalab.engine.groups import Group
from cudalab.results.record import Case, Machine
from cudalab.spec import find
from cudalab.spec.dtype import dtype
from cudalab.spec.sizes import parse

GIB = 1 << 30
CPU = fit.Room(Machine("cpu", "a processor", {}), 4 * GIB, ("host:k", "numpy"), ("launch",), host=4 * GIB)
LABELS = ("pycuda:a", "pycuda:b", "cupy_raw:a", "torch_eager", "torch_compile", "triton")


def card(gib, **more):
    """A GPU with so much memory, whose bus moves as many bytes a second as that of real ones of the size."""
    details = {"memory_bytes": gib * GIB, "memory_clock_hz": 1e9, "memory_bus_bits": 200 * gib}
    fields = {"most": min(8, gib // 4), "host": 128 * GIB, **more}
    return fit.Room(Machine("cuda", "a card", details), int(0.99 * gib * GIB), LABELS, ("launch", "graph"), **fields)


def group(kernel, text="fit"):
    ((shape, _, share),) = parse(text, kernel.sizes, fit=True).values()
    return Group(kernel, text, shape, dtype("float32"), fit=share)


def rows_of(tmp_path, launch=None, **more):
    def usual(x, y):
        return Launch((x.shape[0],), (32,), (x, y, np.int32(x.shape[1])))

    cu = "__global__ void k(const float* x, float* y, int n) {}"
    fields = {"sizes": {"small": (64, 100), "large": (512, 1000)}, "edges": ((1, 1), (3, 33)), "shapes": {"x": "r c"}}
    return spec(tmp_path, **{"cu": cu, "entries": {"k": launch or usual}, "budgets": Budget(0), **fields, **more})


@pytest.fixture(autouse=True)
def here(monkeypatch):
    """The search in this process, and a reference whose costs are in proportion to its elements."""
    monkeypatch.setattr(fit, "in_fork", lambda call, seconds: call())
    monkeypatch.setattr(fit, "reference_cost", lambda kernel, dtype, shape, *more: (1e-9 * kernel.elements(shape), 1.0))


SHOWN = ("gelu", "matmul", "bias_gelu")  # each of its kind: the others are like them


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in SHOWN else pytest.mark.sweep) for name in find.lab_names()]
)
def test_each_kernel_of_the_lab_fills_cards_of_all_sizes(name):
    kernel = find.kernel(name)
    on_cpu, *found = (fit.fitted(group(kernel), room) for room in (CPU, *map(card, (8, 24, 80, 141))))
    for one in (on_cpu, *found):
        kernel.accepts(one.shape)
        assert "x".join(map(str, one.shape)) in one.fitted
    assert 2**19 <= kernel.elements(on_cpu.shape) <= fit.ON_CPU
    elements = [kernel.elements(one.shape) for one in found]
    assert elements == sorted(elements) and elements[2] >= 2 * elements[0]


def test_the_run_takes_the_share(tmp_path):
    kernel, usual = rows_of(tmp_path), card(80)
    for share, room in ((0.8, usual), (0.4, usual), (0.8, card(8))):
        one = fit._answer(group(kernel, f"fit:{share}"), room)
        assert 0.9 < one.nbytes / room.within(share) <= 1
        assert one.shape[1] == 1000
    rows = fit.fitted(group(kernel), usual).shape[0]
    assert fit.fitted(group(kernel), replace(usual, modes=("launch",), labels=LABELS[:1])).shape[0] > 2 * rows
    less = replace(usual, free=usual.free - (100 << 20))  # another program's, which changes no size
    assert fit.fitted(group(kernel), less).shape[0] == rows


def test_what_a_launch_and_the_spec_refuse_bounds_it(tmp_path):
    def flat(x, y):
        return Launch((1, x.shape[0]), (32,), (x, y, np.int32(x.shape[1])))

    def short(x, y):
        if x.shape[1] > 3000:
            raise ValueError("rows of 3000 elements at most")
        return flat(x, y)

    other = fit.fitted(group(rows_of(tmp_path, flat)), card(80))
    assert other.shape[0] <= 65_535 and other.shape[1] > 2000
    kept = fit.fitted(group(rows_of(tmp_path, short)), card(80))
    assert kept.shape[0] <= 65_535 and kept.shape[1] <= 3000
    assert "blocks in y and z" in kept.fitted or "3000 elements at most" in kept.fitted
    both = rows_of(tmp_path, entries={"k": flat, "other": lambda x, y: 1 / 0})
    assert fit.fitted(group(both), card(8)).shape[1] == 1000  # an entry that never launches bounds nothing
    multiple = rows_of(tmp_path, dims={"r": "multiple of 8"}, edges=((8, 1), (16, 33)))
    assert fit.fitted(group(multiple), card(8)).shape[0] % 8 == 0


def test_the_reference_the_machine_and_the_processor_bound_it(tmp_path, monkeypatch):
    one = group(rows_of(tmp_path))
    assert "no array has more than 4,194,304 elements" in fit.fitted(one, CPU).fitted
    assert "of the machine's memory" in fit.fitted(one, card(80, host=GIB)).fitted
    monkeypatch.setattr(fit, "reference_cost", lambda *more: 1 / 0)
    with pytest.raises(Unavailable, match="no size was found that fits: ZeroDivisionError"):
        fit.fitted(one, CPU)
    monkeypatch.setattr(fit, "reference_cost", lambda kernel, dtype, shape, *more: (1e-12 * np.prod(shape) ** 2, 1.0))
    slow = fit.fitted(one, card(80))
    assert "the reference takes more than 20 s" in slow.fitted
    assert (np.prod(slow.shape) * 1.0) ** 2 * 1e-12 <= 20


def test_dimensions_in_proportion_and_inputs_that_a_function_makes(tmp_path):
    def inputs(shape, dtype, rng):
        return {"x": rng.standard_normal(shape).astype(dtype)}

    square = {"sizes": {"small": (64, 128), "large": (512, 1024)}, "edges": ((1, 2),), "inputs": inputs}
    kernel = rows_of(tmp_path, shapes={}, outputs={"y": Out()}, **square)
    rows, cols = fit.fitted(group(kernel), card(24)).shape
    assert cols == 2 * rows > 2000


def test_a_baseline_keeps_its_size_and_too_little_memory_is_said(tmp_path):
    one = group(rows_of(tmp_path))
    largest = fit.fitted(one, card(141)).shape
    for shape, room in (((7, 1000), CPU), (largest, card(141))):
        known = [Case(one.name, "fit", shape, "float32", "numpy", "")]
        assert fit.fitted(one, room, known).shape == shape
    said = f"baseline's size is {largest[0]}x1000; a run at it needs .* take a baseline on this"
    with pytest.raises(Unavailable, match=said):
        fit.fitted(one, card(80), known)
    with pytest.raises(Unavailable, match=r"no size fits into 4\d\d B, .*not 64x100, .*give a larger share"):
        fit.fitted(group(one.kernel, "fit:1e-7"), CPU)


@pytest.mark.parametrize("text", ["fit:0", "fit:2", "fit:x", "fit:nan", "fit:-1", "fit:101%"])
def test_a_share_is_above_0_and_up_to_1(text):
    with pytest.raises(InputError, match="above 0 and up to 1"):
        parse(text, {"small": (1,)}, fit=True)
    with pytest.raises(InputError, match="is for bench and check"):
        parse(text, {"small": (1,)})


def test_the_forms_of_a_share():
    found = parse("fit,Fit:50%,fit:0.5,k=2", {"small": (1,), "large": (9,)}, fit=True)
    shares = {"fit,k=2": 0.8, "fit:50%,k=2": 0.5, "fit:0.5,k=2": 0.5}
    assert {label: size.fit for label, size in found.items()} == shares
    assert parse("fit", {"fit": (3,)})["fit"].shape == (3,)  # a name of the spec comes first


def test_the_memory_of_control_groups_counts(tmp_path, monkeypatch):
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "memory.current").write_text("700000\n")
    (tmp_path / "memory.stat").write_text("anon 1\ninactive_file 50000\n")
    monkeypatch.setattr(memory, "groups", lambda controller: [tmp_path])
    assert memory.free() == 350_000
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.free() > 1 << 24
