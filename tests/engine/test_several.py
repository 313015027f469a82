"""Kernels with several outputs and dtypes, arrays in place, scalars, workspaces and several launches, on the CPU."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from cpu_rows import cpu_rows
from several import TAPS, adam, box, count, step

from cudalab import Budget, Launch, Out, Scalar, Work
from cudalab.base.errors import SpecError
from cudalab.engine.groups import Group
from cudalab.engine.job import Job
from cudalab.engine.kernel_round import cases
from cudalab.engine.selection import Selection
from cudalab.spec.dtype import dtype


def rows(kernel, only=("host", "numpy", "torch_eager", "rival"), name="float32", modes=()):
    group = Group(kernel, "small", kernel.sizes["small"], dtype(name))
    return {case.label: case for case in cpu_rows(group, *only, modes=modes)}


def host(kernel):
    """The row of the entry that has the kernel's name."""
    return rows(kernel, only=("host",))[f"host:{kernel.name}"]


def torch_step(p, m, v, g, lr, b1, b2):
    m, v = b1 * m + (1 - b1) * g.float(), b2 * v + (1 - b2) * g.float() ** 2
    return (p.float() - lr * m / (v.sqrt() + 1e-8)).to(p.dtype), m, v


def into(p, m, v, g, lr, b1, b2):
    for old, new in zip((p, m, v), torch_step(p, m, v, g, lr, b1, b2), strict=True):
        old.copy_(new)


@pytest.mark.parametrize("name", ["float32", "float16"])
def test_arrays_in_place_have_fresh_contents_for_every_variant_and_run(tmp_path, name):
    pytest.importorskip("torch")
    found = rows(adam(tmp_path, torch=torch_step, rivals={"into": (into, "out")}), name=name, modes=("launch",))
    assert {label: case.status for label, case in found.items()} == {
        "host:adam": "ok", "numpy": "ok", "torch_eager": "ok", "rival:into": "ok"
    }, {c.label: c.reason for c in found.values()}  # fmt: skip
    for label in ("numpy", "torch_eager", "rival:into"):
        assert found[label].times["wall"]
    elements = 3000
    assert found["numpy"].nbytes == elements * (7 * 4 if name == "float32" else 2 + 4 + 4 + 2 + 2 + 4 + 4)


@pytest.mark.sweep
def test_a_workspace_and_a_filled_buffer_and_two_launches(tmp_path):
    found = rows(count(tmp_path), modes=("launch",))
    assert {label: case.status for label, case in found.items()} == {"host:count": "ok", "numpy": "ok"}


TOTAL = Out(lambda x: x.sum(keepdims=True))


def test_a_buffer_without_its_fill_is_wrong(tmp_path):
    counts = Out(lambda x: np.array([(x <= 0).sum(), (x > 0).sum()]), dtype="int32")
    case = host(count(tmp_path, outputs={"total": TOTAL, "counts": counts}))
    assert case.status == "WRONG" and case.reason.startswith("counts: ")


@pytest.mark.sweep
def test_a_later_output_is_judged_by_the_kernels_own_earlier_one(tmp_path):
    seen = []

    def later(total):
        seen.append(total.dtype)
        return np.array([total[0] <= 0, total[0] > 0], np.int64)

    kernel = count(tmp_path, outputs={"total": TOTAL, "counts": Out(later, dtype="int32")})
    text = kernel.cu.read_text()
    for old, new in (
        ("atomicAdd(&counts[x[i] > scalar_t(0)], 1u)", "(void)0"),
        ("total[0] = scalar_t(sum);", "total[0] = scalar_t(sum); counts[0] = sum <= 0; counts[1] = sum > 0;"),
        ("scalar_t* total, unsigned blocks", "scalar_t* total, unsigned* counts, unsigned blocks"),
    ):
        text = text.replace(old, new)
    kernel.cu.write_text(text)

    def launch(x, total, counts, partial):
        first = Launch((partial.size,), (256,), (x, partial, counts, np.uint32(x.size)), entry="part")
        last = Launch((1,), (1,), (partial, total, counts, np.uint32(partial.size)), entry="whole")
        return first, last

    found = rows(dataclasses.replace(kernel, entries={"count": launch}))
    assert {c.status for c in found.values()} == {"ok"}, [c.reason for c in found.values()]
    assert np.dtype(np.float64) in seen  # of the kernel's rounded total


