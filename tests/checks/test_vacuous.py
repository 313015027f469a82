"""Specs that cannot tell a right output from zeros, or from random bytes."""

from __future__ import annotations

import numpy as np
import pytest
from cpu_rows import cpu_rows
from specs import pointwise

from cudalab import Budget, In, Out
from cudalab.checks import vacuous
from cudalab.checks.expected import Expected
from cudalab.engine.groups import Group
from cudalab.engine.kernel_round import NO_EDGES
from cudalab.spec.dtype import dtype

NONE = {"k": lambda **arrays: None}


def plain(folder, value="x[i]", reference=lambda x: x, **fields):
    body, given = f"if (i < n) y[i] = {value};", {"sizes": {"small": (300,)}, "edges": ((1,),), "budgets": Budget(1)}
    return pointwise(folder, body, reference, **given | fields)


def checked(kernel, *labels, modes=()):
    group = Group(kernel, "small", (300,), dtype("float32"))
    return {case.label: case for case in cpu_rows(group, *(labels or ("host:k", "numpy")), modes=modes)}


@pytest.mark.parametrize("modes", [(), ("launch",)])
def test_a_check_that_cannot_fail_is_refused(tmp_path, modes):
    kernel = plain(tmp_path, "7.0f", reference=None, outputs={"y": Out(check=lambda x, y: True)})
    case = checked(kernel, "host:k", modes=modes)["host:k"]
    assert case.status == "error" and not case.times
    assert "the check of y accepts zeros, and random bytes: it cannot fail; let it look at the values" in case.reason


@pytest.mark.parametrize(
    "check",
    [
        lambda x, y: np.array_equal(np.sort(y), np.sort(x)),
        lambda x, y: bool(np.abs(y).max() < 100),  # zeros are right; NaN and huge numbers are not
        lambda x, y: x[int(y.max())] < 9,  # raises IndexError
    ],
)
def test_a_check_that_can_fail_is_taken(tmp_path, check):
    value = "x[i]" if check(np.ones(300), np.ones(300)) else "1.0f"
    kernel = plain(tmp_path, value, reference=None, outputs={"y": Out(check=check)})
    assert "cannot fail" not in checked(kernel, "host:k")["host:k"].reason


ZEROS = "an output of zeros would be right for y: "


@pytest.mark.parametrize(
    ("reference", "fields", "notes"),
    [
        (lambda x: x, {}, []),
        (lambda x: x, {"edges": ()}, [NO_EDGES]),
        (lambda x: x, {"budgets": Budget(1, 100)}, [f"{ZEROS}its budget allows it; is `atol` too large?"]),
        (lambda x: np.maximum(x, 0), {"inputs": {"x": In(low=-2.0, high=-1.0)}},
         [f"{ZEROS}the reference gives nothing else for these inputs"]),
    ],
    ids=["usual", "no edges", "a wide budget", "zeros alone"],
)  # fmt: skip
def test_a_spec_that_tells_little_is_told_so(tmp_path, reference, fields, notes):
    assert checked(plain(tmp_path, "0.0f", reference, **fields), "numpy")["numpy"].notes == notes


# ---- inputs that play no part ----------------------------------------------------------------------------------------


def idle(kernel):
    """The notes on inputs that play no part, of inputs that are drawn twice."""
    given, other = (kernel.make((300,), dtype("float32"), seed) for seed in (1, 2))
    return vacuous.idle(kernel, dtype("float32"), given, other, {"out": Expected(kernel, given).compute("out", {})})


def of_three(tmp_path, reference, same=""):
    """The notes for a reference of x, y and z, of which `same` are zeros."""

    def inputs(shape, dtype, rng):
        return {n: (rng.standard_normal(shape) if n not in same else np.zeros(shape)).astype(dtype) for n in "xyz"}

    return idle(plain(tmp_path, "", reference, inputs=inputs, outputs={"out": Out()}, entries=NONE))


def test_an_input_that_no_result_depends_on_is_noted(tmp_path):
    def named(reference, **more):
        return [note.partition(",")[0].rpartition(" ")[2] for note in of_three(tmp_path, reference, **more)]

    assert of_three(tmp_path, lambda x, y, z: x + y * z) == []
    assert named(lambda x, y, z: x + 0 * y + z) == ["y"]
    assert named(lambda x, y, z: x) == ["y", "z"]
    assert named(lambda x, y, z: x, same="z") == ["y"]  # an input that is the same for each seed says nothing
    assert of_three(tmp_path, lambda x, y, z: np.maximum(x, 1e9) - 1e9) == [vacuous.CONSTANT]
    assert of_three(tmp_path, lambda x, y, z: np.where(x > 9, y, np.nan)) == [vacuous.CONSTANT]


def test_the_note_is_in_a_row_of_the_kernel_where_the_reference_has_none(tmp_path):
    kernel = plain(tmp_path, "7.0f", reference=lambda x: np.maximum(x, 1e9) - 1e9 + 7)
    assert vacuous.CONSTANT in checked(kernel, "host:k")["host:k"].notes
    found = checked(kernel)
    assert vacuous.CONSTANT in found["numpy"].notes and vacuous.CONSTANT not in found["host:k"].notes


def test_inputs_that_belong_together_are_not_mixed(tmp_path):
    """The lengths of a sparse matrix's arrays differ from draw to draw."""

    def inputs(shape, dtype, rng):
        n = int(rng.integers(20, 90))
        return {"at": rng.integers(0, shape[0], n), "x": rng.standard_normal(n).astype(dtype)}

    def reference(at, x):
        return np.bincount(at, x, 300)

    out = {"shapes": {"out": "300"}, "outputs": {"out": Out()}}
    assert idle(plain(tmp_path, "", reference, inputs=inputs, entries=NONE, **out)) == []
