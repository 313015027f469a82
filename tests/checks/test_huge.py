"""Arrays beyond 2^31 elements, which are reserved and not made."""

from __future__ import annotations

import math
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from cpu_rows import cpu_rows
from specs import spec

import cudalab
from cudalab import Budget, In, Launch, Out, Scalar, Work, blocks, draw, host
from cudalab.backends import host as backend
from cudalab.base.errors import Unavailable
from cudalab.checks import huge
from cudalab.engine.groups import HUGE, Group
from cudalab.host.reserved import reserved, touched
from cudalab.spec.dtype import dtype

F32 = dtype("float32")
DATA = Path(__file__).parents[1] / "data"
CU = (DATA / "huge" / "k.cu").read_text()
TOLD = {entry: says for says, entry in re.findall(r"^// (.*)\n__global__ void (\w+)", CU, re.MULTILINE)}


def each(x, y):
    return Launch((blocks(x.size, 256),), (256,), (x, y, np.int64(x.size)))


def narrow(x, y):
    return Launch((blocks(x.size, 256),), (256,), (x, y, np.int32(x.size)))


def stride(x, y):
    return Launch((1024,), (256,), (x, y, np.int64(x.size)))


ENTRIES = dict.fromkeys(TOLD, each) | {"stride": stride, "count_int": narrow}


def kernel(tmp_path, reference=lambda x: x + 1, **more):
    fields = {"sizes": {"small": (1000,)}, "edges": ((31,),), "entries": ENTRIES, "budgets": Budget(1)}
    return spec(tmp_path, reference, **fields | more)


def watched(k, entries=(), kind=F32):
    """What loads the module that looks at each access, and the shapes beyond 2^31 elements; or the test is skipped."""
    load = partial(backend.watched_module, k, kind)
    if load(*entries) is None:
        pytest.skip("no g++ that finds races")
    return load, {limit: huge.shapes(k, kind, limit) for limit in huge.LIMITS}


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """The kernel with all entries of the file, what loads it, and the shapes beyond 2^31 elements."""
    folder = tmp_path_factory.mktemp("huge")
    (folder / "k.cu").write_text(CU)
    k = kernel(folder)
    try:
        reserved((huge.LIMITS[1],), F32.numpy)
    except Unavailable as reason:
        pytest.skip(str(reason))
    return k, *watched(k)


@pytest.mark.skipif(host.compiler_missing() is not None, reason="no C++ compiler")
@pytest.mark.parametrize(("entry", "says"), TOLD.items())
def test_indices_that_are_too_small_are_told_and_right_ones_are_not(many, entry, says):
    k, load, beyond = many
    try:
        said = next(filter(None, huge.fault(load, k, entry, F32, beyond)), "right")
    except huge.Refused as reason:
        said = f"refused: {reason}"
    assert re.match(re.escape(says).replace(r"\.\.\.", ".*"), said), said


def test_the_first_dimension_grows_and_arrays_that_do_not_have_it_stay(tmp_path):
    def inputs(shape, dtype, rng):
        m, n, k = shape
        return {"a": np.zeros((m, k), dtype), "b": np.zeros((k, n), dtype)}

    k = kernel(
        tmp_path, reference=lambda a, b: a @ b, inputs=inputs, shapes={"y": lambda a, b: (a[0], b[1])},
        entries={"k": lambda **arrays: None},
        sizes={"small": (8, 5, 100), "large": (2**14, 2**14, 2**14)}, edges=((1, 1, 1), (3, 2, 7)),
    )  # fmt: skip
    found = huge.shapes(k, F32, 1 << 31)
    assert found["b"] == (100, 5) and found["a"][1] == 100 and found["y"] == (found["a"][0], 5)
    assert 1 << 31 < math.prod(found["a"]) < 1.01 * (1 << 31)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"inputs": lambda shape, dtype, rng: {"x": np.zeros(7, dtype)}}, "no array grows with the first dimension"),
        ({"inputs": lambda shape, dtype, rng: {"x": np.zeros(shape[0] ** 2, dtype)}}, "first dimension alone"),
        ({"sizes": {"large": (1 << 26,)}, "edges": ((1,),)}, "no small size or edge of the spec"),
    ],
)
def test_what_cannot_grow_is_refused_with_the_reason(tmp_path, more, why):
    with pytest.raises(huge.Refused, match=why):
        huge.shapes(kernel(tmp_path, **more), F32, 1 << 31)


