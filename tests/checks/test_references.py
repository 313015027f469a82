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


def rows(kernel, *only, modes=()):
    name = kernel.dtypes[0]
    label, shape = next(iter(kernel.sizes.items()))
    group = Group(kernel, label, shape, dtype(name))
    return {case.label: case for case in cpu_rows(group, *(only or ("host", "numpy")), modes=modes)}


def itself(x):
    return x


def sorted_in_place(x):
    x.sort()
    return x


def plus_one_in_place(x):
    x += 1
    return x


def squared(x):
    return x.real**2 + x.imag**2


def roots(x):
    with np.errstate(invalid="ignore"):
        return np.sqrt(x)


def normal(**kinds):
    """Inputs of these names and dtypes."""
    return lambda shape, kind, rng: {
        name: (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(of)
        if of == "complex64"
        else rng.standard_normal(shape).astype(of)
        for name, of in kinds.items()
    }


def given(array):
    return lambda shape, kind, rng: {"x": array}


def booleans(shape, kind, rng):
    return {"x": rng.random(shape) < 0.5}


COMPLEX = {"of": "float2", "inputs": normal(x="complex64"), "budgets": Budget(2)}
BOOLEAN = {"name": "uint8", "inputs": booleans}  # ~x of float64 is an error, and of integers another function
WIDER = {"name": "float64", "of": "float", "inputs": normal(x="float32"), "budgets": Budget(1)}
SIGNED = {"inputs": given(np.array([0.0, -0.0, 1.0, -1.0, np.nan, -np.nan, np.inf, -0.0, 5], np.float32))}
KEPT = "{ static __device__ float kept[9]; if (kept[i] == 0) kept[i] = x[i]; y[i] = kept[i]; }"
VERDICTS = {
    "it changes its input": (plus_one_in_place, "y[i] = x[i] + 1;", {}, "ok"),
    "it changes its input, pointwise": (plus_one_in_place, "y[i] = x[i] + 1;", {"pointwise": True}, "ok"),
    "it sorts in place": (sorted_in_place, "y[i] = x[i];", {}, "WRONG"),
    "the output is wider than the input": (lambda x: x * 0.1, "y[i] = x[i] * 0.1;", WIDER, "ok"),
    "every bit counts": (itself, "y[i] = x[i];", SIGNED, "ok"),
    "zeros have signs": (itself, "y[i] = x[i] + 0.f;", SIGNED, "WRONG"),
    "zeros have no signs": (itself, "y[i] = x[i] + 0.f;", SIGNED | {"budgets": Budget(0.5)}, "ok"),
}
MORE_VERDICTS = {
    **{
        f"it returns its input {way} of {kind}": (reference, "y[i] = x[i];", {"name": kind}, "ok")
        for kind in ("float32", "float16", "float64", "int32", "uint8")
        for way, reference in {
            "itself": itself, "reshaped": lambda x: x.reshape(-1), "as an array": lambda x: np.asarray(x),
            "as a slice": lambda x: x[:], "as a view": lambda x: x.view(),
        }.items()
    },
    **{
        f"{what} {kind}": (reference, body, {"name": kind, **how}, status)
        for kind in ("int32", "uint8")
        for what, (reference, body, how, status) in list(VERDICTS.items())[:3]
    },
    "bool": (lambda x: ~x, "y[i] = !x[i];", BOOLEAN | {"of": "bool"}, "ok"),
    "bytes for bool": (lambda x: ~x, "y[i] = !x[i];", BOOLEAN | {"of": "unsigned char"}, "ok"),
    "bool, wrong": (lambda x: ~x, "y[i] = x[i];", BOOLEAN | {"of": "bool"}, "WRONG"),
    "bytes for bool, wrong": (lambda x: ~x, "y[i] = x[i];", BOOLEAN | {"of": "unsigned char"}, "WRONG"),
    "complex": (squared, "y[i] = x[i].x * x[i].x + x[i].y * x[i].y;", COMPLEX, "ok"),
    "complex, wrong": (squared, "y[i] = x[i].x * x[i].x;", COMPLEX, "WRONG"),
}  # fmt: skip


@pytest.mark.parametrize(("reference", "body", "fields", "status"), [
    *(pytest.param(*case, id=name) for name, case in VERDICTS.items()),
    *(pytest.param(*case, id=name, marks=pytest.mark.sweep) for name, case in MORE_VERDICTS.items()),
])  # fmt: skip
def test_the_reference_is_right_and_a_kernel_gets_this_verdict(tmp_path, reference, body, fields, status):
    found = rows(spec(tmp_path, reference, body, **fields))
    assert (found["numpy"].status, found["numpy"].reason) == ("ok", "")
    assert found["host:k"].status == status, found["host:k"].reason


def test_an_error_of_the_reference_is_not_taken_for_one_of_memory_that_is_read_only(tmp_path):
    calls = []

    def reference(x):
        calls.append(x.flags.writeable)
        raise ValueError("its own")

    operands = Operands({"x": np.ones(3, np.float32)}, None)
    bound = numpy_backend.bind(spec(tmp_path, reference), "", dtype("float32"), operands)
    with pytest.raises(ValueError, match="its own"):
        bound.run()
    assert calls == [False, True]


REFUSED = [  # what a reference makes of x, or which inputs it gets, and what is said of both rows
    (lambda x: x + 1j, None, "reference returns complex values; return real ones, such as y.real"),
    (lambda x: np.ma.masked_greater(x, 0), None, "reference returns a masked array, whose mask is lost; return y.fill"),
    (lambda x: x.astype(object), None, "reference returns values of dtype object; return an array of numbers"),
    (lambda x: x.astype(str), None, "reference returns values of dtype <U32; return an array of numbers"),
    (lambda x: np.zeros(9, [("a", "f4")]), None, r"reference returns values of dtype [('a', '<f4')]; return an array"),
    (lambda x: None, None, "reference returns None; return an array of numbers"),
    (lambda x: [[1], [2, 3]], None, "reference returns a list, which is not a NumPy array"),
    (itself, given([1.0] * 9), "inputs: x is of type list; give a NumPy array"),
    (
        itself,
        given(np.ma.masked_less(np.zeros(9), 1)),
        "inputs: x is a masked array, whose mask would be lost; give x.",
    ),
    (itself, given(np.zeros(9, object)), "inputs: x is of dtype object, which CUDA does not have"),
    (itself, given(np.zeros(9, "U3")), "inputs: x is of dtype <U3, which CUDA does not have"),
    (itself, given(np.zeros(9, [("a", "f4")])), "which CUDA does not have; give numbers"),
    (itself, given(np.zeros(9, np.longdouble)), "which CUDA does not have; give numbers"),
    (itself, given(np.zeros(9, "datetime64[s]")), "which CUDA does not have; give numbers"),
    (
        itself,
        given(np.zeros(9, ">f4")),
        "x is of dtype >f4, in another byte order; give x.astype(x.dtype.newbyteorder(",
    ),
]


@pytest.mark.parametrize(("reference", "inputs", "message"), REFUSED)
@pytest.mark.parametrize("of_elements", [False, True])
def test_what_cannot_be_judged_or_given_is_refused_by_name(tmp_path, reference, inputs, message, of_elements):
    kernel = spec(tmp_path, reference, inputs=inputs, pointwise=of_elements)
    for case in rows(kernel).values():
        assert case.status == "error" and "k.py: " in case.reason and message in case.reason


def test_inputs_that_fail_are_told_by_the_rows(tmp_path):
    def inputs(shape, kind, rng):
        raise RuntimeError("no data")

    kernel = spec(tmp_path, itself, inputs=inputs, edges=((5,),), pointwise=True)
    assert kernel.input_kinds(dtype("float32")) == {"x": np.dtype(np.float32)}
    assert all("RuntimeError: no data" in case.reason for case in rows(kernel).values())


@pytest.mark.parametrize(("kind", "output", "want"), [
    ("float16", "float32", "float32"), ("float32", "float64", "float64"), ("float64", "float16", "float64"),
    ("float32", "uint8", "float32"), ("float64", "uint8", "float64"), ("int32", "float64", "int32"),
    ("complex64", "float32", "complex64"), ("complex64", "float64", "complex128"), ("bool", "float16", "bool"),
])  # fmt: skip
def test_the_numpy_row_computes_in_no_narrower_dtype(kind, output, want):
    assert numpy_backend.precision(np.dtype(kind), dtype(output)).name == want


def test_a_reference_of_fractions_for_whole_numbers_is_told_the_order(tmp_path):
    outputs = {"top": Out(), "at": Out(dtype="int32")}
    entries = {"k": lambda **arrays: None}
    kernel = replace(spec(tmp_path, lambda x: (x, x / 2)), outputs=outputs, entries=entries)
    said = "the reference gives 0.5 for at, which is int32: round it, or return top, at in this order"
    wanted = {"top": np.zeros(3), "at": np.array([2.0, np.inf, 0.5])}
    assert check_inputs.fractional(kernel, dtype("float32"), wanted) == [said]
    assert not check_inputs.fractional(kernel, dtype("float32"), {"top": wanted["at"], "at": np.arange(3)})


def test_a_reference_gives_no_warnings_of_numpy(tmp_path):
    kernel = spec(tmp_path, lambda x: 1 / (x - x + 0.0) + np.exp(1e4 + x), pointwise=False)
    assert np.isinf(Expected(kernel, {"x": np.ones(3, np.float32)}).compute("y", {})).all()


@pytest.mark.sweep
def test_an_entry_that_answers_from_memory_is_wrong(tmp_path):
    case = rows(spec(tmp_path, itself, KEPT))["host:k"]
    assert case.status == "WRONG" and "are results kept from an earlier call?" in case.reason


@pytest.mark.sweep
def test_the_verdict_is_on_the_first_values(tmp_path):
    one, two = (rows(spec(tmp_path, lambda x: x * 3, "y[i] = x[i] * 3;", sizes=sizes, budgets=Budget(1)))
                for sizes in ({"small": (9,)}, {"tiny": (3,), "small": (9,)}))  # fmt: skip
    assert one["host:k"].parity.n == 9 and two["host:k"].parity.n == 3


# ---- forms of PyTorch ------------------------------------------------------------------------------------------------


def from_memory(kept, x):
    if x.data_ptr() not in kept:
        kept[x.data_ptr()] = x + 1
    return kept[x.data_ptr()].clone()


def misses_one(kept, x):
    y = x + 1
    y[0] += 0 if kept.setdefault("first", x.clone()).equal(x) else 1
    return y


SHARED = "^its result shares memory with its input 'x'; return a copy, such as x.clone()"
OTHERS = r"\(with other values in the same inputs"


@pytest.mark.parametrize(
    ("form", "status", "said"),
    [
        (lambda kept, x: x + 1, "ok", "^$"),
        (lambda kept, x: x, "error", SHARED),
        (from_memory, "WRONG", OTHERS + r": are results kept from an earlier call\?\)$"),
        (misses_one, "WRONG", "^1 of 9 values.*" + OTHERS + r"\)$"),
    ],
    ids=["right", "its input", "from memory", "a few wrong values"],
)
@pytest.mark.parametrize("modes", [(), ("launch",)])
def test_the_result_of_a_form_is_new_and_of_its_inputs(tmp_path, form, status, said, modes):
    pytest.importorskip("torch")
    kept = {}
    kernel = spec(tmp_path, lambda x: x + 1, torch=lambda x: form(kept, x), budgets=Budget(1))
    found = rows(kernel, "torch_eager", "numpy", modes=modes)
    assert (found["numpy"].status, bool(found["numpy"].times)) == ("ok", bool(modes))
    case = found["torch_eager"]
    assert (case.status, bool(case.times)) == (status, bool(modes) and status == "ok")
    assert re.search(said if not modes else "", case.reason)


def test_pytorch_gets_boolean_inputs_too(tmp_path):
    pytest.importorskip("torch")
    kernel = spec(tmp_path, lambda x: ~x, torch=lambda x: (~x).byte(), **BOOLEAN)
    (case,) = rows(kernel, "torch_eager").values()
    assert (case.status, case.reason) == ("ok", "")


# ---- notes -----------------------------------------------------------------------------------------------------------

ONE_EDGE = {"edges": ((1,),)}


def cancelling(x):
    return np.cumsum(np.concatenate([x, -x])).reshape(2, -1)[1]


def worse_in_float32(x):
    return np.where(x.flags.writeable, x, x + 1)


NOTED = {
    "none": (itself, {"pointwise": True, **ONE_EDGE}, None),
    "integers": (itself, {"pointwise": True, "name": "int32", **ONE_EDGE},
                 "^no hard values were tried: input 'x' is int32; let inputs= give its special values$"),
    "no edges": (itself, {"pointwise": True},
                 r"^no awkward shape was tried: edges is empty; give some, such as edges=\(\(1,\), \(31,\)\)$"),
    "nan": (roots, {"sizes": {"small": (4000,)}, "budgets": Budget(1), **ONE_EDGE},
            "^the reference gives NaN for (4[5-9]|5[0-5]) % of y, which tests nothing there"),
    "no nan": (roots, {"inputs": given(np.arange(9, dtype=np.float32)), **ONE_EDGE}, None),
    "nan of the inputs": (itself, {"inputs": given(np.full(9, np.nan, np.float32)), **ONE_EDGE}, None),
    "budget": (worse_in_float32, ONE_EDGE, "^the reference itself, in float32, is WRONG: is the budget too small.$"),
    "terms that cancel": (cancelling, {"budgets": Budget(1), **ONE_EDGE},
                          "terms of a sum cancel, let the budget's `atol` grow"),
    "no float32": (worse_in_float32, {"name": "float64", **ONE_EDGE}, None),
}  # fmt: skip


@pytest.mark.parametrize(("reference", "fields", "said"), NOTED.values(), ids=NOTED)
def test_what_is_noted_of_a_reference(tmp_path, reference, fields, said):
    notes = rows(spec(tmp_path, reference, **fields), "numpy")["numpy"].notes
    assert len(notes) == (said is not None) and all(re.search(said, note) for note in notes), notes


def test_a_note_on_the_reference_is_not_in_the_rows_of_the_kernel(tmp_path):
    found = rows(spec(tmp_path, itself, pointwise=True))
    assert found["numpy"].notes and found["host:k"].notes == []


# ---- dtypes of inputs and output that differ -------------------------------------------------------------------------


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
        tmp_path, lambda x, w, i: x, dtypes=("float16",), sizes={"small": (9,)}, edges=((1,), (7,)),
        inputs=normal(x="float16", w="float32", i="int64"), entries={"k": lambda x, w, i, y: None},
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
@pytest.mark.parametrize(
    ("body", "status"),
    [("y[i] = __half2float(x[i]) > 0.5f;", "ok"), ("y[i] = !(__half2float(x[i]) <= 0.5f);", "WRONG")],  # true for NaN
)
def test_hard_values_are_those_of_the_inputs_dtype(tmp_path, body, status):
    """An output of uint8 says nothing about the values that its function is given."""
    kernel = spec(tmp_path, lambda x: (x > 0.5), body, "uint8", of="__half", inputs=normal(x="float16"), pointwise=True,
                  edges=((5,),))  # fmt: skip
    (group,) = check_plan._hard_values("k", kernel, dtype("uint8"), False, 1 << 12)
    assert (group.size, group.shape, group.arrays(0)["x"].dtype.name) == ("all values", (65536,), "float16")
    (case,) = cpu_rows(group, "host")
    assert case.status == status and ("2,046 of 65,536" in case.reason) == (status == "WRONG")


def test_inputs_of_two_floating_dtypes_get_hard_values_each(tmp_path):
    kernel = plain(
        tmp_path, lambda x, w: x * w, sizes={"small": (9,)}, edges=(), inputs=normal(x="float16", w="float32"),
        pointwise=True, entries={"k": lambda x, w, y: None},
    )  # fmt: skip
    (group,) = check_plan._hard_values("k", kernel, dtype("float32"), False, 1 << 12)
    x, w = group.arrays(0).values()
    assert (x.dtype, w.dtype, x.shape, w.shape) == (np.float16, np.float32, (1 << 17,), (1 << 17,))
    assert len(np.unique(x[: 1 << 16].view(np.uint16))) == 65536
    assert np.isnan(w[1 << 16 :]).any() and not np.isnan(w[: 1 << 16]).any()
