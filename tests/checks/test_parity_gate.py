"""The gate: what passes, what fails, and the numbers it reports."""

from __future__ import annotations

import re
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from cpu_rows import cpu_rows
from specs import POINTWISE, pointwise

from cudalab.base import threads
from cudalab.checks.expected import expected
from cudalab.checks.hard_inputs import every
from cudalab.checks.parity import compare, joined
from cudalab.device.cpu import Cpu
from cudalab.engine.groups import Group
from cudalab.kernels.gelu import gelu
from cudalab.kernels.plus_one import plus_one
from cudalab.spec import find
from cudalab.spec.dtype import DTYPES, dtype
from cudalab.spec.kernel import Budget

F32 = dtype("float32")
INF, NAN = np.inf, np.nan


def judged(got, want, ulp=0.5, atol=0.0, kind="float32"):
    return compare(np.asarray(got, dtype(kind).numpy), np.asarray(want), dtype(kind), Budget(ulp, atol))


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "float16", "bfloat16"])
def test_an_ulp_is_the_gap_to_the_next_number(name):
    kind = dtype(name)
    with np.errstate(invalid="ignore"):
        values = every(kind).astype(np.float64)
    positive = np.unique(values[np.isfinite(values) & (values >= 0)])
    np.testing.assert_array_equal(kind.ulp(positive[:-1]), np.diff(positive))
    assert positive[-1] == float(ml_dtypes.finfo(kind.numpy).max)


@pytest.mark.parametrize("name", ["float16", "float32"])
def test_an_ulp_is_numpys_spacing(name):
    kind = dtype(name)
    bits = np.random.default_rng(0).integers(0, 2 ** (8 * kind.itemsize), 100_000, dtype=np.uint64)
    values = bits.astype(f"u{kind.itemsize}").view(kind.numpy)
    values = values[np.abs(values) < np.finfo(kind.numpy).max]
    np.testing.assert_array_equal(kind.ulp(values.astype(np.float64)), np.spacing(np.abs(values)).astype(np.float64))
    assert kind.ulp(np.zeros(1)) == np.spacing(kind.numpy.type(0))


def test_float16_is_rounded_as_numpy_rounds_it():
    """At every number of float16, halfway between two, beside that, and at random numbers of every magnitude."""
    known = np.sort(
        (bits := np.arange(1 << 16, dtype=np.uint16).view(np.float16))[np.isfinite(bits)].astype(np.float64)
    )
    halfway = (known[1:] + known[:-1]) / 2
    beside = [np.nextafter(halfway.astype(np.float32), np.float32(to)) for to in (-np.inf, np.inf)]
    ends = [65519.9, 65520, -65520, 1e30, -1e300, np.inf, -np.inf, np.nan, 1e-40, 5e-324]
    rng = np.random.default_rng(0)
    drawn = rng.standard_normal(1 << 16) * 10 ** rng.uniform(-12, 6, 1 << 16)
    every = np.concatenate([known, halfway, halfway * (1 + 2**-40), *beside, ends, drawn])
    with np.errstate(all="ignore"):
        want = every.astype(np.float32).astype(np.float16)
        assert np.array_equal(dtype("float16").rounded(every), want.astype(np.float64), equal_nan=True)


def test_right_answers_pass_with_the_error_they_have():
    parity = judged(want := [1.0, 1.0 + 2**-24, -3.0, 0.0, 1e-45], want)
    assert (parity.ok, parity.max_ulp, parity.rounded) == (True, 0.5, 1)
    assert parity.rel_l2 < 1e-7
    nothing = judged([], np.zeros(0))
    assert (nothing.ok, nothing.n) == (True, 0)


