"""Specs whose records are not the lab's own are refused: they could judge in their own way."""

from __future__ import annotations

import pytest

from cudalab.base.errors import SpecError
from cudalab.spec import find, plain

SOURCE = "__global__ void one(const float* x, float* y, int n) {}"
SPEC = """import numpy as np
from cudalab import Budget, In, Kernel, Launch, Out, Scalar
{before}
one = {kernel}(file=__file__, summary="", dtypes=("float32",), sizes={{"small": (9,)}}, edges=(),
             reference=lambda x: x + 1, entries={{"one": lambda x, y: Launch((1,), (32,), (x, y, np.int32(x.size)))}},
             budgets={budgets}, {fields})
{after}
"""
ANY = "    def budget(self, *given): return Budget(1e30)"


def spec(folder, before="", after="", kernel="Kernel", budgets="Budget(1)", fields=""):
    (folder / "one.cu").write_text(SOURCE)
    text = SPEC.format(before=before, after=after, kernel=kernel, budgets=budgets, fields=fields)
    (folder / "one.py").write_text(text)
    return str(folder / "one.py")


WIDE = "class Wide:\n    ulp, atol, why = 1, 0, ''"
SCALAR = "class Other(Scalar):\n    def of(self, *given): return 1"
HIDES = "object.__setattr__(one, 'budget', lambda *given: Budget(1e30))"
MINE = f"class Mine(Kernel):\n{ANY}\n"
HOME = "Mine.__module__ = 'cudalab.spec.kernel'"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"before": MINE, "kernel": "Mine"}, "Mine is a subclass of Kernel; give a plain Kernel"),
        ({"before": MINE + HOME, "kernel": "Mine"}, "Mine is a subclass of Kernel; give a plain Kernel"),
        ({"after": HIDES}, "Kernel.budget was replaced"),
        ({"after": "one.__dict__['parameters'] = {}"}, "Kernel.parameters was replaced; give a plain Kernel"),
        ({"before": "class B(Budget): pass", "budgets": "B(1)"}, "budgets: B is a subclass of Budget; give a plain B"),
        ({"before": WIDE, "budgets": "{'float32': Wide()}"}, "is no Budget; give one such as Budget(4"),
        ({"before": SCALAR, "fields": "scalars={'a': Other(2)}"}, "scalars: Other is a subclass of Scalar; give a pla"),
        ({"before": "class I(In): pass", "fields": "inputs={'x': I()}"}, "inputs: I is a subclass of In; give a plain"),
    ],
)
def test_records_of_the_specs_own_are_refused(tmp_path, given, message):
    with pytest.raises(SpecError) as raised:
        find.kernel(spec(tmp_path, **given))
    assert message in str(raised.value) and str(tmp_path) in str(raised.value)


def test_the_labs_own_records_are_taken(tmp_path):
    kernel = find.kernel(spec(tmp_path, budgets="{'float32': Budget(1)}", fields="inputs={'x': In('float32', 0, 1)}"))
    assert kernel.outs and kernel.input_kinds  # what is computed once is kept in the record
    assert plain.wrong(kernel) == ""


def test_budgets_that_change_are_taken_as_they_were(tmp_path):
    before = "class Late(dict):\n    def __getitem__(self, name): return Budget(1e30)"
    kernel = find.kernel(spec(tmp_path, before=before, budgets="Late(float32=Budget(1))"))
    assert kernel.budgets["float32"].ulp == 1
