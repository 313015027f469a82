"""The default inputs."""

from __future__ import annotations

import numpy as np
import pytest

from cudalab.spec.inputs import draw


@pytest.mark.parametrize("name", ["uint8", "int32", "int64"])
def test_integers_take_the_whole_range_of_their_dtype(name):
    info, n = np.iinfo(name), 10_000
    found = draw((n,), np.dtype(name), np.random.default_rng(1))
    assert found.dtype == name
    assert (found.min(), found.max()) == (info.min, info.max)
    assert (found > info.max // 2).sum() > n / 8, "values in the upper part, not only the largest"
    assert name == "int64" or {0, 1} <= set(found.tolist())


@pytest.mark.parametrize("shape", [(), (0,), (1,), (2,), (3, 0), (5, 7)])
def test_integers_of_any_shape(shape):
    assert draw(shape, np.dtype(np.int32), np.random.default_rng(1)).shape == shape
