"""Inputs of one value throughout, for outputs that count."""

from __future__ import annotations

from time import sleep

import numpy as np
import pytest
from specs import spec

from cudalab import In, Out
from cudalab.checks import counters
from cudalab.spec.dtype import dtype

KIND = dtype("uint8")
COUNTS = {
    "dtypes": ("uint8",), "sizes": {"small": (300,), "large": (1 << 24,)}, "edges": ((5,), (100,)),
    "shapes": {"x": "n", "y": "256"}, "outputs": {"y": Out(dtype="int32", fill=0)},
}  # fmt: skip


def histogram(tmp_path, reference=lambda x: np.bincount(x, minlength=256), **more):
    return spec(tmp_path, reference, **COUNTS | more)


def test_a_count_is_tried_beyond_16_bits_and_beyond_float32(tmp_path):
    kernel = histogram(tmp_path)
    assert counters.shape(kernel, KIND) == (73729,) and counters.shape(kernel, KIND, 1 << 24) == (18874369,)
    found = counters.arrays(kernel, (100,), KIND, 1)["x"]
    assert found.dtype == np.uint8 and (found == found[0]).all()
    bins = counters.arrays(histogram(tmp_path, inputs={"x": In("int32", 3, 9)}), (100,), KIND, 1)["x"]
    assert len(set(bins)) == 1 and 3 <= bins[0] < 9


@pytest.mark.parametrize(
    "more",
    [
        {"sizes": {"small": (300,), "large": (60_000,)}},  # 16 bits may be enough
        {"dims": {"n": "at most 65536"}, "sizes": {"small": (65536,)}},
        {"reference": lambda x: np.arange(256)},
        {"outputs": {"y": Out(dtype="float32", fill=0)}},
        {"outputs": {"y": Out(check=lambda x, y: True, dtype="int32")}, "reference": None},
        {"characters": ("ties",)},
        {"reference": lambda x: 1 / 0},
        {"reference": lambda x: np.full(256, 1000 * x.size)},  # more than there are elements: a sum
        {"outputs": {"y": Out(dtype="int16", fill=0)}},  # it cannot hold the count
        {"reference": lambda x: sleep(1e-4 * x.size) or np.bincount(x, minlength=256)},
    ],
)
def test_what_does_not_count_so_far_gets_no_such_inputs(tmp_path, more):
    assert counters.shape(histogram(tmp_path, **more), KIND) is None