FORGOTTEN = "return True, or a text that says what is wrong"


@pytest.mark.parametrize(
    ("said", "status", "reason"),
    [
        (True, "ok", ""), ("mean is off", "WRONG", "total: mean is off"),
        (False, "WRONG", "total: the check of total returns False"),
        *[(said, "error", f"the check of total returns {said!r}; {FORGOTTEN}") for said in (None, "", 1, [])],
    ],
)  # fmt: skip
def test_a_property_decides_where_no_value_can(tmp_path, said, status, reason):
    got = []

    def check(total, x):
        got.append((total.shape, x.size))
        return said if total.any() else "nothing was written"

    found = rows(count(tmp_path, outputs={"total": Out(check=check), "counts": count(tmp_path).outputs["counts"]}))
    assert found["host:count"].status == status and reason in found["host:count"].reason
    assert bool(reason) == bool(found["host:count"].reason)
    assert found["numpy"].status == "skipped" and "total is judged by a check=" in found["numpy"].reason
    assert set(got) == {((1,), 3000)}


def test_scalars_are_rounded_once_for_both_sides(tmp_path):
    seen = []

    def reference(p, m, v, g, lr, b1, b2):
        seen.append(lr)
        return step(p, m, v, g, lr, b1, b2)

    scalars = {"lr": Scalar(lambda p: 1 / p.shape[0]), "b1": Scalar(0.9), "b2": Scalar(0.999)}
    case = host(adam(tmp_path, reference=reference, scalars=scalars))
    assert case.status == "ok", case.reason
    assert seen[0] == float(np.float32(1 / 3000))
    assert len(set(seen)) > 1 and all(value == float(np.float32(value)) for value in seen)  # a check tries another one


@pytest.mark.parametrize(
    "fields", [{"outputs": {"p": Out(), "m": Out()}}, {"reference": lambda p, m, v, g, lr, b1, b2: (p, m)}]
)
def test_a_reference_with_too_few_items_says_which_there_should_be(tmp_path, fields):
    reason = host(adam(tmp_path, **fields)).reason
    assert "reference returns" in reason and "return a tuple of p, m" in reason


@pytest.mark.sweep
def test_constants_are_set_before_each_launch(tmp_path):
    of_shapes = box(tmp_path, constants={"taps": lambda x: TAPS if x.size else TAPS[::-1].copy()})
    doubled = box(tmp_path, constants={"taps": 2 * TAPS})  # the same code with other constants
    kernels = (box(tmp_path), of_shapes, doubled, box(tmp_path))
    assert [host(kernel).status for kernel in kernels] == ["ok", "ok", "WRONG", "ok"]
    assert not of_shapes.simple


@pytest.mark.parametrize(
    ("constants", "message"),
    [
        ({"tap": TAPS}, "no __constant__ variable named 'tap'; did you mean 'taps'"),
        ({"taps": TAPS[:2]}, "constant taps: got 8 bytes"),
        ({"taps": TAPS.astype(np.float64)}, "constant taps: got "),
        ({"taps": lambda x: [1, 2, 3]}, "constants['taps'] is [1, 2, 3]; give a NumPy array"),
    ],
)
def test_constants_that_do_not_fit_are_refused(tmp_path, constants, message):
    found = host(box(tmp_path, constants=constants))
    assert found.status == "error" and message in found.reason, found.reason