RIGHT_AND_WRONG = {  # by dtype and budget in ULP: pairs of got and want that are right, and pairs that are not
    ("float32", 0.5): ([(NAN, NAN)], []),
    ("float64", 0): ([(1 / 3, 1 / 3)], []),
    ("float16", 0.5): (
        [(INF, 1e6), (65504, 65504.0), (INF, INF)],
        [(INF, 65504.0), (-INF, 1e6), (65504, 1e6), (-INF, INF)],
    ),
    ("float8_e4m3fn", 0.5): (
        [(448, 1000.0), (NAN, 1000.0), (448, INF)], [(-448, 1000.0), (NAN, 448.0), (416, 1000.0), (448, NAN)],
    ),
    ("float8_e5m2", 0.5): ([(INF, 1e6), (57344, 1e6), (NAN, NAN)], [(INF, 57344.0)]),
    ("complex64", 4): (
        [
            (complex(INF, NAN), complex(INF, 3)), (complex(NAN, 1), complex(2, NAN)),
            (complex(INF, 0), complex(1e39, 0)),
            (complex(INF, 1e38), complex(3.3e38, 3.3e38)),  # its modulus overflows
        ],
        [
            (complex(NAN, 1), complex(2, 1)), (complex(INF, 1), complex(2, 1)), (complex(INF, 1), complex(NAN, 1)),
            (complex(3.3e38, 0), complex(1e39, 0)),
        ],
    ),
    ("bool", 0.5): ([(True, True), (False, False)], [(True, False), (False, True)]),
    ("int32", 0): ([(2**30, 2**30), (-5, -5)], [(2**30 + 1, 2**30), (-4, -5)]),
    ("int64", 0.5): ([], [(2**53, np.uint64(2**53 + 1))]),
    ("uint64", 0.5): (
        [(2**64 - 1, np.uint64(2**64 - 1))],
        [(2**64 - 1, -1), (2**64 - 1, 2**63 - 1), (2**64 - 1, np.uint64(2**64 - 2))],
    ),
    **{(name, 2.0**30): ([], [(0.0, INF), (1.0, -INF), (-INF, INF), (0.0, NAN), (INF, 1.0), (NAN, 1.0)])
       for name in ("float16", "bfloat16", "float32")},
}  # fmt: skip


@pytest.mark.parametrize(("name", "ulp", "got", "want", "ok"), [
    (*given, *pair, ok) for given, kinds in RIGHT_AND_WRONG.items() for ok, pairs in zip((True, False), kinds)
    for pair in pairs
])  # fmt: skip
def test_a_value_is_right_or_wrong(name, ulp, got, want, ok):
    with np.errstate(all="ignore"):
        found = judged([got], [want], ulp, 1e30 if ulp > 4 else 0.0, name)
    assert found.ok == ok
    if name.startswith("float8") and ok:
        assert found.max_ulp == 0


def test_rounding_and_special_values_alone_are_close():
    many = np.full(20_000, 100.0)
    step, far = (many - by * (np.arange(len(many)) == 5) for by in (1, 3))
    for kind, got, want, close in (
        ("float32", 1.001 * many, many, True),
        ("float32", 1.2 * many, many, False),
        ("complex64", 1.001 * many, many + 0j, True),
        ("float32", [7.0] * 9, np.zeros(9), False),
        ("float32", [NAN] * 4 + [1.0] * 5, np.ones(9), True),
        ("float32", [INF] * 5 + [1.0] * 4, np.ones(9), False),
        ("float32", [0.0, NAN], [NAN, NAN], True),
        ("int8", step, many, True),
        ("int8", far, many, False),
        ("int8", step, many.astype(int), False),
        ("bool", step > 99, many > 0, False),
        ("bool", step > 99, many / 100, False),
        ("float32", many, many, False),
    ):
        assert judged(got, want, kind=kind).close == close, (kind, got, want)


def test_each_output_must_be_close_and_of_parts_the_whole():
    right, near, far, lost = (judged([v * 1e4], [1e4]) for v in (1, 1.001, 2, NAN))
    tiny, zeros, shape = judged([2.0], [1.0]), judged([7.0], [0.0]), judged([1.0], np.ones((1, 1)))
    for parities, outputs, parts in (
        ([right, near], True, True), ([near, tiny], False, True), ([right, near, far], False, False),
        ([right, lost], False, True), ([lost, lost], False, False), ([right, zeros], False, False),
        ([near, shape], False, False), ([right, right], False, False),
    ):  # fmt: skip
        assert (joined(parities).close, joined(parities, whole=True).close) == (outputs, parts), parities
    exact, rough = judged([100.0], [100.0]), judged([1.1], [1.0])
    assert joined([exact, rough]).rel_l2 == rough.rel_l2 == pytest.approx(0.1)  # not hidden by larger numbers
    assert joined([exact, rough], whole=True).rel_l2 == pytest.approx(1e-3, rel=1e-3)


NEAR = 1.5 - 2**-24 - 2**-34
THIRD = np.array([1 / 3])
SEVENS = np.full((8, 8), 7.0)
FAR = np.float32(SEVENS + 1e-5)
FAR[6, 7] += 1
BROKEN = np.where(np.eye(8), np.float32(np.nan), FAR)
ODD = np.array([1, 0, 255], np.uint8).view(np.bool_)


