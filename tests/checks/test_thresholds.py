"""Inputs that hold the values of scalars."""

from __future__ import annotations

import numpy as np
import pytest
from cpu_rows import cpu_rows
from specs import spec

from cudalab import Budget, In, Launch, Out, Scalar, blocks
from cudalab.checks import characters, hard_inputs, thresholds
from cudalab.engine.groups import Group
from cudalab.spec.dtype import dtype

F32 = dtype("float32")


def kernel(tmp_path, reference, **more):
    return spec(tmp_path, reference, **{"scalars": {"limit": Scalar(0.3)}, **more})


def held(found, *numbers):
    return [bool((found == np.float32(number)).any()) for number in numbers]


def test_inputs_hold_scalars_of_both_signs_that_their_dtype_has(tmp_path):
    scalars = {"limit": Scalar(0.3), "n": Scalar(7, "int32"), "zero": Scalar(0.0), "on": Scalar(True, "bool")}
    k = kernel(tmp_path, lambda x, limit, n, zero, on: x, scalars=scalars)
    given = k.make((8, 40), F32, 1)
    assert np.array_equal(thresholds.values(k, given, F32), np.array([-0.3, 0.3], np.float32))
    assert list(thresholds.values(k, given, dtype("int8"))) == [-7, 7]
    assert list(thresholds.values(k, given, dtype("uint8"))) == [7]
    assert not any(thresholds.values(k, given, dtype(name)).size for name in ("float16", "bool", "complex64"))
    x = characters.arrays(k, (8, 40), F32, "scalars", 1)["x"]
    assert held(x, 0.3, -0.3) == [True, True] and 0.1 < np.isin(x, [np.float32(0.3), np.float32(-0.3)]).mean() < 0.4


@pytest.mark.parametrize(
    ("reference", "tried"),
    [
        (lambda x, limit: (x > limit).sum(axis=1), True),
        (lambda x, limit: np.floor((x + 0.9) / limit).sum(axis=1), False),  # 1.2 / 0.3, rounded either way
        (lambda x, limit: np.rint(x / limit).sum(axis=1), True),
    ],
)
def test_where_rounding_decides_on_whole_numbers_the_values_are_not_tried(tmp_path, reference, tried):
    shapes = {"x": "rows cols", "y": "rows"}
    k = kernel(tmp_path, None, outputs={"y": Out(reference, "int32", budgets=Budget(0))}, shapes=shapes)
    assert held(characters.arrays(k, (8, 40), F32, "scalars", 1)["x"], 0.3) == [tried]


def test_hard_values_of_a_pointwise_kernel_hold_them_where_rounding_does_not_decide(tmp_path):
    def hard(reference, values, **more):
        k = kernel(tmp_path, reference, pointwise=True, sizes={"small": (40,)}, edges=((31,),), **more)
        return Group(k, "hard", (1 << 12,), F32, values=values).arrays(1)

    found = hard(lambda x, limit: np.where(x > limit, x, 0), hard_inputs.SAMPLE)["x"]
    assert held(found, 0.3, -0.3) == [True, True]
    assert held(hard(lambda x, limit: np.floor((x + 0.9) / limit), hard_inputs.SAMPLE)["x"], 0.3) == [False]
    kind = dtype("complex128")
    k = kernel(
        tmp_path, lambda x, limit: x * limit, pointwise=True, dtypes=(kind.name,), sizes={"small": (40,)}, edges=()
    )
    assert Group(k, "hard", (1 << 12,), kind, values=hard_inputs.SAMPLE).arrays(1)["x"].dtype == kind.numpy
    two = {"inputs": {"x": In("float32"), "g": In("float32")}}
    each = hard(lambda x, g, limit: np.where(x > limit, g, 0), hard_inputs.EACH, **two)
    assert held(each["x"][: 1 << 11], 0.3) == held(each["g"][1 << 11 :], 0.3) == [True]


@pytest.mark.sweep
def test_the_wrong_comparison_with_a_scalar_is_found(tmp_path):
    signature, at = "(const float* x, float* y, float limit, int n)", "int i = blockIdx.x * blockDim.x + threadIdx.x;"
    (tmp_path / "k.cu").write_text(
        f"__global__ void right{signature} {{ {at} if (i < n) y[i] = x[i] > limit ? x[i] : 0; }}\n"
        f"__global__ void wrong{signature} {{ {at} if (i < n) y[i] = x[i] >= limit ? x[i] : 0; }}\n"
    )

    def launch(x, y, limit):
        return Launch((blocks(x.size, 256),), (256,), (x, y, limit, np.int32(x.size)))

    k = kernel(
        tmp_path, lambda x, limit: np.where(x > limit, x, 0), pointwise=True, sizes={"small": (40,)}, edges=((31,),),
        entries={"right": launch, "wrong": launch},
    )  # fmt: skip
    right, wrong = cpu_rows(Group(k, "hard", (1 << 12,), F32, values=hard_inputs.SAMPLE), "host")
    assert (right.status, wrong.status) == ("ok", "WRONG") and "for x = 0.3" in wrong.reason


def test_a_maximum_that_starts_at_the_number_of_a_mask_shows_at_low_inputs(tmp_path):
    """Also where the values are scaled, and in half precision."""
    k = kernel(tmp_path, lambda x, limit: np.exp(x - x.max(axis=1, keepdims=True)), dtypes=("float32", "float16"))
    for kind, scale in ((F32, 0.125), (dtype("float16"), 1)):
        x = characters.arrays(k, (8, 40), kind, "low", 1)["x"].astype(np.float64)
        assert np.isfinite(x).all() and (x * scale < -1e4 - 128).all() and (np.ptp(x, axis=1) > 99).all()
