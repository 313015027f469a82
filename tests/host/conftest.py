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
    """The file of tests/data/host that a file of tests names as `CU`, or the text that it has as `SOURCE`."""
    here = request.module
    return host.load(here.SOURCE if hasattr(here, "SOURCE") else on_cpu.source(here.CU), name=here.CU)


@pytest.fixture(scope="module")
def watched(request):
    """The text `SOURCE`, compiled so that races are found."""
    return on_cpu.watched(request.module.SOURCE, request.module.CU)


@pytest.fixture
def rng():
    return np.random.default_rng(0)