@pytest.mark.parametrize(
    ("name", "got", "want", "ulp", "says"),
    [
        ("float32", [1.5], [NEAR], 0.5, r"^1 of 1 values differ by more than 0.5 ULP: \[0\] got 1.5, want 1.49999994;"),
        ("float32", [1.5], [NEAR], 0.5, r"largest error 6e-08 at \[0\], 0.5005 ULP at most$"),
        ("float32", [1.5], [NEAR], 0, ", 0.5005 ULP at most$"),
        ("float32", FAR, SEVENS, 4, r"; \.\.\.; largest error 1 at \[6, 7\]$"),
        ("float32", [100, 2e-7], [100.0, 1e-9], 4, r"largest error 2e-07 at \[1\], where values are near 0$"),
        ("float16", [8, 1.0145e-3], [8.0, 1.0129e-3], 1, r"at \[1\], 1\.\d+ ULP at most, where values are near 0$"),
        ("float32", [100, 1], [100.0, 1e-9], 4, r"largest error 1 at \[1\]$"),
        ("float32", [5, 0.9995 + 4.4 * 2**-24], [5.0, 0.9995], 4, r"error 2.\de-07 at \[1\], 4.\d+ ULP at most$"),
        ("float32", [INF, 1], [3.4e38, 1], 4, r"\(inf: does it overflow on the way, beyond the largest float32\?\)$"),
        ("int32", FAR + 3, np.int32(SEVENS), 0, r"error 4 at \[6, 7\]$"),
        ("float32", BROKEN, SEVENS, 4, "^((?!largest error).)*$"),
        ("float32", [[1, NAN]], np.ones((1, 2)), 1e30, r"\[0, 1\] got nan, want 1.*was every element written\?"),
        ("float64", np.nextafter(THIRD, 1), THIRD, 0, r"\[0\] got 0.33333333333333337, want 0.33333333333333331"),
        ("float32", [1.0], [1 + 1j], 0, "complex values for an output of float32"),
        ("bool", ODD, [True, False, True], 0, r"\[2\] got 255, want 1.*was every element written\?"),
        ("float32", np.zeros((3, 2)), np.zeros((2, 3)), 0, r"shape is \(3, 2\), expected \(2, 3\)"),
    ],
    ids=[
        "digits", "just beyond", "beyond 0", "place", "near 0", "a little near 0", "not near 0", "just misses",
        "overflow", "integers", "none beside nan", "nan", "digits that tell", "complex", "neither 0 nor 1",
        "shape",
    ],
)  # fmt: skip
def test_what_is_said_of_the_values_that_differ(name, got, want, ulp, says):
    found = judged(got, want, ulp, kind=name)
    assert not found.ok and re.search(says, found.message), found.message


def test_the_dtype_is_part_of_the_answer():
    assert "dtype is float64, expected float32" in compare(np.zeros(3), np.zeros(3), F32, Budget(0.5)).message


def test_a_wrong_element_of_a_pointwise_kernel_is_quoted_with_its_inputs():
    x, y = np.array([[1, 2.5], [3, 4]], np.float32), np.array([[5, -0.1], [7, 8]], np.float32)
    want = (x + y).astype(np.float64)
    got = np.where(x == 2.5, 0, x + y).astype(np.float32)
    said = compare(got, want, F32, Budget(0), {"x": x, "y": y}).message
    assert "[0, 1] got 0, want 2.4000001 for x = 2.5, y = -0.1" in said
    assert "for x" not in judged(got, want, 0).message


def test_errors_are_counted_in_ulp_of_the_output():
    want = np.ones(1000)
    got = want.astype(np.float16)
    got[7] += np.float16(3 * 2**-10)
    parity = judged(got, want, 2, kind="float16")
    assert not parity.ok
    assert (parity.wrong, parity.max_ulp, parity.worst_at, parity.rounded) == (1, 3.0, 7, 0.999)
    assert "1 of 1,000 values differ by more than 2 ULP: [7] got 1.00292969, want 1" in parity.message
    assert judged(got, want, 3, kind="float16").ok and judged(got, want, 0, 3e-3, "float16").ok
    assert (parity.allowed, parity.needed) == (2, 3)
    one = judged(got, want, 1, 2**-10, "float16")
    assert (one.allowed, one.needed) == (2, 2), "an ULP of float16 at 1 is 2^-10"
    broken = judged(np.full_like(got, NAN), want, 2, kind="float16")
    assert broken.needed is broken.max_ulp is None


