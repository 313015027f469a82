"""The forms of GELU without erff keep their error bounds at every exponent, in the arithmetic of a kernel."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from cudalab import values
from cudalab.dtypes import dtype


@pytest.fixture(scope="module")
def fit():
    path = Path(__file__).parent.parent / "bench" / "fit_gelu.py"
    found = importlib.util.spec_from_file_location("fit_gelu", path)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_float32(fit):
    (q, error), (e2, _) = fit.wide_polynomial(), fit.exp2_polynomial()
    assert error < 1e-8
    x = values.sample(dtype("float32"), 2**18, 1).reshape(-1)
    with np.errstate(all="ignore"):
        right = fit.judged(fit.wide(x, q, e2), x, dtype("float32"))
        q[3] *= 1.0001
        off = fit.judged(fit.wide(x, q, e2), x, dtype("float32"))
    assert right.max_ulp < 4
    assert off.max_ulp > 10


def test_the_derivative_in_float32(fit):
    (c, error), (e2, _) = fit.slope_polynomial(), fit.exp2_polynomial()
    assert error < 1e-8
    x = values.sample(dtype("float32"), 2**18, 1).reshape(-1)
    with np.errstate(all="ignore"):
        right = fit.judged(fit.wide_slope(x, c, fit.SLOPE[0], e2), x, dtype("float32"), fit.derivative)
        c[3] *= 1.0001
        off = fit.judged(fit.wide_slope(x, c, fit.SLOPE[0], e2), x, dtype("float32"), fit.derivative)
    assert right.max_ulp < 4
    assert off.max_ulp > 10


@pytest.mark.parametrize(("name", "most", "slope"), [("float16", 0.51, 0.57), ("bfloat16", 0.63, 0.66)])
def test_all_values_of_16_bits(fit, name, most, slope):
    x = values.every(dtype(name)).reshape(-1).astype(np.float32)
    with np.errstate(all="ignore"):
        c, _ = fit.log_polynomial(name)
        assert fit.judged(fit.narrow(x, c), x, dtype(name)).max_ulp < most
        c, _ = fit.log_slope_polynomial(name)
        got = fit.narrow_slope(x, c, fit.LOG_SLOPE[name][1])
        assert fit.judged(got, x, dtype(name), fit.derivative).max_ulp < slope
