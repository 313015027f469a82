"""The gate: what passes, what fails, and the numbers it reports."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from cpu_rows import cpu_rows
from specs import pointwise

from cudalab.base import threads
from cudalab.checks.expected import expected
from cudalab.checks.hard_inputs import every
from cudalab.checks.parity import compare
from cudalab.device.cpu import Cpu
from cudalab.engine.groups import Group
from cudalab.kernels.gelu import gelu
from cudalab.spec import find
from cudalab.spec.dtype import DTYPES, dtype
from cudalab.spec.kernel import Budget

F32, F64, F16, BF16, I32, I64 = (dtype(n) for n in ("float32", "float64", "float16", "bfloat16", "int32", "int64"))
EXACT = Budget(0.5)


def judged(got, want, ulp=0.5, atol=0.0, kind=F32):
    return compare(np.asarray(got, kind.numpy), np.asarray(want), kind, Budget(ulp, atol))


@pytest.mark.parametrize("kind", [F32, F16])
def test_ulp_is_numpys_spacing(kind):
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2 ** (8 * kind.itemsize), 100_000, dtype=np.uint64)
    values = bits.astype(f"u{kind.itemsize}").view(kind.numpy)
    values = values[np.abs(values) < np.finfo(kind.numpy).max]
    np.testing.assert_array_equal(kind.ulp(values.astype(np.float64)), np.spacing(np.abs(values)).astype(np.float64))
    assert kind.ulp(np.zeros(1)) == np.spacing(kind.numpy.type(0))


def test_ulp_of_bfloat16_by_neighbours():
    with np.errstate(invalid="ignore"):
        values = every(BF16).astype(np.float64)
    positive = np.sort(values[np.isfinite(values) & (values >= 0)])[:-1]
    positive = np.unique(positive)
    gaps = np.diff(np.append(positive, 2 * positive[-1] - positive[-2]))
    np.testing.assert_array_equal(BF16.ulp(positive), gaps)


def test_right_answers_pass_with_the_error_they_have():
    parity = judged(want := [1.0, 1.0 + 2**-24, -3.0, 0.0, 1e-45], want)
    assert (parity.ok, parity.max_ulp, parity.rounded) == (True, 0.5, 1)
    assert parity.rel_l2 < 1e-7


NEAR = 1.5 - 2**-24 - 2**-34
THIRD = np.array([1 / 3])
SEVENS = np.full((8, 8), 7.0)
FAR = np.float32(SEVENS + 1e-5)
FAR[6, 7] += 1


@pytest.mark.parametrize(
    ("got", "want", "ulp", "says"),
    [
        ([1.5], [NEAR], 0.5, r"^1 of 1 values differ by more than 0.5 ULP: \[0\] got 1.5, want 1.49999994;"),
        ([1.5], [NEAR], 0.5, r"largest error 6e-08 at \[0\], 0.5005 ULP at most$"),
        ([1.5], [NEAR], 0, ", 0.5005 ULP at most$"),
        (FAR, SEVENS, 4, r"; \.\.\.; largest error 1 at \[6, 7\]$"),
        ([100, 2e-7], [100.0, 1e-9], 4, r"largest error 2e-07 at \[1\], where values are near 0$"),
        ([100, 1], [100.0, 1e-9], 4, r"largest error 1 at \[1\]$"),
        ([5, 0.9995 + 4.4 * 2**-24], [5.0, 0.9995], 4, r"largest error 2.\de-07 at \[1\], 4.\d+ ULP at most$"),
        ([np.inf, 1], [3.4e38, 1], 4, r"\(inf: does it overflow on the way, beyond the largest float32\?\)$"),
    ],
    ids=["digits", "just beyond", "beyond 0", "place", "near 0", "not near 0", "just misses", "overflow"],
)  # fmt: skip
def test_what_is_said_of_the_values_that_differ(got, want, ulp, says):
    found = judged(got, want, ulp)
    assert not found.ok and re.search(says, found.message)


def test_the_largest_error_of_integers_is_named_and_none_beside_nan():
    assert judged(FAR + 3, np.int32(SEVENS), 0, kind=I32).message.endswith("error 4 at [6, 7]")
    broken = FAR.copy()
    broken[0, 0] = np.nan
    assert "largest error" not in judged(broken, SEVENS, 4).message


def test_got_and_want_are_quoted_with_the_digits_that_tell():
    found = judged(np.nextafter(THIRD, 1), THIRD, kind=F64)
    assert "[0] got 0.33333333333333337, want 0.33333333333333331" in found.message
    assert judged(THIRD, THIRD, 0, kind=F64).ok


def test_a_wrong_element_of_a_pointwise_kernel_is_quoted_with_its_inputs():
    x, y = np.array([[1, 2.5], [3, 4]], np.float32), np.array([[5, -0.1], [7, 8]], np.float32)
    want = (x + y).astype(np.float64)
    got = np.where(x == 2.5, 0, x + y).astype(np.float32)
    assert (
        "[0, 1] got 0, want 2.4000001 for x = 2.5, y = -0.1"
        in compare(got, want, F32, Budget(0), {"x": x, "y": y}).message
    )
    assert "for x" not in judged(got, want, 0).message


def test_errors_are_counted_in_ulp_of_the_output():
    want = np.ones(1000)
    got = want.astype(np.float16)
    got[7] += np.float16(3 * 2**-10)
    parity = judged(got, want, 2, kind=F16)
    assert not parity.ok
    assert (parity.wrong, parity.max_ulp, parity.worst_at, parity.rounded) == (1, 3.0, 7, 0.999)
    assert "1 of 1,000 values differ by more than 2 ULP: [7] got 1.00292969, want 1" in parity.message
    assert judged(got, want, 3, kind=F16).ok and judged(got, want, 0, 3e-3, F16).ok
    assert (parity.allowed, parity.needed) == (2, 3)
    one = judged(got, want, 1, 2**-10, F16)
    assert (one.allowed, one.needed) == (2, 2), "an ULP of float16 at 1 is 2^-10"
    assert judged(np.full_like(got, np.nan), want, 2, kind=F16).needed is None


def test_nan_where_a_number_is_due_never_passes():
    got = np.ones((4, 5))
    got[2, 3] = np.nan
    parity = judged(got, np.ones((4, 5)), 1e30, 1e30)
    assert (parity.ok, parity.max_ulp) == (False, None)
    assert "[2, 3] got nan, want 1" in parity.message and "was every element written?" in parity.message


def test_numbers_where_nan_is_due_never_pass():
    nan = np.full(3, np.nan)
    assert not judged(np.zeros(3), nan, 1e30, 1e30).ok
    assert judged(nan, nan).ok


@pytest.mark.parametrize(("got", "want", "ok"), [
    (np.inf, 1e6, True), (65504, 65504, True), (np.inf, 65504, False), (-np.inf, 1e6, False), (65504, 1e6, False),
    (np.inf, np.inf, True), (-np.inf, np.inf, False),
])  # fmt: skip
def test_overflow_is_right_where_the_dtype_ends(got, want, ok):
    assert judged([got], [float(want)], kind=F16).ok is ok


def test_integers_are_exact():
    want = np.array([2**30, -5], np.int32)
    assert judged(want, want, 0, kind=I32).ok
    parity = judged(want + np.int32(1), want, 0, kind=I32)
    assert (parity.wrong, parity.max_ulp) == (2, 1.0)


@pytest.mark.parametrize(("at", "off"), [(0, 1), (1, 100), (2, 1)])
def test_integers_that_float64_cannot_tell_apart_are_told_apart(at, off):
    want = np.array([2**60, -(2**62) + 7, -(2**63), 5], np.int64)
    got = want.copy()
    assert judged(got, want, 0, kind=I64).ok
    got[at] += off
    parity = judged(got, want, off - 1, kind=I64)
    assert (parity.ok, parity.wrong, parity.max_ulp) == (False, 1, off)


def test_the_largest_differences_of_integers():
    assert judged([2**63 - 1], np.array([-(2**63)]), 0, kind=I64).max_ulp == 2.0**64
    assert judged([0], np.array([255], np.uint8), 0, kind=dtype("uint8")).max_ulp == 255


# ---- what a whole check sees -------------------------------------------------------------------------------------


def checked(tmp_path, body, reference=lambda x: x + 1, awkward=False, only="host", modes=(), **fields):
    """The row of a pointwise kernel with this body; its third input is NaN."""

    def inputs(shape, kind, rng):
        x = np.arange(np.prod(shape), dtype=np.float64) % 300
        return {"x": (np.where(x == 2, np.nan, x) if kind.kind == "f" else x).astype(kind)}

    kernel = pointwise(tmp_path, body, reference, **{"inputs": inputs, "pointwise": True, **fields})
    group = Group(kernel, "small", kernel.sizes["small"], dtype(kernel.dtypes[0]), awkward=awkward)
    (case,) = cpu_rows(group, only, modes=modes)
    return case


@pytest.mark.sweep
def test_an_element_that_is_never_written_is_seen_where_nan_was_due(tmp_path):
    """The poison is a NaN, and NaN is right there."""
    assert checked(tmp_path, "if (i < n) y[i] = x[i] + 1;").status == "ok"
    case = checked(tmp_path, "if (i < n && x[i] == x[i]) y[i] = x[i] + 1;")
    assert case.status == "WRONG"
    assert (
        "[2] got 1.30577099e+36, want nan for x = nan; never written: 1 of 70 elements of y, first [2]" in case.reason
    )


@pytest.mark.sweep
@pytest.mark.parametrize(("name", "poison"), [("uint8", 255), pytest.param("int64", -1, marks=pytest.mark.sweep)])
def test_an_element_that_is_never_written_is_seen_where_the_poison_was_due(tmp_path, name, poison):
    def reference(x):
        return np.where(x > 5, x.dtype.type(poison), x)

    right = checked(tmp_path, f"if (i < n) y[i] = x[i] > 5 ? {poison} : x[i];", reference, dtypes=(name,))
    assert right.status == "ok"
    case = checked(tmp_path, "if (i < n && x[i] <= 5) y[i] = x[i];", reference, dtypes=(name,))
    assert case.status == "WRONG"
    assert f"want {poison} for x = 8; ...; largest error " in case.reason
    assert case.reason.endswith("; never written: 64 of 70 elements of y, first [6]")


def test_an_output_that_is_added_to_unset_is_told_to_be_zeroed(tmp_path):
    case = checked(tmp_path, "if (i < n) atomicAdd(&y[i], x[i] + 1);")
    assert case.status == "WRONG"
    said = 'y is read before it is written: zero it in the kernel, or give outputs={"y": Out(fill=0)}'
    assert case.reason.endswith(f"; {said}") and "was every element written" not in case.reason


@pytest.mark.parametrize("body", ["if (i < n) y[i] = x[i] + 1.03f;", 'if (i < n) y[i] = nanf("");'])
def test_of_what_is_wrong_on_all_contents_alike_they_are_not_the_cause(tmp_path, body):
    case = checked(tmp_path, body)
    assert case.status == "WRONG" and "written:" not in case.reason and "before it is written:" not in case.reason


def test_what_an_earlier_launch_left_is_not_an_answer(tmp_path):
    """The kernel is right in every launch but the first."""
    case = checked(tmp_path, "static __device__ float kept[70]; if (i < n) y[i] = kept[i], kept[i] = x[i] + 1;")
    assert case.status == "WRONG"
    assert "[1] got 0, want 2" in case.reason and case.reason.endswith("(in its first launch)")


def test_a_pointwise_kernel_has_to_be_right_in_place(tmp_path):
    """A last pack that overlaps the one before gives the same answer twice, unless it reads what it has written.

    The lab's own, which are right in place, run so at their awkward shapes (tests/kernels/test_parity.py).
    """
    overlapping = "for (int k = 0; k < 4; ++k) if (i % 4 == 0 && i < n) {{ auto j = i + 4 <= n ? i : n - 4; {} }}"
    twice = overlapping.format("y[j + k] = x[j + k] + 1;")
    assert checked(tmp_path, twice).status == "ok"
    case = checked(tmp_path, twice, awkward=True)
    assert case.status == "WRONG"
    assert "in place, with 'x' as its output too, which pointwise=True allows" in case.reason


def test_an_error_in_place_is_not_blamed_on_the_next(monkeypatch):
    """The run in place has overwritten the input."""
    real, failed = Cpu.fingerprint, []

    def fingerprint(self, array):
        if array is self._guarded["x"].array and not failed:
            failed.append(array)
            raise MemoryError("no room")
        return real(self, array)

    monkeypatch.setattr(Cpu, "fingerprint", fingerprint)
    group = Group(gelu, "33", (33,), F32, awkward=True)
    cases = cpu_rows(group, "host")
    assert [(c.variant, c.status, c.reason, c.parity is None) for c in cases] == [
        ("gelu_scalar", "error", "out of memory: no room", True),
        ("gelu_full", "ok", "", False), ("gelu_vec", "ok", "", False),
    ]  # fmt: skip


ADDED = "if (i < n) y[i] = x[i] + 1;"
USUAL = {"inputs": None, "sizes": {"small": (1000,)}}


@pytest.mark.parametrize(("wrong", "reason"), [(True, "values differ"), (False, "changed its input 'x' (in a timed")])
def test_an_input_that_is_changed_in_a_timed_run_costs_the_row_of_that_variant(tmp_path, wrong, reason):
    torch, calls = pytest.importorskip("torch"), []

    def later(x):
        calls.append(x)
        if len(calls) > 40 and wrong:
            x[0] = 5
        y = x + 1
        if len(calls) > 40:
            x.view(torch.int32).bitwise_or_(1)  # off by a bit, which the budget allows
        return y

    given = {**USUAL, "budgets": Budget(1e6), "torch": later}
    kernel = pointwise(tmp_path, ADDED, pointwise=True, **given)
    fine, bad = cpu_rows(Group(kernel, "small", (1000,), F32), "numpy", "torch_eager", modes=["launch"])
    assert (fine.status, set(fine.times)) == ("ok", {"wall"})
    assert (bad.status, bad.times) == ("WRONG", {})
    assert reason in bad.reason and "(in a timed run)" in bad.reason


def test_shape_and_dtype_are_part_of_the_answer():
    want = np.zeros((2, 3))
    assert "shape is (3, 2), expected (2, 3)" in judged(np.zeros((3, 2)), want).message
    assert "dtype is float64, expected float32" in compare(want, want, F32, EXACT).message


@pytest.mark.parametrize("kind", [F16, BF16, F32])
@pytest.mark.parametrize(
    ("got", "want"), [(0.0, np.inf), (1.0, -np.inf), (-np.inf, np.inf), (0.0, np.nan), (np.inf, 1.0)]
)
def test_no_budget_allows_a_number_for_infinity(kind, got, want):
    assert not judged([got], [want], 2.0**30, 1e30, kind).ok


def test_nothing_is_right():
    parity = judged([], np.zeros(0))
    assert (parity.ok, parity.n) == (True, 0)


@pytest.mark.parametrize("at", [0, threads.CHUNK - 1, threads.CHUNK, 3 * threads.CHUNK + 16])
def test_big_arrays_are_checked_to_the_last_element(at):
    want = np.linspace(1, 2, 3 * threads.CHUNK + 17)
    got = want.astype(np.float32)
    assert judged(got, want).ok
    got[at] = 0
    parity = judged(got, want)
    assert (parity.wrong, parity.worst_at) == (1, at)


@pytest.mark.parametrize("name", gelu.dtypes)
def test_an_absolute_tolerance_cannot_hide_the_tanh_form(name):
    """The two GELUs differ by 4.7e-4 at most: the gate of the .cu entries must tell them apart in every dtype."""
    kind = dtype(name)
    x = every(kind) if kind.itemsize == 2 else gelu.make((100_000,), kind)["x"]
    want = expected(gelu, {"x": x})
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        tanh = 0.5 * wide * (1 + np.tanh(np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3)))
        got = tanh.astype(np.float32).astype(kind.numpy)
    assert not compare(got, want, kind, gelu.budget(kind)).ok


def test_every_pattern_is_there():
    for kind in (F16, BF16):
        assert len(np.unique(every(kind).view(np.uint16))) == 65536


def test_inputs_do_not_depend_on_the_cores_and_differ_by_seed(monkeypatch):
    shape = (2 * threads.CHUNK + 3,)
    one = gelu.make(shape, F32, seed=5)["x"]
    monkeypatch.setattr("cudalab.base.threads.cores", lambda: 1)
    np.testing.assert_array_equal(gelu.make(shape, F32, seed=5)["x"], one)
    assert (gelu.make(shape, F32, seed=6)["x"] != one).any()
    assert abs(one.mean()) < 0.01
    assert abs(one.std() - 1) < 0.01


def test_each_form_is_judged_by_its_own_budget():
    """A peer that is less exact than the kernel's own entries passes by its own budget, and only by that."""
    pytest.importorskip("torch")
    tight, wide = {"float32": Budget(0, why="none")}, {"float32": Budget(8, 1e-6, "loses digits")}
    lists = {"no peers": {}, "peers": {"peers": wide}, "composed": {"composed": wide}}
    right = {}
    for name, given in lists.items():
        kernel = replace(gelu, dtypes=("float32",), budgets=tight, **{"peers": {}, "composed": {}, **given})
        group = Group(kernel, "10", (10,), F32)
        cases = cpu_rows(group, "host:gelu_vec", "torch_native", "torch_eager")
        right[name] = {case.label for case in cases if case.status == "ok"}
    assert right == {"no peers": set(), "peers": {"torch_eager", "torch_native"}, "composed": {"torch_eager"}}