def test_errors_of_complex_numbers_are_counted_in_ulp_of_their_modulus():
    one, step = 1 + 1e-9j, 2.0**-23
    assert judged([one + step * 1j], [one], 1.01, kind="complex64").ok  # as ULP of the imaginary part it is far off
    found = judged([one + 3 * step * 1j], [one], 2, kind="complex64")
    assert not found.ok and found.max_ulp == pytest.approx(3, rel=1e-3)
    assert "[0] got 1+3.5" in found.message and "want 1+1e-09j" in found.message
    assert [judged([1j, last], [1j, 0], 0, kind="complex64").ok for last in (0, 1)] == [True, False]


@pytest.mark.parametrize(("at", "off"), [(0, 1), (1, 100), (2, 1)])
def test_integers_that_float64_cannot_tell_apart_are_told_apart(at, off):
    want = np.array([2**60, -(2**62) + 7, -(2**63), 5], np.int64)
    got = want.copy()
    assert judged(got, want, 0, kind="int64").ok
    got[at] += off
    parity = judged(got, want, off - 1, kind="int64")
    assert (parity.ok, parity.wrong, parity.max_ulp) == (False, 1, off)


def test_the_largest_differences_of_integers():
    assert judged([2**63 - 1], np.array([-(2**63)]), 0, kind="int64").max_ulp == 2.0**64
    assert judged([0], np.array([255], np.uint8), 0, kind="uint8").max_ulp == 255


@pytest.mark.parametrize("at", [0, threads.CHUNK - 1, threads.CHUNK, 3 * threads.CHUNK + 16])
def test_big_arrays_are_checked_to_the_last_element(at):
    want = np.linspace(1, 2, 3 * threads.CHUNK + 17)
    got = want.astype(np.float32)
    assert judged(got, want).ok
    got[at] = 0
    parity = judged(got, want)
    assert (parity.wrong, parity.worst_at) == (1, at)


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
    message = judged(got, np.zeros(9), 1, kind=name).message
    assert said in message and ("what the check puts" in message) == bool(said)


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


def test_inputs_do_not_depend_on_the_cores_and_differ_by_seed(monkeypatch):
    shape = (2 * threads.CHUNK + 3,)
    one = gelu.make(shape, F32, seed=5)["x"]
    monkeypatch.setattr("cudalab.base.threads.cores", lambda: 1)
    np.testing.assert_array_equal(gelu.make(shape, F32, seed=5)["x"], one)
    assert (gelu.make(shape, F32, seed=6)["x"] != one).any()


def test_every_budget_has_a_reason():
    for kernel in find.kernels().values():
        for budget in (*kernel.budgets.values(), *kernel.peers.values(), *kernel.composed.values()):
            assert budget.why, kernel.name