@pytest.mark.parametrize(
    ("make", "fields", "message"),
    [
        (adam, {"reference": None}, "nothing says what p should be; give reference="),
        (adam, {"scalars": {"p": Scalar(1)}}, "'p' is the name of two of these: arrays, scalars, workspace"),
        (adam, {"output": "q"}, "output is 'q', and outputs names p, m, v; give one of the two"),
        (adam, {"elementwise": "p + 1"}, "elementwise is an expression of one element"),
        (adam, {"shapes": {"q": "n"}}, "shapes: no array named 'q'"),
        (adam, {"shapes": {"p": lambda p: p}}, "shapes: p is an input; give words"),
        (adam, {"outputs": {"p": 1}}, "outputs is {'p': 1}; give records by name, such as {'y': Out(dtype='int64')}"),
        (count, {"workspace": {"parts": Work()}}, "shapes: no array named 'partial'; did you mean"),
        (count, {"shapes": {"x": "n", "total": "1", "counts": "2"}}, "shapes has no 'partial'"),
        (Out, {"dtype": "float8"}, "Out: dtype is 'float8'; give one of float32, float16"),
        (Out, {"fill": "0"}, "Out: fill is '0'; give a number, or None"),
        (Scalar, {"value": "1"}, "Scalar: value is '1'; give a number or a function of inputs"),
        (Scalar, {"value": 1, "dtype": "int9"}, "Scalar: dtype is 'int9'; give one of"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_refused(tmp_path, make, fields, message):
    with pytest.raises(SpecError) as raised:
        make(**fields) if make in (Out, Scalar) else make(tmp_path, **fields)
    assert message in str(raised.value)


def test_a_scalar_fits_its_dtype(tmp_path):
    scalars = {"lr": Scalar(0.5, "int32"), "b1": Scalar(1), "b2": Scalar(1)}
    with pytest.raises(SpecError, match=r"the scalar lr is 0\.5; give a number that fits int32"):
        adam(tmp_path, scalars=scalars).scalars_of({})


@pytest.mark.gpu
@pytest.mark.parametrize("make", [adam, count, box])
def test_on_a_gpu_every_run_of_every_clock_is_judged(gpu, tmp_path, make):
    kernel = make(tmp_path)
    only = ("pycuda",) if kernel.constants else ("pycuda", "cupy_raw")
    job = Job(gpu, Selection(only=only), ("launch", "graph"), 0, 0.1, lambda step: None)
    found = {c.label: c for c in cases(job, Group(kernel, "small", (3000,), dtype("float32")))}
    for label in (f"{backend}:{kernel.name}" for backend in only):
        assert found[label].status == "ok", found[label].reason
        assert {"cold", "hot", "call", "graph", "graph_cold"} <= set(found[label].times), found[label].notes


def test_the_numpy_row_computes_a_later_output_from_the_earlier_one_as_it_was_rounded(tmp_path):
    """It computes in float32, not in the bfloat16 of the earlier output."""
    kernel = count(tmp_path, outputs={"total": TOTAL, "third": Out(lambda total: total / 3, dtype="float32")},
                   shapes={"x": "n", "total": "1", "third": "1", "partial": "1"}, dtypes=("bfloat16",),
                   budgets=Budget(1), entries={"count": lambda x, total, third, partial: None})  # fmt: skip
    assert rows(kernel, only=("numpy",), name="bfloat16")["numpy"].status == "ok"


def test_torchscript_says_what_it_cannot_read(tmp_path):
    pytest.importorskip("torch")

    def typed(p, m, v, g, lr: float, b1: float, b2: float):
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        return p - lr * m / (v.sqrt() + 1e-8), m, v

    def importing(p, m, v, g, lr: float, b1: float, b2: float):
        import math

        return p + math.pi, m, v

    typed.__annotations__ = importing.__annotations__ = {"lr": float, "b1": float, "b2": float}
    assert rows(adam(tmp_path, torch=typed), only=("torch_script",))["torch_script"].status == "ok"
    untyped = "TorchScript treats a parameter without a type as a tensor; annotate lr: float, b1: float, b2: float"
    inside = "TorchScript cannot read an import in a function; write it at the top of the spec"
    for form, said in ((torch_step, untyped), (importing, inside)):
        case = rows(adam(tmp_path, torch=form), only=("torch_script",))["torch_script"]
        assert (case.status, case.reason) == ("skipped", said)