def test_every_budget_has_a_reason():
    for kernel in find.kernels().values():
        for budget in (*kernel.budgets.values(), *kernel.peers.values(), *kernel.composed.values()):
            assert budget.why, kernel.name


def test_dtypes_have_their_names_and_sizes():
    for name, kind in DTYPES.items():
        assert str(kind.numpy) == name
        bits = re.search(r"\d+", name)
        assert kind.itemsize == (int(bits[0]) // 8 if bits else 1)


@pytest.mark.parametrize(
    ("name", "byte", "said"),
    [
        ("float32", 0x7F, "(3.39615136e+38 is what the check puts beside arrays: is an index out of bounds?)"),
        ("int32", 0x7F, "(2139062143 is what the check puts beside arrays: is an index out of bounds?)"),
        ("bfloat16", 0x7B, "is what the check puts into memory that nobody has written"),
        ("float32", 0xFB, "is what the check puts into memory that nobody has written"),
        ("float16", 0x7B, ""),  # 61,280 may be a result
    ],
)
def test_a_value_that_the_check_has_put_there_is_named(name, byte, said):
    kind = dtype(name)
    got = np.zeros(9, kind.numpy)
    got[4] = np.frombuffer(bytes([byte]) * kind.itemsize, kind.numpy)[0]
    message = judged(got, np.zeros(9), 1, kind=kind).message
    assert said in message and ("what the check puts" in message) == bool(said)