def test_dtypes_have_their_names_and_sizes():
    for name, kind in DTYPES.items():
        assert str(kind.numpy) == name
        bits = re.search(r"\d+", name)
        assert kind.itemsize == (int(bits[0]) // 8 if bits else 1)


# ---- what a whole check sees -------------------------------------------------------------------------------------


HEAD, KERNEL = POINTWISE.split("\n", 1)
TWICE = (
    "for (int k = 0; k < 4; ++k) if (i % 4 == 0 && i < n) { auto j = i + 4 <= n ? i : n - 4; y[j + k] = x[j + k] + 1; }"
)
FLOATS = {
    "right": "if (i < n) y[i] = x[i] + 1;",
    "skips_nan": "if (i < n && x[i] == x[i]) y[i] = x[i] + 1;",  # the poison is a NaN, and NaN is right there
    "adds": "if (i < n) atomicAdd(&y[i], x[i] + 1);",
    "off": "if (i < n) y[i] = x[i] + 1.03f;",
    "gives_nan": 'if (i < n) y[i] = nanf("");',
    # right in every launch but the first
    "late": "static __device__ float kept[70]; if (i < n) y[i] = kept[i], kept[i] = x[i] + 1;",
    # a last pack overlaps the one before: the answer is the same, unless it reads what it has written
    "twice": TWICE,
}  # fmt: skip


def checked(tmp_path, entry, bodies, awkward=False, **fields):
    """The row of one of these pointwise kernels; its third input is NaN."""

    def inputs(shape, kind, rng):
        x = np.arange(np.prod(shape), dtype=np.float64) % 300
        return {"x": (np.where(x == 2, np.nan, x) if kind.kind == "f" else x).astype(kind)}

    kernel = pointwise(tmp_path, "", **{"reference": lambda x: x + 1, "inputs": inputs, "pointwise": True, **fields})
    texts = [KERNEL.replace(" k(", f" {name}(").format(of="scalar_t", body=body) for name, body in bodies.items()]
    kernel.cu.write_text("\n".join([HEAD, *texts]))
    kernel = replace(kernel, entries={entry: kernel.entries["k"]})
    (case,) = cpu_rows(Group(kernel, "small", (70,), dtype(kernel.dtypes[0]), awkward=awkward), "host")
    return case


ALIKE = "^((?!written:|before it is written:).)*$"  # wrong on all contents of the output alike, which are not the cause


@pytest.mark.parametrize(
    ("entry", "awkward", "said"),
    [
        ("right", False, None),
        ("skips_nan", False, r"\[2\] got 1.30577099e\+36, want nan for x = nan; never written: 1 of 70 elements"),
        ("adds", False, r'^((?!was every).)*; y is read before it is written: zero it .*={"y": Out\(fill=0\)}$'),
        ("off", False, ALIKE),
        ("gives_nan", False, ALIKE),
        ("late", False, r"\[1\] got 0, want 2.*\(in its first launch\)$"),
        ("twice", False, None),
        ("twice", True, "in place, with 'x' as its output too, which pointwise=True allows"),
    ],
)  # fmt: skip
def test_what_is_said_of_an_entry(tmp_path, entry, awkward, said):
    """The lab's own, which are right in place, run so at their awkward shapes (tests/kernels/test_parity.py)."""
    case = checked(tmp_path, entry, FLOATS, awkward)
    assert case.status == ("WRONG" if said else "ok")
    assert re.search(said or "", case.reason), case.reason


@pytest.mark.sweep
@pytest.mark.parametrize(("name", "poison"), [("uint8", 255), ("int64", -1)])
def test_an_element_that_is_never_written_is_seen_where_the_poison_was_due(tmp_path, name, poison):
    def reference(x):
        return np.where(x > 5, x.dtype.type(poison), x)

    bodies = {
        "right": f"if (i < n) y[i] = x[i] > 5 ? {poison} : x[i];",
        "wrong": "if (i < n && x[i] <= 5) y[i] = x[i];",
    }
    right, wrong = (checked(tmp_path, e, bodies, reference=reference, dtypes=(name,)) for e in bodies)
    assert (right.status, wrong.status) == ("ok", "WRONG")
    assert f"want {poison} for x = 8; ...; largest error " in wrong.reason
    assert wrong.reason.endswith("; never written: 64 of 70 elements of y, first [6]")


def test_an_error_in_place_is_not_blamed_on_the_next(monkeypatch):
    """The run in place has overwritten the input."""
    real, failed = Cpu.fingerprint, []

    def fingerprint(self, array):
        if array is self._guarded["x"].array and not failed:
            failed.append(array)
            raise MemoryError("no room")
        return real(self, array)

    monkeypatch.setattr(Cpu, "fingerprint", fingerprint)
    cases = cpu_rows(Group(plus_one, "33", (33,), F32, awkward=True), "host")
    assert [(c.variant, c.status, c.reason, c.parity is None) for c in cases] == [
        ("plus_one_scalar", "error", "out of memory: no room", True), ("plus_one_vec", "ok", "", False),
    ]  # fmt: skip


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

    usual = {"sizes": {"small": (1000,)}, "budgets": Budget(1e6), "torch": later}
    kernel = pointwise(tmp_path, FLOATS["right"], pointwise=True, **usual)
    fine, bad = cpu_rows(Group(kernel, "small", (1000,), F32), "numpy", "torch_eager", modes=["launch"])
    assert (fine.status, set(fine.times)) == ("ok", {"wall"})
    assert (bad.status, bad.times) == ("WRONG", {})
    assert reason in bad.reason and "(in a timed run)" in bad.reason


WIDE = {"float32": Budget(8, 1e-6, "loses digits")}


@pytest.mark.parametrize(
    ("given", "right"),
    [({}, set()), ({"peers": WIDE}, {"torch_eager", "torch_native"}), ({"composed": WIDE}, {"torch_eager"})],
    ids=["no peers", "peers", "composed"],
)
def test_each_form_is_judged_by_its_own_budget(tmp_path, given, right):
    """A peer that is less exact than the kernel's own entries passes by its own budget, and only by that."""
    pytest.importorskip("torch")

    def form(x):
        return x + 1.0000005

    kernel = pointwise(tmp_path, FLOATS["right"], torch=form, torch_native=form, **given)
    cases = cpu_rows(Group(kernel, "70", (70,), F32), "host", "torch_native", "torch_eager")
    assert {case.label for case in cases if case.status == "ok"} == {"host:k", *right}