def test_a_reserved_array_takes_memory_where_it_is_touched():
    try:
        array = reserved((1 << 31, 2), np.dtype(np.float32))
    except Unavailable as reason:
        pytest.skip(str(reason))
    array[0, 0], array[-1, -1] = 1, 2
    assert array.shape == (1 << 31, 2) and array[-1, -1] == 2 and array[1 << 30, 0] == 0
    assert touched(array) and touched(array[1 << 30 :]) and not touched(array[1 << 20 : 1 << 29])


def test_results_that_a_function_returns_as_a_struct_are_written(tmp_path):
    cu = (DATA / "huge" / "returned.cu").read_text()
    k, kind = kernel(tmp_path, cu=cu, dtypes=("complex64",), entries={"k": each}), dtype("complex64")
    load, beyond = watched(k, kind=kind)
    assert set(huge.fault(load, k, "k", kind, beyond)) == {""}


def test_several_launches_outputs_scalars_workspaces_constants_and_arrays_in_place(tmp_path):
    def launches(kind):
        def launch(x, p, y, work, by):
            grid = (blocks(x.size, 256),)
            return (
                Launch(grid, (256,), (x, p, work, by, np.int64(x.size)), entry=f"first<{kind}>"),
                Launch(grid, (256,), (work, y, np.int64(x.size)), entry="second"),
            )

        return launch

    k = kernel(
        tmp_path, cu=(DATA / "huge" / "steps.cu").read_text(),
        reference=lambda x, p, by: (p + 1, x * by), outputs={"p": Out(), "y": Out(dtype="float64")},
        scalars={"by": Scalar(2.0)}, workspace={"work": Work("float32")}, constants={"shift": np.ones(1, np.float32)},
        shapes={"x": "n", "p": "n", "y": "n", "work": "n"},
        entries={"wide": launches("long long"), "narrow": launches("int")},
    )  # fmt: skip
    load, beyond = watched(k, [("first<long long>", "second")])
    assert set(beyond[1 << 31]) == {"x", "p", "y", "work"}
    assert list(huge.fault(load, k, "wide", F32, beyond)) == ["", ""]
    (said,) = huge.fault(load, k, "narrow", F32, beyond)
    assert said.startswith("first<int>: ") and "outside an array (argument 1) at k.cu:5" in said


@pytest.mark.process
@pytest.mark.sweep
def test_indices_are_the_last_ones_where_the_spec_names_their_end():
    embedding = DATA / "kernels" / "embedding.py"
    (row,) = [c for c in cudalab.check(embedding, dtypes="float32", only="host", huge=True).cases if "2^31" in c.size]
    if row.status == "skipped":
        pytest.skip(row.reason)
    assert row.status == "ok" and not row.notes, row


def gathered(tmp_path, entry, **more):
    """The rows of a check of arrays beyond 2^31 elements: each dimension of a size grows in turn."""

    def launch(table, index, y):
        return Launch((index.size,), (table.shape[1],), (table, index, y, np.int32(table.shape[1])))

    k = kernel(
        tmp_path, cu=(DATA / "huge" / "gather.cu").read_text(),
        sizes={"small": (70, 40, 32)}, edges=((3, 2, 8),), reference=lambda table, index: table[index],
        shapes={"index": "n", "table": "rows dim", "y": "n dim"}, entries={entry: launch},
        inputs={"index": In("int32", 0, "rows")}, **more,
    )  # fmt: skip
    watched(k)
    group = Group(k, "beyond 2^31", (), F32, values=HUGE, awkward=True)
    (row,) = cpu_rows(group, "host")
    if row.status == "skipped":
        pytest.skip(row.reason)
    return row


