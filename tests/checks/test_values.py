"""Hard inputs: which values they hold, and that inputs cut into parts give the verdict of the whole."""

from __future__ import annotations

import math

import numpy as np
import pytest
from cpu_rows import cpu_rows
from specs import pointwise, spec

from cudalab.checks import hard_inputs
from cudalab.device.cpu import Cpu
from cudalab.engine.check_plan import checks
from cudalab.engine.groups import Group
from cudalab.results import record
from cudalab.spec.dtype import DTYPES, dtype
from cudalab.spec.inputs import draw


@pytest.mark.parametrize("name", DTYPES)
def test_inputs_are_drawn_in_every_dtype(name):
    kind = dtype(name)
    x = draw((40, 50), kind.numpy, np.random.default_rng(0))
    assert (x.dtype, x.shape) == (kind.numpy, (40, 50))
    assert np.isfinite(x.astype(np.complex128)).all()
    values = set(x.ravel().tolist())
    assert values == {False, True} if name == "bool" else len(values) > 60
    assert (x == draw((40, 50), kind.numpy, np.random.default_rng(0))).all()
    if kind.floating and not kind.complex:
        assert abs(x.astype(float).mean()) < 0.1 and abs(x.astype(float).std() - 1) < 0.1
    if kind.complex:
        assert 0.8 < x.real.std() < 1.2 and 0.8 < x.imag.std() < 1.2
        assert abs(np.corrcoef(x.real.ravel(), x.imag.ravel())[0, 1]) < 0.1


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "float16", "bfloat16"])
def test_hard_values_of_few_bits_are_all_patterns(name):
    kind = dtype(name)
    bits = f"u{kind.itemsize}"
    assert hard_inputs.every(kind).view(bits).tolist() == list(range(256**kind.itemsize))
    if kind.itemsize == 1:
        both = [hard_inputs.pairs(kind, index, 0).view(bits) for index in (0, 1)]
        assert len(set(zip(*both, strict=True))) == hard_inputs.pairs_size(kind) == 1 << 16
        assert hard_inputs.each(kind, 1000, 2, 1, 0).shape == (2000,)


def test_hard_values_of_complex_numbers_pair_those_of_their_parts():
    kind = dtype("complex64")
    x = hard_inputs.sample(kind, 5000, 0)
    assert x.shape == (5000,) and x.dtype == np.complex64
    for part in (x.real, x.imag):
        assert np.isnan(part).any() and np.isposinf(part).any() and np.isneginf(part).any() and (part == 0).any()
    assert (np.isinf(x.real) & np.isnan(x.imag)).any()
    assert hard_inputs.pairs(kind, 0, 0).shape == (hard_inputs.pairs_size(kind),)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_a_sample_misses_no_sign_and_exponent(name):
    kind = dtype(name)
    n = 1 << 15
    drawn = hard_inputs.sample(kind, n, seed=3)
    assert drawn.shape == (n,)
    assert drawn.dtype == kind.numpy
    patterns = drawn.view(f"u{kind.itemsize}")
    counts = np.bincount((patterns >> np.array(kind.precision - 1, patterns.dtype)).astype(np.int64))
    assert len(counts) == 1 << (8 * kind.itemsize - kind.precision + 1)
    assert counts.min() >= 0.8 * n / len(counts)
    assert not np.array_equal(patterns, hard_inputs.sample(kind, n, seed=4).view(patterns.dtype))


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_the_special_values_are_special(name):
    kind = dtype(name)
    import ml_dtypes

    info = ml_dtypes.finfo(kind.numpy)
    with np.errstate(invalid="ignore"):
        special = hard_inputs.special(kind).astype(np.float64)
    one_up = 1 + float(info.eps)
    for value in (0.0, 1.0, one_up, np.inf, *map(float, (info.max, info.tiny, info.smallest_subnormal))):
        assert {value, -value} <= set(special)
    assert np.isnan(special).sum() == 6
    assert {math.copysign(1, v) for v in special if v == 0} == {1, -1}


