"""The default inputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import specs

from cudalab import Budget, In, Out
from cudalab.base.errors import SpecError
from cudalab.spec.dtype import DTYPES
from cudalab.spec.inputs import draw


@pytest.mark.parametrize("name", ["uint8", "int32", "int64"])
def test_integers_take_the_whole_range_of_their_dtype(name):
    info, n = np.iinfo(name), 10_000
    found = draw((n,), np.dtype(name), np.random.default_rng(1))
    assert found.dtype == name
    assert (found.min(), found.max()) == (info.min, info.max)
    assert (found > info.max // 2).sum() > n / 8, "values in the upper part, not only the largest"
    assert name == "int64" or {0, 1} <= set(found.tolist())


@pytest.mark.parametrize("shape", [(), (0,), (1,), (2,), (3, 0), (5, 7)])
def test_integers_of_any_shape(shape):
    assert draw(shape, np.dtype(np.int32), np.random.default_rng(1)).shape == shape


def gather(**fields):
    usual = {
        "dtypes": ("float32", "float16"), "sizes": {"small": (30, 4, 500)}, "edges": ((1, 1, 1),),
        "shapes": {"table": "rows cols", "index": "n", "y": "n cols"}, "inputs": {"index": In("int64", 0, "rows")},
        "reference": lambda table, index: table[index], "budgets": Budget(0, why="a copy"),
    }  # fmt: skip
    return specs.spec(Path(), **usual | fields)


def test_an_input_has_a_dtype_and_a_range_of_its_own_and_the_others_are_as_usual():
    kernel = gather()
    made = kernel.make((30, 4, 500), DTYPES["float16"])
    assert [(a.shape, a.dtype.name) for a in made.values()] == [((30, 4), "float16"), ((500,), "int64")]
    assert (made["index"].min(), made["index"].max()) == (0, 29)
    assert kernel.make((1, 1, 1), DTYPES["float32"])["index"].tolist() == [0]
    assert {name: kind.name for name, kind in kernel.input_kinds(DTYPES["float16"]).items()} == {
        "table": "float16", "index": "int64"
    }  # fmt: skip


def test_floating_point_inputs_are_uniform_in_their_range():
    kernel = gather(inputs={"index": In("int64", 0, "rows"), "table": In(low=3, high=4.5)})
    made = kernel.make((30, 4, 5), DTYPES["float32"])
    assert 3 <= made["table"].min() < made["table"].max() <= 4.5


def test_one_budget_holds_for_all_dtypes():
    kernel = gather(peers=Budget(1))
    assert [kernel.budget(DTYPES[name]).ulp for name in kernel.dtypes] == [0, 0]
    assert kernel.budget(DTYPES["float16"], "peers").ulp == 1
    own = gather(outputs={"y": Out(budgets=Budget(3))})
    assert own.budget(DTYPES["float16"], "peers", "y").ulp == 3


def test_a_range_is_numbers_or_dimensions():
    with pytest.raises(SpecError, match="names lines"):
        gather(inputs={"index": In("int64", 0, "lines")}).make((3, 4, 5), DTYPES["float32"])


def test_elements_are_those_of_the_largest_array_and_no_product_of_names():
    kernel = gather()
    assert kernel.elements((30, 4, 500)) == 500 * 4  # the output; the names have a product of 60,000
    planes = {"shapes": {"x": "n 512 512"}, "reference": lambda x: x}
    assert gather(**planes, sizes={"small": (3,)}, edges=(), inputs=None).elements((3,)) == 3 * 2**18


def test_elements_of_arrays_that_only_the_spec_knows_are_counted_where_it_is_cheap():
    asked = []

    def inputs(shape, dtype, rng):
        asked.append(shape)
        return {"x": np.zeros((*shape, 7), dtype)}

    own = {"shapes": {}, "reference": lambda x: x.sum(-1), "edges": ()}
    kernel = gather(**own, inputs=inputs, sizes={"small": (3,)})
    assert [kernel.elements(size) for size in ((3,), (3,), (1 << 21,))] == [21, 21, 1 << 21]
    assert asked == [(3,)]


def test_small_sizes_are_sorted_and_the_smallest_stands_for_them_if_none_is_small():
    kernel = gather()
    assert kernel.small([(9, 9, 9), (1, 1, 1), (0, 1, 1), (99, 99, 99)], 100) == [(1, 1, 1), (9, 9, 9)]
    assert kernel.small([(99, 99, 99), (999, 999, 99)], 100) == [(99, 99, 99)]
    assert kernel.small([(9999, 9999, 1)], 100) == []


@pytest.mark.parametrize("seed", range(6))
def test_values_between_ends_hold_both(seed):
    """An index of -1, or the last row, is where kernels go wrong; a few seeds miss it by chance."""
    rng = np.random.default_rng(seed)
    whole = In("int64", -1, "rows").drawn((40,), np.dtype("float32"), rng, {"rows": (1000,)})
    assert whole.min() == -1 and whole.max() == 999 and whole.dtype == np.int64
    part = In(low=0.5, high=1).drawn((3, 5), np.dtype("float32"), rng, {})
    assert part.min() == 0.5 and part.max() == np.nextafter(np.float32(1), np.float32(0)) and part.shape == (3, 5)
    half = In(high=2).drawn((9,), DTYPES["bfloat16"].numpy, rng, {}).astype(np.float64)
    assert half.min() == 0 and half.max() == 2 - 2**-7
    for shape in ((), (1,), (0,)):
        one = In("uint8", 3, 4).drawn(shape, np.dtype("float32"), rng, {})
        assert one.shape == shape and (one == 3).all()


@pytest.mark.parametrize("name", ["complex64", "bool", "float8_e4m3fn", "float8_e5m2", "float16"])
def test_values_between_ends_in_every_dtype(name):
    kind = DTYPES[name].numpy
    values = In(low=0, high=1).drawn((50,), kind, np.random.default_rng(1), {})
    assert values.dtype == kind and np.isfinite(values.astype(np.complex128)).all()
    if name not in ("complex64", "bool"):
        assert values.astype(np.float64).min() >= 0 and values.astype(np.float64).max() < 1