@pytest.mark.process
def test_each_dimension_grows_in_turn_and_an_index_is_the_last_one(tmp_path):
    assert gathered(tmp_path, "wide").status == "ok"
    wrong = gathered(tmp_path, "narrow")
    assert wrong.status == "WRONG" and "reads 4 bytes outside an array" in wrong.reason and "k.cu:6" in wrong.reason


def test_an_index_whose_end_the_spec_does_not_name_has_no_last_one(tmp_path):
    def inputs(shape, dtype, rng):
        n, rows, dim = shape
        return {"table": draw((rows, dim), dtype, rng), "index": rng.integers(0, rows, n, np.int32)}

    k = kernel(
        tmp_path, reference=lambda table, index: table[index], inputs=inputs, sizes={"small": (70, 40, 32)},
        entries={"k": lambda **arrays: None}, shapes={"index": "n", "table": "rows dim", "y": "n dim"},
    )  # fmt: skip
    assert huge.last_indices(k, {"table": (40, 32), "index": (70,)}) == {}


def test_dimensions_that_belong_together_do_not_grow_alone(tmp_path):
    k = kernel(tmp_path, sizes={"small": (2, 140, 140)}, edges=((1, 1, 1), (2, 3, 3)), entries={"k": lambda x, y: None})
    assert math.prod(huge.shapes(k, F32, 1 << 31, 0)["x"]) > 1 << 31
    with pytest.raises(huge.Refused, match="second dimension is in a fixed proportion to the third in all sizes"):
        huge.shapes(k, F32, 1 << 31, 1)


def test_a_length_is_one_that_dims_allows(tmp_path):
    rows = {"shapes": {"x": "rows cols"}, "sizes": {"small": (24, 32)}, "edges": ((3, 16),)}
    k = kernel(tmp_path, dims={"rows": "multiple of 3", "cols": "power of 2, at most 4096"}, **rows)
    assert huge.shapes(k, F32, 1 << 31)["x"][0] % 3 == 0
    with pytest.raises(huge.Refused, match="dims= allows cols, the second dimension, no such length"):
        huge.shapes(k, F32, 1 << 31, 1)
    free = kernel(tmp_path, dims={"cols": "power of 2"}, **rows)
    assert huge.shapes(free, F32, 1 << 31, 1)["x"] == (24, 1 << 27)


def test_whole_numbers_beside_a_large_output_hide_no_index_and_as_indices_they_are_not_blamed(tmp_path):
    def launch(x, k, y):
        return Launch((blocks(x.size, 256),), (256,), (x, k, y, np.int64(x.size)))

    k = kernel(
        tmp_path, cu=(DATA / "huge" / "whole.cu").read_text(),
        reference=lambda x, k: x + k, entries=dict.fromkeys(("wide", "narrow", "scatter"), launch),
        inputs=lambda shape, dtype, rng: {"x": draw(shape, dtype, rng), "k": rng.integers(0, 9, shape, np.int32)},
    )  # fmt: skip
    load, beyond = watched(k, [("wide",)])
    beyond = {huge.LIMITS[1]: beyond[huge.LIMITS[1]]}
    try:
        found = {entry: "".join(huge.fault(load, k, entry, F32, beyond)) for entry in k.entries}
    except huge.Refused as reason:
        pytest.skip(str(reason))
    assert found["wide"] == found["scatter"] == "" and "nothing to the second half of 'y'" in found["narrow"]


def test_a_row_without_huge_arrays_is_skipped_and_says_why(tmp_path):
    """Both dimensions are in a fixed proportion."""
    k = kernel(tmp_path, sizes={"small": (40, 40)}, edges=((3, 3),), entries={"k": lambda x, y: None})
    (row,) = cpu_rows(Group(k, "beyond 2^31", (), F32, values=HUGE, awkward=True), "host")
    assert row.status == "skipped" and row.reason.startswith("no huge arrays: the first dimension is in a fixed")
