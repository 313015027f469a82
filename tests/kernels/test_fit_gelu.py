"""The forms of GELU without erff keep their error bounds at every exponent, in the arithmetic of a kernel."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

from cudalab.checks import hard_inputs
from cudalab.spec import cuda_source
from cudalab.spec.dtype import dtype

ROOT = Path(__file__).parents[2]
OFF = (-1, 0, 1)  # ULP of the reciprocal


@pytest.fixture(scope="module")
def fit():
    found = importlib.util.spec_from_file_location("fit_gelu", ROOT / "bench" / "fit_gelu.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def largest(fit, form, c, of):
    x = hard_inputs.sample(dtype("float32"), 2**18, 1).reshape(-1)
    e, error = fit.exp2_unit_polynomial()
    assert error < 5e-9
    with np.errstate(all="ignore"):
        found = [fit.judged(form(x, c, e, off), x, dtype("float32"), of).max_ulp for off in OFF]
        c = c.copy()
        c[3] *= 1.0001
        broken = fit.judged(form(x, c, e), x, dtype("float32"), of).max_ulp
    assert broken > 10
    return max(found)


@pytest.mark.parametrize(
    ("polynomial", "form", "of", "most"),
    [("wide_polynomial", "wide", "gelu", 3.6), ("slope_polynomial", "wide_slope", "derivative", 3)],
)
def test_float32(fit, polynomial, form, of, most):
    c, error = getattr(fit, polynomial)()
    assert error < 2e-8
    assert largest(fit, getattr(fit, form), c, getattr(fit, of)) < most


@pytest.mark.parametrize(("name", "most", "slope"), [("float16", 0.64, 0.63), ("bfloat16", 0.63, 0.63)])
def test_all_values_of_16_bits(fit, name, most, slope):
    x = hard_inputs.every(dtype(name)).reshape(-1).astype(np.float32)
    _, _, order, scale = fit.LOG_SLOPE[name]
    with np.errstate(all="ignore"):
        c, _ = fit.log_polynomial(name)
        assert fit.judged(fit.narrow(x, c), x, dtype(name)).max_ulp < most
        w, _ = fit.log_slope_polynomial(name)
        got = fit.narrow_slope(x, w, order, scale)
        assert fit.judged(got, x, dtype(name), fit.derivative).max_ulp < slope


def numbers(name):
    """The constants of a kernel and its headers. Another solver of the programs may end a digit of one away."""
    cu = ROOT / "kernels" / f"{name}.cu"
    text = cu.read_text()
    text += "".join(header.decode() for header in cuda_source.local_headers(text, cu).values())
    return np.array([float(n) for n in re.findall(r"-?\d+\.\d+(?:e[+-]\d+)?(?=f)", text)])


@pytest.mark.parametrize(
    ("name", "polynomials"),
    [
        ("gelu", ("wide_polynomial", "exp2_unit_polynomial", "log_polynomial")),
        ("bias_gelu", ("wide_polynomial", "exp2_unit_polynomial", "log_polynomial")),
        ("gelu_backward", ("slope_polynomial", "exp2_unit_polynomial", "log_slope_polynomial")),
        ("gelu_tanh", ("exp2_polynomial",)),
    ],
)
def test_the_kernels_hold_these_coefficients(fit, name, polynomials):
    held = numbers(name)
    for polynomial in polynomials:
        fitted = getattr(fit, polynomial)
        for c in [fitted(kind)[0] for kind in fit.LOG] if polynomial.startswith("log") else [fitted()[0]]:
            for k in c[c != 1]:  # a sum that begins with 1 is taken apart
                assert np.isclose(held, k, rtol=1e-5, atol=0).any(), f"{polynomial}: {k:.9g} is not in {name}.cu"


def test_the_kernels_hold_these_constants(fit):
    half, high = fit.UNIT * fit.LOG2_E / 2, np.float64(fit.A0_HIGH)
    scales = (scale for *_, scale in fit.LOG_SLOPE.values())
    values = (fit.UNIT, half, fit.C, fit.SCALE)
    slopes = (fit.UNIT, half, fit.SLOPE_C, high, fit.A0 - high, *scales)
    each = ((numbers("gelu"), values), (numbers("bias_gelu"), values), (numbers("gelu_backward"), slopes))
    for held, wanted in each:
        for number in wanted:
            assert np.isclose(np.abs(held), abs(number), rtol=1e-7, atol=0).any(), f"{number:.9g} is missing"