def test_every_combination_is_among_the_pairs():
    kind = dtype("float32")
    a, b = (hard_inputs.pairs(kind, i, seed=0).view(np.uint32) for i in range(2))
    assert len(np.unique(a.astype(np.uint64) << np.uint64(32) | b)) == hard_inputs.PAIRED**2


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("infinity", [-np.inf, np.inf])
def test_every_value_of_16_bits_meets_the_infinities(index, infinity):
    kind = dtype("bfloat16")
    inputs = [hard_inputs.pairs(kind, i, seed=0) for i in range(2)]
    beside = inputs[index][inputs[1 - index].astype(np.float32) == infinity]
    assert len(np.unique(beside.view(np.uint16))) == 2**16


def test_the_parts_of_all_values_are_all_values(monkeypatch):
    whole = hard_inputs.every(dtype("float16")).view(np.uint16)
    monkeypatch.setattr(hard_inputs, "PART", 1 << 14)
    parts = [hard_inputs.every(dtype("float16"), i).view(np.uint16) for i in range(hard_inputs.parts(dtype("float16")))]
    assert len(parts) == 4
    assert np.array_equal(np.concatenate(parts), whole)
    assert hard_inputs.parts(dtype("float32")) == 1 << 18


@pytest.mark.sweep
def test_a_verdict_from_parts_is_that_of_the_whole(tmp_path, monkeypatch):
    kernel = pointwise(
        tmp_path, "if (i < n) y[i] = x[i];", lambda x: np.where(np.abs(x) > 60000, x + 64, x), dtypes=("float16",),
        pointwise=True, torch=lambda x: x * 1,
    )  # fmt: skip
    group = Group(kernel, "all values", (1 << 16,), dtype("float16"), values=hard_inputs.EVERY)

    def rows():
        return {case.label: case for case in cpu_rows(group, "host", "numpy", "torch_eager")}

    whole = rows()
    monkeypatch.setattr(hard_inputs, "PART", 1 << 13)
    assert group.parts == 8
    parts = rows()
    assert {label: case.status for label, case in whole.items()} == {
        "host:k": record.WRONG, "numpy": record.OK, "torch_eager": record.WRONG
    }  # fmt: skip
    for label, case in whole.items():
        one, many = case.parity, parts[label].parity
        assert (many.n, many.wrong, many.max_ulp) == (65536, one.wrong, one.max_ulp)
        assert (many.ok, many.close) == (one.ok, one.close)
        assert (many.rounded, many.rel_l2) == pytest.approx((one.rounded, one.rel_l2))
        assert parts[label].status == case.status
        assert many.message.partition(":")[0] == one.message.partition(":")[0]
        assert parts[label].reason == many.message


@pytest.mark.parametrize(
    ("shapes", "dims", "n", "exact", "want"),
    [
        ("", "", 65536, True, (65536,)),
        ("rows cols", "", 65536, True, (256, 256)),
        ("rows cols", "one of 24, 32", 65536, True, (2048, 32)),
        ("rows cols", "at least 1000", 65536, True, (64, 1024)),
        ("h 64", "", 65536, True, (1024, 64)),
        ("8*cols", "", (1 << 20) + 5, False, (1 << 20,)),
        ("8*cols", "", (1 << 20) + 5, True, None),
        ("... cols", "", 65536, True, (65536,)),
        ("... cols", "at most 100", 65536, True, (1024, 64)),
        ("cols", "at most 4096", 65536, True, None),
    ],
)
def test_the_shape_of_hard_values_is_one_that_the_spec_allows(tmp_path, shapes, dims, n, exact, want):
    given = {"shapes": {"x": shapes} if shapes else {}, "dims": {"cols": dims} if dims else {}}
    size = {"rows cols": (8, 1024 if "1000" in dims else 32)}.get(shapes, (32,))
    kernel = spec(tmp_path, sizes={"small": size}, edges=(), pointwise=True, **given)
    assert hard_inputs.shape(kernel, n, exact) == want


