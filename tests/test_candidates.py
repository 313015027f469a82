"""Kernels that wait to be measured on a GPU (bench/candidates): right on the host, within tighter bounds than peers."""

from __future__ import annotations

from pathlib import Path

import pytest

from cudalab import registry, values
from cudalab.dtypes import dtype
from cudalab.parity import compare, expected
from cudalab.spec import Budget

FOLDER = Path(__file__).parent.parent / "bench" / "candidates"


@pytest.mark.parametrize(("name", "most"), [("float32", 4), ("float16", 0.51), ("bfloat16", 0.56)])
def test_gelu_keeps_its_digits_in_the_tail(name, most):
    gelu, kind = registry.kernel(str(FOLDER / "gelu.py")), dtype(name)
    x = values.sample(kind, 2**18, 1).reshape(-1) if name == "float32" else values.every(kind).reshape(-1)
    want = expected(gelu, {"x": x})
    parity = compare(gelu(x), want, kind, Budget(most))
    assert parity.ok, parity.message
