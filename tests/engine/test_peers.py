"""A library that does not work costs its row; what the user wrote, or asked for by name, stays an error."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
import specs

from cudalab import backends
from cudalab.backends import numpy as working
from cudalab.device.cpu import Cpu
from cudalab.engine import options, peers
from cudalab.engine.groups import Group
from cudalab.engine.job import Job
from cudalab.engine.kernel_round import cases
from cudalab.engine.selection import Selection
from cudalab.results import record
from cudalab.spec import find
from cudalab.spec.dtype import dtype

GONE = "AttributeError: module 'numpy' has no attribute 'row_stack'"


def breaks(*arguments):
    raise AttributeError("module 'numpy' has no attribute 'row_stack'")


@pytest.fixture
def library(monkeypatch):
    """A backend of an optional library, which works; tests break it."""
    found = SimpleNamespace(devices=("cpu",), timed=True, budget="peers", own_indexing=True, library="scipy",
                            missing=lambda device: None, variants=lambda kernel: ("",), bind=working.bind)  # fmt: skip
    monkeypatch.setattr(backends, "by_name", lambda: {"theirs": found, "numpy": working})
    peers._failure.cache_clear()
    yield found
    peers._failure.cache_clear()


def users(folder):
    (folder / "own.py").touch()
    return specs.kernel(folder, "own", "__global__ void own(const float* x, float* y) { y[0] = x[0]; }\n")


def row(kernel, only=""):
    group = Group(kernel, "tiny", (40,), dtype("float32"))
    named = options.setup_of({"device": "cpu", "only": only, "skip": "", "seed": 0}, (), [group]).named
    job = Job(Cpu(), Selection.of(only, ""), (), 0, 0.01, lambda step: None, named=named)
    return next(case for case in cases(job, group) if case.backend == "theirs")


@pytest.mark.parametrize("part", ["missing", "variants", "bind"])
def test_a_library_that_is_broken_is_skipped_with_its_version_and_the_reason(library, tmp_path, part):
    setattr(library, part, breaks)
    for kernel in (find.kernel("plus_one"), users(tmp_path)):
        case = row(kernel)
        assert case.status == "skipped", case.reason
        assert GONE in case.reason
        assert part == "variants" or case.reason.startswith("scipy 1.")
        assert "\n" not in case.reason


@pytest.mark.parametrize("part", ["missing", "bind"])
def test_it_is_an_error_where_only_names_it_and_not_where_a_pattern_fits_it(library, part):
    setattr(library, part, breaks)
    assert row(find.kernel("plus_one"), only="the*,numpy").status == "skipped"
    case = row(find.kernel("plus_one"), only="theirs,numpy")
    assert (case.status, case.reason.count("does not work here")) == ("error", 1)


def test_a_mistake_in_the_users_own_form_stays_an_error_and_a_wrong_answer_wrong(library, tmp_path):
    library.bind = lambda kernel, *rest: breaks() if kernel.name == "own" else working.bind(kernel, *rest)
    case = row(users(tmp_path))
    assert (case.status, case.reason) == ("error", GONE)

    def bind(kernel, variant, kind, operands):
        return replace(working.bind(kernel, variant, kind, operands), output=lambda: operands.inputs["x"] + 1)

    library.bind = bind
    assert row(users(tmp_path)).status == record.WRONG