def test_hard_values_have_the_shape_that_the_kernel_takes():
    hard = (hard_inputs.EACH, hard_inputs.PAIRS)
    shapes = {g.size: g.shape for g in checks(["add2d"], "") if g.values in hard}
    assert shapes == {"special pairs": (256, 256), "every exponent of each": (2**10, 2**11)}
    names = ["add2d", "gelu_backward"]
    pairs = [g for name in names for g in checks([name], "all") if g.size == "special pairs"]
    assert [g.shape for g in pairs] == [(256, 256), (2**16,), (5 * 2**16,), (5 * 2**16,)]
    assert all(a.shape == g.shape for g in pairs for a in g.arrays(0).values())


@pytest.mark.parametrize(
    "n", [hard_inputs.PAIRED, 1 << 16, pytest.param(hard_inputs.SAMPLE_SIZE, marks=pytest.mark.sweep)]
)
def test_a_sample_ends_with_numbers(n):
    """Where an output is NaN, its poison is as well, so that an end that is not written would not be seen."""
    end = hard_inputs.sample(dtype("float32"), n, 0)[-n // 16 :]
    assert np.isfinite(end).all() and (np.abs(np.log2(np.abs(end))) < 64).all()


@pytest.mark.parametrize("kind", ["float16", "float32"])
def test_each_of_two_inputs_has_all_values(kind):
    of, n = dtype(kind), 1 << 16
    inputs = [hard_inputs.each(of, n, 2, i, 0) for i in range(2)]
    bits = [a.view(f"u{of.itemsize}") for a in inputs]
    wanted = (hard_inputs.every(of) if kind == "float16" else hard_inputs.sample(of, n, 0)).view(f"u{of.itemsize}")
    for i in range(2):
        np.testing.assert_array_equal(bits[i][i * n : (i + 1) * n], wanted)
        other = inputs[i][(1 - i) * n : (2 - i) * n].astype(np.float64)
        assert abs(other.mean()) < 0.02 and abs(other.std() - 1) < 0.02


def test_exhaustive_is_every_value_of_32_bits():
    def chosen(**how):
        return {g.dtype.name: (g.size, g.shape, g.parts) for g in checks(["gelu"], "all", **how) if g.values}

    sixteen = ("all values", (1 << 16,), 1)
    usual = {"float16": sixteen, "bfloat16": sixteen, "float32": ("every exponent", (hard_inputs.SAMPLE_SIZE,), 1)}
    assert chosen() == usual
    assert chosen(exhaustive=True) == {**usual, "float32": ("all values", (1 << 32,), 64)}


def test_arrays_off_their_alignment_are_long_and_may_end_before_the_first_aligned_address():
    shapes = {g.shape for g in checks(["sum"], "float32") if g.offsets}
    assert shapes == {(1,), (2**15 + 9,), (2**16,)}  # the last is the first size


def test_arrays_off_their_alignment_are_where_they_are_said_to_be():
    groups = [g for g in checks(["gelu"], "float16") if g.offsets]
    assert {g.size.partition(", ")[2]: g.offsets for g in groups} == {
        "all +2 B": (2, 2), "all +4 B": (4, 4), "all +8 B": (8, 8), "x +2 B": (2, 0), "y +2 B": (0, 2)
    }  # fmt: skip
    for group in groups:
        cpu = Cpu()
        placed = cpu.place(group.kernel, group.dtype, group.arrays(0), group.offsets)
        addresses = [a.ctypes.data % 256 for a in (placed.inputs["x"], placed.output)]
        assert tuple(addresses) == group.offsets
        assert cpu.tampered(placed) is None
        placed.output.view(np.uint8)[...] = 0
        assert cpu.tampered(placed) is None
