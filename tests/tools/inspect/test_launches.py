"""`cudalab inspect` follows each launch of an entry and adds up what adds up."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path

import kept_sass
import msgspec
import numpy as np
import pytest
from commands import invoke
from tables import table

import cudalab
from cudalab.base import errors
from cudalab.report import inspection_gate
from cudalab.spec import find
from cudalab.spec.dtype import dtype
from cudalab.tools import inspect as inspection
from cudalab.tools.inspect import compilers, gate, kept, traced_launch

TESTS = Path(__file__).parents[2]
SUM = TESTS / "data" / "kernels" / "two_pass_sum.py"
KEPT = kept_sass.reader(TESTS / "data" / "sass")
N = 2**26  # the large size
GRID, BLOCK = 64, 256
inspect = partial(inspection.inspect, compiled=KEPT)


@pytest.fixture
def command(monkeypatch):
    monkeypatch.setattr(inspection, "inspect", inspect)
    monkeypatch.setattr(compilers, "release", lambda: "13.0")
    return lambda *words, width=140: invoke(*words, COLUMNS=str(width), NO_COLOR="1")


def test_each_launch_has_its_own_figures_and_the_whole_entry_their_sum():
    first, second = inspect(str(SUM))
    assert [one.step for one in (first, second)] == ["1 reduce_partial", "2 reduce_final"]
    assert (first.traced.nbytes, first.traced.elements) == (4 * N + 4 * GRID, N)
    assert (second.traced.nbytes, second.traced.elements) == (4 * GRID + 4, GRID)
    assert first.mix.moved("LDG") == 4 * N // (GRID * BLOCK)
    assert (first.occupancy.blocks, first.traced.blocks, second.traced.blocks) == (8, GRID, 1)
    one, other, whole = inspection.wholes([first, second])
    assert (one, other, whole.launches) == (first, second, (first, second))
    assert whole.predicted == first.predicted + second.predicted
    assert whole.seconds["issue"] == first.seconds["issue"] + second.seconds["issue"]
    assert whole.instructions * N == pytest.approx(BLOCK * (GRID * first.mix.total + second.mix.total))
    assert whole.bytes * N == first.traced.nbytes + second.traced.nbytes
    assert whole.longest is first


def test_arrays_count_in_each_launch_that_takes_them(tmp_path):
    """One that is updated in place twice, unless its parameter is const. `bytes` does not count the workspace."""
    (tmp_path / "steps.cu").write_text(
        "__global__ void one(float* y, const float* x, float* w, int n) {}\n"
        "__global__ void two(const float* y, float* w, int n) {}\n__global__ void none(float* y) {}\n"
    )
    text = """import numpy as np
from cudalab import Budget, Kernel, Launch, Work

def launches(x, y, w):
    n = np.int32(x.size)
    return (Launch((1,), (32,), (y, x, w, n), entry="one"), Launch((0,), (32,), (y,), entry="none"),
            Launch((1,), (32,), (y, w, n), entry="two"))

