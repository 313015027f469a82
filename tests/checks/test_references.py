"""References: they may change or return what they are given, and what cannot be judged as it is, is refused."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from cpu_rows import cpu_rows
from specs import pointwise
from specs import spec as plain

from cudalab.backends import numpy as numpy_backend
from cudalab.checks import inputs as check_inputs
from cudalab.checks.expected import Expected
from cudalab.device.cpu import Cpu
from cudalab.device.operands import Operands
from cudalab.engine import check_plan
from cudalab.engine.groups import Group
from cudalab.spec.array import Out, Work
from cudalab.spec.dtype import dtype
from cudalab.spec.kernel import Budget


def spec(folder, reference, body="y[i] = x[i];", name="float32", **fields):
    given = {"dtypes": (name,), "sizes": {"small": (9,)}, "budgets": Budget(0)}
    return pointwise(folder, f"if (i < n) {body}", reference, **given | fields)


def rows(kernel, only=("host", "numpy"), modes=()):
    name = kernel.dtypes[0]
    label, shape = next(iter(kernel.sizes.items()))
    group = Group(kernel, label, shape, dtype(name))
    return {case.label: case for case in cpu_rows(group, *only, modes=modes)}


def outcome(found):
    return {label: (case.status, case.reason) for label, case in found.items()}


def refused(found, message):
    return all(c.status == "error" and "k.py: " in c.reason and message in c.reason for c in found.values())


def sorted_in_place(x):
    x.sort()
    return x


def plus_one_in_place(x):
    x += 1
    return x


RIGHT = {"numpy": ("ok", ""), "host:k": ("ok", "")}


@pytest.mark.sweep
@pytest.mark.parametrize(
    "name",
    ["float32", *(pytest.param(kind, marks=pytest.mark.sweep) for kind in ("float16", "float64", "int32", "uint8"))],
)
@pytest.mark.parametrize(
    "reference", [lambda x: x, lambda x: x.reshape(-1), lambda x: np.asarray(x), lambda x: x[:], lambda x: x.view()]
)
def test_a_reference_may_return_its_input(tmp_path, name, reference):
    assert outcome(rows(spec(tmp_path, reference, name=name))) == RIGHT


IN_FEW_DTYPES = ["float32", *(pytest.param(kind, marks=pytest.mark.sweep) for kind in ("int32", "uint8"))]


@pytest.mark.parametrize("name", IN_FEW_DTYPES)
def test_a_reference_may_change_its_input(tmp_path, name):
    assert outcome(rows(spec(tmp_path, plus_one_in_place, "y[i] = x[i] + 1;", name))) == RIGHT
    assert outcome(rows(spec(tmp_path, plus_one_in_place, "y[i] = x[i] + 1;", name, pointwise=True))) == RIGHT


@pytest.mark.parametrize("name", IN_FEW_DTYPES)
def test_a_copy_is_no_sort_although_the_reference_sorts_in_place(tmp_path, name):
    found = rows(spec(tmp_path, sorted_in_place, name=name))
    assert (found["numpy"].status, found["host:k"].status) == ("ok", "WRONG")


def test_an_error_of_the_reference_is_not_taken_for_one_of_memory_that_is_read_only(tmp_path):
    calls = []

    def reference(x):
        calls.append(x.flags.writeable)
        raise ValueError("its own")

    given = Operands({"x": np.ones(3, np.float32)}, None)
    bound = numpy_backend.bind(spec(tmp_path, reference), "", dtype("float32"), given)
    with pytest.raises(ValueError, match="its own"):
        bound.run()
    assert calls == [False, True]


@pytest.mark.parametrize(("result", "message"), [
    (lambda x: x + 1j, "reference returns complex values; return real ones, such as y.real"),
    (lambda x: np.ma.masked_greater(x, 0), "reference returns a masked array, whose mask is lost; return y.filled"),
    (lambda x: x.astype(object), "reference returns values of dtype object; return an array of numbers"),
    (lambda x: x.astype(str), "reference returns values of dtype <U32; return an array of numbers"),
    (lambda x: np.zeros(9, [("a", "f4")]), r"reference returns values of dtype [('a', '<f4')]; return an array"),
    (lambda x: None, "reference returns None; return an array of numbers"),
    (lambda x: [[1], [2, 3]], "reference returns a list, which is not a NumPy array"),
])  # fmt: skip
@pytest.mark.parametrize("pointwise", [False, True])
def test_a_result_that_cannot_be_judged_is_refused_by_name(tmp_path, result, message, pointwise):
    assert refused(rows(spec(tmp_path, result, pointwise=pointwise)), message)


@pytest.mark.parametrize(("made", "message"), [
    ([1.0] * 9, "inputs: x is of type list; give a NumPy array"),
    (np.ma.masked_less(np.zeros(9), 1), "inputs: x is a masked array, whose mask would be lost; give x.filled(0)"),
    (np.zeros(9, object), "inputs: x is of dtype object, which CUDA does not have"),
    (np.zeros(9, "U3"), "inputs: x is of dtype <U3, which CUDA does not have"),
    (np.zeros(9, [("a", "f4")]), "which CUDA does not have; give numbers"),
    (np.zeros(9, np.longdouble), "which CUDA does not have; give numbers"),
    (np.zeros(9, "datetime64[s]"), "which CUDA does not have; give numbers"),
    (np.zeros(9, ">f4"), "inputs: x is of dtype >f4, in another byte order; give x.astype(x.dtype.newbyteorder("),
])  # fmt: skip
def test_an_input_that_no_kernel_can_take_is_refused_by_name(tmp_path, made, message):
    assert refused(rows(spec(tmp_path, lambda x: x, inputs=lambda shape, kind, rng: {"x": made})), message)


def booleans(shape, kind, rng):
    return {"x": rng.random(shape) < 0.5}


@pytest.mark.sweep
@pytest.mark.parametrize("of", ["bool", "unsigned char"])
def test_boolean_inputs_reach_the_reference_as_they_are(tmp_path, of):
    """~x of float64 is an error, and of integers another function."""
    kernel = spec(tmp_path, lambda x: ~x, "y[i] = !x[i];", "uint8", of=of, inputs=booleans)
    assert outcome(rows(kernel)) == RIGHT
    assert (
        rows(spec(tmp_path, lambda x: ~x, "y[i] = x[i];", "uint8", of=of, inputs=booleans))["host:k"].status == "WRONG"
    )


def test_pytorch_gets_boolean_inputs_too(tmp_path):
    pytest.importorskip("torch")
    kernel = spec(
        tmp_path, lambda x: ~x, "y[i] = !x[i];", "uint8", of="bool", inputs=booleans, torch=lambda x: (~x).byte()
    )
    assert outcome(rows(kernel, ("torch_eager",))) == {"torch_eager": ("ok", "")}


@pytest.mark.sweep
def test_complex_inputs_reach_the_reference_as_they_are(tmp_path):
    def inputs(shape, kind, rng):
        return {"x": (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(np.complex64)}

    def squared(x):
        return x.real**2 + x.imag**2

    right = spec(tmp_path, squared, "y[i] = x[i].x * x[i].x + x[i].y * x[i].y;", of="float2", inputs=inputs,
                 budgets=Budget(2))  # fmt: skip
    assert outcome(rows(right)) == RIGHT
    real = spec(tmp_path, squared, "y[i] = x[i].x * x[i].x;", of="float2", inputs=inputs, budgets=Budget(2))
    assert rows(real)["host:k"].status == "WRONG"


@pytest.mark.parametrize(("kind", "output", "want"), [
    ("float16", "float32", "float32"), ("float32", "float64", "float64"), ("float64", "float16", "float64"),
    ("float32", "uint8", "float32"), ("float64", "uint8", "float64"), ("int32", "float64", "int32"),
    ("complex64", "float32", "complex64"), ("complex64", "float64", "complex128"), ("bool", "float16", "bool"),
])  # fmt: skip
def test_the_numpy_row_computes_in_no_narrower_dtype(kind, output, want):
    assert numpy_backend.precision(np.dtype(kind), dtype(output)).name == want


def test_the_numpy_row_is_right_where_the_output_is_wider_than_the_input(tmp_path):
    def inputs(shape, kind, rng):
        return {"x": rng.standard_normal(shape).astype(np.float32)}

    kernel = spec(tmp_path, lambda x: x * 0.1, "y[i] = x[i] * 0.1;", "float64", of="float", inputs=inputs,
                  budgets=Budget(1))  # fmt: skip
    assert outcome(rows(kernel)) == RIGHT


def test_float32_is_only_blamed_where_it_was_used(tmp_path):
    notes = {}
    for name in ("float32", "float64"):
        kernel = spec(tmp_path, lambda x: np.where(x.flags.writeable, x, x + 1), name=name)
        notes[name] = rows(kernel)["numpy"].notes
    blamed = "the reference itself, in float32, is WRONG: is the budget too small?"
    assert (blamed in notes["float32"], blamed in notes["float64"]) == (True, False)


def test_a_reference_of_fractions_for_whole_numbers_is_told_the_order(tmp_path):
    outputs = {"top": Out(), "at": Out(dtype="int32")}
    entries = {"k": lambda **arrays: None}
    kernel = replace(spec(tmp_path, lambda x: (x, x / 2)), outputs=outputs, entries=entries)
    said = "the reference gives 0.5 for at, which is int32: round it, or return top, at in this order"
    wanted = {"top": np.zeros(3), "at": np.array([2.0, np.inf, 0.5])}
    assert check_inputs.fractional(kernel, dtype("float32"), wanted) == [said]
    assert not check_inputs.fractional(kernel, dtype("float32"), {"top": wanted["at"], "at": np.arange(3)})


def test_a_form_that_returns_its_input_is_told_so(tmp_path):
    pytest.importorskip("torch")
    found = rows(spec(tmp_path, lambda x: x, torch=lambda x: x), ("torch_eager",))
    assert outcome(found) == {
        "torch_eager": ("error", "its result shares memory with its input 'x'; return a copy, such as x.clone()")
    }


def test_a_form_that_answers_from_memory_is_wrong(tmp_path):
    pytest.importorskip("torch")
    kept = {}

    def remembered(x):
        if x.data_ptr() not in kept:
            kept[x.data_ptr()] = x + 1
        return kept[x.data_ptr()].clone()

    kernel = spec(tmp_path, lambda x: x + 1, torch=remembered, budgets=Budget(1))
    case = rows(kernel, ("torch_eager",))["torch_eager"]
    assert case.status == "WRONG"
    assert case.reason.endswith("(with other values in the same inputs: are results kept from an earlier call?)")
    timed = rows(kernel, ("torch_eager", "numpy"), ("launch",))
    assert {label: (case.status, bool(case.times)) for label, case in timed.items()} == {
        "numpy": ("ok", True), "torch_eager": ("WRONG", False)
    }  # fmt: skip


def test_a_few_wrong_values_are_not_taken_for_kept_results(tmp_path):
    pytest.importorskip("torch")
    kept = {}

    def misses_one(x):
        y = x + 1
        y[0] += 0 if kept.setdefault("first", x.clone()).equal(x) else 1
        return y

    kernel = spec(tmp_path, lambda x: x + 1, torch=misses_one, budgets=Budget(1))
    case = rows(kernel, ("torch_eager",))["torch_eager"]
    assert case.reason.startswith("1 of 9 values")
    assert case.reason.endswith("(with other values in the same inputs)")


def test_a_reference_gives_no_warnings_of_numpy(tmp_path):
    kernel = spec(tmp_path, lambda x: 1 / (x - x + 0.0) + np.exp(1e4 + x), pointwise=False)
    assert np.isinf(Expected(kernel, {"x": np.ones(3, np.float32)}).compute("y", {})).all()


@pytest.mark.sweep
def test_an_entry_that_answers_from_memory_is_wrong(tmp_path):
    body = "{ static __device__ float kept[9]; if (kept[i] == 0) kept[i] = x[i]; y[i] = kept[i]; }"
    case = rows(spec(tmp_path, lambda x: x, body))["host:k"]
    assert case.status == "WRONG" and "are results kept from an earlier call?" in case.reason


@pytest.mark.sweep
def test_the_verdict_is_on_the_first_values(tmp_path):
    one, two = (rows(spec(tmp_path, lambda x: x * 3, "y[i] = x[i] * 3;", sizes=sizes, budgets=Budget(1)))
                for sizes in ({"small": (9,)}, {"tiny": (3,), "small": (9,)}))  # fmt: skip
    assert one["host:k"].parity.n == 9 and two["host:k"].parity.n == 3


# ---- dtypes of inputs and output that differ -------------------------------------------------------------------------


def mixed(shape, kind, rng):
    x = rng.standard_normal(shape).astype(np.float16)
    return {"x": x, "w": np.ones(shape, np.float32), "i": np.zeros(shape, int)}


def test_a_workspace_does_not_move(tmp_path):
    """The lab allocates it, also for a call from Python: `float2*` for pairs of float32 needs no word in the spec."""
    kernel = plain(
        tmp_path, sizes={"small": (9,)}, edges=((1,),), entries={"k": lambda x, y, pairs: None},
        workspace={"pairs": Work()}, shapes={"x": "n", "pairs": "n 2"},
    )  # fmt: skip
    groups = check_plan._misaligned("k", kernel, dtype("float32"))
    assert {g.size: g.offsets for g in groups} == {
        "1, all +4 B": (4, 4, 0), "9, all +4 B": (4, 4, 0), "1, all +8 B": (8, 8, 0), "1, x +4 B": (4, 0, 0),
        "1, y +4 B": (0, 4, 0),
    }  # fmt: skip


def test_each_array_moves_by_its_own_elements(tmp_path):
    kernel = plain(
        tmp_path, lambda x, w, i: x, dtypes=("float16",), sizes={"small": (9,)}, edges=((1,), (7,)), inputs=mixed,
        entries={"k": lambda x, w, i, y: None},
    )  # fmt: skip
    groups = check_plan._misaligned("k", kernel, dtype("float16"))
    assert {g.size: g.offsets for g in groups} == {
        "1, all +2 B or more": (2, 4, 8, 2), "7, all +2 B or more": (2, 4, 8, 2), "7, all +4 B or more": (4, 4, 8, 4),
        "9, all +2 B or more": (2, 4, 8, 2),  # the first size
        "7, all +8 B": (8, 8, 8, 8), "7, x +2 B": (2, 0, 0, 0), "7, w +4 B": (0, 4, 0, 0), "7, i +8 B": (0, 0, 8, 0),
        "7, y +2 B": (0, 0, 0, 2),
    }  # fmt: skip
    for group in groups:
        placed = Cpu().place(kernel, group.dtype, group.arrays(0), group.offsets)
        for array in (*placed.inputs.values(), placed.output):
            assert array.ctypes.data % array.itemsize == 0


@pytest.mark.sweep
def test_hard_values_are_those_of_the_inputs_dtype(tmp_path):
    """An output of uint8 says nothing about the values that its function is given."""

    def inputs(shape, kind, rng):
        return {"x": rng.standard_normal(shape).astype(np.float16)}

    def groups(body):
        kernel = spec(tmp_path, lambda x: (x > 0.5), body, "uint8", of="__half", inputs=inputs, pointwise=True,
                      edges=((5,),))  # fmt: skip
        found = check_plan._hard_values("k", kernel, dtype("uint8"), False, 1 << 12)
        assert [(g.size, g.shape, g.arrays(0)["x"].dtype.name) for g in found] == [("all values", (65536,), "float16")]
        return cpu_rows(found[0], "host")[0]

    assert groups("y[i] = __half2float(x[i]) > 0.5f;").status == "ok"
    wrong = groups("y[i] = !(__half2float(x[i]) <= 0.5f);")  # true for NaN
    assert wrong.status == "WRONG" and "2,046 of 65,536" in wrong.reason


def test_inputs_of_two_floating_dtypes_get_hard_values_each(tmp_path):
    def inputs(shape, kind, rng):
        return {"x": rng.standard_normal(shape).astype(np.float16), "w": rng.standard_normal(shape).astype(np.float32)}

    kernel = plain(
        tmp_path, lambda x, w: x * w, sizes={"small": (9,)}, edges=(), inputs=inputs, pointwise=True,
        entries={"k": lambda x, w, y: None},
    )  # fmt: skip
    (group,) = check_plan._hard_values("k", kernel, dtype("float32"), False, 1 << 12)
    x, w = group.arrays(0).values()
    assert (x.dtype, w.dtype, x.shape, w.shape) == (np.float16, np.float32, (1 << 17,), (1 << 17,))
    assert len(np.unique(x[: 1 << 16].view(np.uint16))) == 65536
    assert np.isnan(w[1 << 16 :]).any() and not np.isnan(w[: 1 << 16]).any()


def test_it_is_said_that_integers_get_no_hard_values(tmp_path):
    found = rows(spec(tmp_path, lambda x: x, name="int32", pointwise=True, edges=((1,),)))
    said = ["no hard values were tried: input 'x' is int32; let inputs= give its special values"]
    assert (found["numpy"].notes, found["host:k"].notes) == (said, [])
    assert rows(spec(tmp_path, lambda x: x, pointwise=True, edges=((1,),)))["numpy"].notes == []


def test_it_is_said_that_no_awkward_shape_was_tried(tmp_path):
    (said,) = rows(spec(tmp_path, lambda x: x, pointwise=True))["numpy"].notes
    assert said == "no awkward shape was tried: edges is empty; give some, such as edges=((1,), (31,))"


def test_it_is_said_where_the_reference_is_nan_for_usual_inputs(tmp_path):
    def roots(x):
        with np.errstate(invalid="ignore"):
            return np.sqrt(x)

    usual = {"sizes": {"small": (4000,)}, "edges": ((1,),), "budgets": Budget(1)}
    found = rows(spec(tmp_path, roots, "y[i] = sqrtf(x[i]);", **usual))
    (said,) = found["numpy"].notes
    assert said.startswith("the reference gives NaN for ") and "of y, which tests nothing there" in said
    assert 45 < int(re.search(r"(\d+) %", said)[1]) < 55 and found["host:k"].notes == []

    def positive(shape, kind, rng):
        return {"x": np.abs(rng.standard_normal(shape)).astype(kind)}

    assert rows(spec(tmp_path, roots, "y[i] = sqrtf(x[i]);", edges=((1,),), inputs=positive))["numpy"].notes == []

    def given(shape, kind, rng):
        return {"x": np.full(shape, np.nan, kind)}

    assert rows(spec(tmp_path, lambda x: x, edges=((1,),), inputs=given))["numpy"].notes == [], (
        "NaN that the spec itself gives"
    )


def test_inputs_that_fail_are_told_by_the_rows(tmp_path):
    def inputs(shape, kind, rng):
        raise RuntimeError("no data")

    kernel = spec(tmp_path, lambda x: x, inputs=inputs, edges=((5,),), pointwise=True)
    assert kernel.input_kinds(dtype("float32")) == {"x": np.dtype(np.float32)}
    assert all("RuntimeError: no data" in case.reason for case in rows(kernel).values())


@pytest.mark.parametrize(("budget", "status"), [(Budget(0), "WRONG"), (Budget(0.5), "ok")])
def test_a_budget_of_nothing_tells_the_zeros_apart(tmp_path, budget, status):
    def inputs(shape, kind, rng):
        return {"x": np.array([0.0, -0.0, 1.0, -1.0, np.nan, -np.nan, np.inf, -0.0, 5], kind)}

    kernel = spec(tmp_path, lambda x: x, "y[i] = x[i] + 0.f;", inputs=inputs, budgets=budget)
    assert rows(kernel)["host:k"].status == status
    assert outcome(rows(spec(tmp_path, lambda x: x, inputs=inputs))) == RIGHT
