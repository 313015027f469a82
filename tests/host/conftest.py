"""What the tests of the CPU executor share."""

from __future__ import annotations

import numpy as np
import on_cpu
import pytest

from cudalab import host


@pytest.fixture(scope="session", autouse=True)
def _compiler():
    if host.compiler_missing() is not None:
        pytest.skip("no C++ compiler")


@pytest.fixture(scope="module")
def module(request):
    """The file of tests/data/host that a file of tests names as `CU`."""
    return host.load(on_cpu.source(request.module.CU), name=request.module.CU)


@pytest.fixture(scope="module")
def watched(request):
    """The same, compiled so that races are found."""
    return on_cpu.watched(on_cpu.source(request.module.CU), request.module.CU)


@pytest.fixture
def rng():
    return np.random.default_rng(0)