steps = Kernel(
    file=__file__, summary="", dtypes=("float32",), sizes={"small": (1000,)}, edges=((1,),), output="y",
    reference=lambda x, y: x + y, entries={"steps": launches}, budgets=Budget(1), workspace={"w": Work()},
    shapes={"x": "n", "y": "n", "w": "n"},
)
"""
    (tmp_path / "steps.py").write_text(text)
    kernel = find.kernel(str(tmp_path / "steps.py"))
    on = traced_launch.arrays(kernel, dtype("float32"), (1000,))
    one, two = traced_launch.traced_launches(kernel, "steps", on)
    assert (one.nbytes, two.nbytes) == (4000 * 4, 4000 * 2)  # y twice, x, w; then y, w
    assert [(launch.number, launch.of, launch.last) for launch in (one, two)] == [(1, 2, False), (2, 2, True)]
    (tmp_path / "steps.py").write_text(text.replace("shapes=", "bytes=lambda x, y: 6000, shapes="))
    kernel = find.kernel(str(tmp_path / "steps.py"))
    one, two = traced_launch.traced_launches(kernel, "steps", on)
    assert (one.nbytes, two.nbytes) == (3 * 2000 + 4000, 2000 + 4000)


def test_the_table_has_a_column_and_json_an_object_for_each_launch_and_for_all(command):
    done = command("inspect", str(SUM))
    assert done.exit_code == 0, done.output
    _, _, entries, launches, *_ = done.output.splitlines()
    assert entries.split() == ["sum", "sum", "sum"]
    assert launches.split() == ["1", "reduce_partial", "2", "reduce_final", "all", "launches"]
    lines = {line[:24].strip(): line[24:].split() for line in done.output.splitlines()}
    assert len(lines["registers"]) == 2
    first, second, both = map(float, lines["predicted"])
    assert both == pytest.approx(first + second, rel=1e-3)
    assert lines["bound by"] == ["memory", "issue", "launch", "1"]
    assert "sum, launch 2 of 2 (reduce_final), float32: 408 instructions" in done.output
    assert "sum, float32: 2 launches, 6.03 instructions and 4 bytes per element; on an H200 at least" in done.output
    assert "all launches: what adds up" in done.output
    assert max(map(len, command("inspect", str(SUM), width=60).output.splitlines())) <= 60
    one, two, whole = json.loads(command("inspect", str(SUM), "--format", "json").output)
    assert [found["launch"]["function"] for found in (one, two)] == ["reduce_partial", "reduce_final"]
    assert (one["launch"]["number"], two["launch"]["number"], two["launch"]["of"]) == (1, 2, 2)
    assert whole["launches"] == 2 and "resources" not in whole
    assert whole["predicted"] == one["predicted"] + two["predicted"]


def test_a_measured_time_stands_beside_the_sum(tmp_path):
    run = cudalab.load(TESTS.parent / "bench" / "results" / "h200" / "gelu.json")
    case = next(case for case in run.cases if case.label == "pycuda:gelu_vec" and case.dtype == "float32")
    case.kernel, case.variant, case.shape = "two_pass_sum", "sum", (N,)
    run.save(tmp_path / "run.json")
    first, second, whole = inspection.wholes(inspect(str(SUM), file=tmp_path / "run.json"))
    assert first.ratio is second.ratio is None
    assert whole.ratio == whole.measured / whole.predicted == case.median("cold") / whole.predicted
    assert first.bounds.memory.floor > 0 == second.bounds.memory.floor  # an empty launch counts once
    case.variant = "other"
    run.save(tmp_path / "run.json")
    hints = [one.hints for one in inspect(str(SUM), file=tmp_path / "run.json")]
    said = "the results have no time of sum at this size"
    assert [said in hint for hint in hints] == [False, True]


def rows():
    return kept.inspection_of(inspect(str(SUM)), "13.0").rows


def test_the_file_has_each_launch_and_the_whole_entry(tmp_path):
    one, two, whole = rows()
    assert [row.launch for row in (one, two, whole)] == ["1 reduce_partial", "2 reduce_final", ""]
    assert whole.registers is whole.spills is whole.shared is whole.warps is None
    assert whole.predicted == one.predicted + two.predicted
    found = kept.Inspection(kept.FORMAT, kept.VERSION, "13.0", (one, two, whole))
    kept.save(found, tmp_path / "a.json")
    assert kept.load(tmp_path / "a.json") == found


def test_the_gate_names_the_launch_that_became_worse(command, tmp_path):
    done = command("inspect", str(SUM), "-o", str(tmp_path / "old.json"))
    assert done.exit_code == 0, done.output
    same = command("inspect", str(SUM), "--baseline", str(tmp_path / "old.json"))
    assert same.exit_code == 0 and "None of 12 figures is worse: 12 SAME; 1 entry" in same.output
    old = kept.load(tmp_path / "old.json")
    more = msgspec.structs.replace(old.rows[1], registers=99)
    kept.save(msgspec.structs.replace(old, rows=(old.rows[0], more, old.rows[2])), tmp_path / "new.json")
    worse = command("compare", str(tmp_path / "old.json"), str(tmp_path / "new.json"))
    assert worse.exit_code == 1 and "sum, launch 2 reduce_final registers" in worse.output
    table = command("compare", str(tmp_path / "old.json"), str(tmp_path / "new.json"), "--format", "json")
    assert {c["launch"] for c in json.loads(table.stdout)["changes"] if c["verdict"] == "WORSE"} == {"2 reduce_final"}


def test_one_launch_in_place_of_two_is_compared_by_what_adds_up():
    one, two, whole = rows()
    fused = msgspec.structs.replace(one, launch="", predicted=2 * whole.predicted)
    old, new = (kept.Inspection(kept.FORMAT, kept.VERSION, "13.0", found) for found in ((one, two, whole), (fused,)))
    found = gate.compare(old, new, 0.02)
    assert {change.figure for change in found.changes} == {"instructions per element", "predicted time"}
    assert found.exit_code == 1 and [key.split()[-1] for key in found.gone] == ["reduce_partial", "reduce_final"]
    assert "launch 1 reduce_partial" in inspection_gate.render(found, ("a", "b"), "markdown")


@pytest.mark.parametrize(("old", "new", "error", "said"), table("inspect", "launches that cannot be"))
def test_launches_that_cannot_be(tmp_path, old, new, error, said):
    text = SUM.read_text()
    assert text.count(old) == 1
    text = text.replace(old, new)
    if error == "InputError":
        text = text.replace('entry="reduce_final"),\n    )', 'entry="reduce_final"),\n    ])')
    (tmp_path / SUM.name).write_text(text)
    shutil.copy(SUM.with_suffix(".cu"), tmp_path)
    with pytest.raises(getattr(errors, error), match=said):
        inspect(str(tmp_path / SUM.name))


@pytest.mark.skipif(bool(compilers.missing()), reason="nvcc or nvdisasm is not here")
def test_launches_of_templates_are_compiled_for_what_they_name(tmp_path):
    text = SUM.with_suffix(".cu").read_text().replace("__global__", "template <int BLOCK> __global__")
    (tmp_path / "two_pass_sum.cu").write_text(text.replace("+= blockDim.x)", "+= BLOCK)"))
    spec = SUM.read_text().replace('entry="reduce_partial"', 'entry="reduce_partial<256>"')
    (tmp_path / SUM.name).write_text(spec.replace('entry="reduce_final"', 'entry="reduce_final<256>"'))
    first, second = inspection.inspect(str(tmp_path / SUM.name), archs="sm_80")
    assert [one.step for one in (first, second)] == ["1 reduce_partial<256>", "2 reduce_final<256>"]
    assert first.mix.moved("LDG") == 4 * N // (GRID * BLOCK) and first.bounds is None
    assert inspection.wholes([first, second])[-1].predicted is None
    assert np.isfinite(inspection.wholes([first, second])[-1].instructions)
