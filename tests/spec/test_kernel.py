"""The record of a spec: it is data, each field is described once, and unknown fields are refused."""

from __future__ import annotations

import ast
import inspect
import pydoc
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

import cudalab
from cudalab.base.errors import SpecError
from cudalab.spec import field_table, find, tuned, validate
from cudalab.spec.card import Card
from cudalab.spec.dtype import dtype
from cudalab.spec.kernel import Budget, Kernel
from cudalab.spec.launch import Launch

ROOT = Path(__file__).parents[2]


@pytest.mark.process
def test_the_record_is_data():
    assert not callable(Kernel(**{field.name: getattr(find.kernel("gelu"), field.name) for field in fields(Kernel)}))
    lines = "import sys, cudalab.spec.kernel, cudalab.spec.find; print([m for m in sys.modules if m in {!r}])"
    unwanted = ("torch", "cudalab.call", "cudalab.device", "cudalab.engine")
    done = subprocess.run([sys.executable, "-c", lines.format(unwanted)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_each_field_is_described_and_all_but_the_file_are_checked():
    names = [field.name for field in fields(Kernel)]
    assert list(validate.described(Kernel)) == names
    assert list(validate.checks(Kernel)) == [name for name in names if name != "file"]
    required = {name for name, said in validate.described(Kernel).items() if said.without == "required"}
    parameters = inspect.signature(Kernel).parameters
    assert required == {name for name in names if parameters[name].default is inspect.Parameter.empty}


def test_help_of_the_class_lists_the_fields():
    text = pydoc.plain(pydoc.render_doc(type(find.kernel("gelu"))))
    for name, said in validate.described(Kernel).items():
        assert f"{name}: " in text
        assert "](" in said.what or said.what in text
    assert "y = kernel(x)" in text


def test_the_page_has_the_fields_as_they_are():
    text = (ROOT / "docs" / "kernel.md").read_text(encoding="utf-8")
    assert field_table.BEGIN in text
    assert field_table.filled(text) == text, "stale: python -m cudalab.spec.field_table docs/kernel.md"
    assert all(f"| `{field.name}` |" in text for field in fields(Kernel))


@pytest.mark.parametrize("record", [Kernel, cudalab.Kernel, Launch, Budget])
def test_an_unknown_field_is_refused_with_the_close_name(record):
    name = list(validate.described(record))[1] if record not in (Launch, Budget) else fields(record)[0].name
    with pytest.raises(SpecError, match=rf"no field of {record.__name__} named '{name}s'; did you mean '{name}'\?"):
        record(**{f"{name}s": 1})


def without(*left_out):
    gelu = find.kernel("gelu")
    return {field.name: getattr(gelu, field.name) for field in fields(Kernel) if field.name not in left_out}


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Kernel(**without("budgets")),
         "Kernel lacks budgets; give a Budget, or one by dtype, such as {'float32': Budget(4, why='...')}"),
        (lambda: cudalab.Kernel(**without("file", "edges")),
         "Kernel lacks file; give file=__file__\nKernel lacks edges; give a tuple of shapes, such as ((1,), (31,))"),
        (lambda: Kernel("gelu"), "Kernel got 1 positional values; give each as FIELD=VALUE"),
        (lambda: Launch((1,), (32,)), "Launch lacks args; give Launch(grid, block, args)"),
        (lambda: Launch((1,), (32,), (), block=(64,)), "Launch got block by position and by name; give it once"),
        (lambda: Budget(why="exact"), "Budget lacks ulp; give Budget(ulp), such as Budget(0.5)"),
    ],
)  # fmt: skip
def test_a_missing_field_is_named_with_what_to_give(make, said):
    with pytest.raises(SpecError) as raised:
        make()
    assert str(raised.value) == said


def test_nothing_in_the_lab_imports_names_from_the_door_for_old_specs():
    """`cudalab.spec` itself gives names to old specs alone; in the lab each comes from the module that defines it."""
    modules = {path.stem for path in (ROOT / "cudalab" / "spec").glob("*.py")}
    found = []
    for path in (*(ROOT / "cudalab").rglob("*.py"), *(ROOT / "kernels").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module == "cudalab.spec":
                found += [f"{path}: {alias.name}" for alias in node.names if alias.name not in modules]
            elif isinstance(node, ast.Import):
                found += [f"{path}: {alias.name}" for alias in node.names if alias.name == "cudalab.spec"]
    assert not found


def test_a_row_has_its_own_parameters_and_the_cpu_has_no_tuned_ones():
    gelu, kind = find.kernel("gelu"), dtype("float32")
    found, notes = tuned.for_variant(gelu, "gelu_vec", {"VEC_PACKS": 4}, kind, None)
    assert (found.parameters["VEC_PACKS"], notes) == (4, [])
    assert isinstance(found, cudalab.Kernel)
    for entry, card in (("gelu_vec", None), ("", Card("9.0", "a card"))):
        assert tuned.for_variant(gelu, entry, None, kind, card) == (gelu, [])
