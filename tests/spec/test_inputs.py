"""The default inputs."""

from __future__ import annotations

import numpy as np
import pytest

from cudalab import Budget, In, Kernel, Out
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


# ---- inputs by name: In ----------------------------------------------------------------------------------------------


def gather(**fields):
    return Kernel(**{
        "file": __file__, "summary": "", "dtypes": ("float32", "float16"), "sizes": {"small": (30, 4, 500)},
        "edges": ((1, 1, 1),), "shapes": {"table": "rows cols", "index": "n", "y": "n cols"},
        "reference": lambda table, index: table[index], "entries": {"gather": lambda table, index, y: None},
        "budgets": Budget(0, why="a copy"), "inputs": {"index": In("int64", 0, "rows")}, **fields,
    })  # fmt: skip


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
    made = gather(inputs={"index": In("int64", 0, "rows"), "table": In(low=3, high=4.5)}).make(
        (30, 4, 5), DTYPES["float32"]
    )
    assert 3 <= made["table"].min() < made["table"].max() <= 4.5


def test_one_budget_holds_for_all_dtypes():
    kernel = gather(peers=Budget(1))
    assert [kernel.budget(DTYPES[name]).ulp for name in kernel.dtypes] == [0, 0]
    assert kernel.budget(DTYPES["float16"], "peers").ulp == 1
    own = gather(outputs={"y": Out(budgets=Budget(3))})
    assert own.budget(DTYPES["float16"], "peers", "y").ulp == 3


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"indices": In("int64")}, "inputs: no input named 'indices'; did you mean 'index'?"),
        ({"index": "int64"}, "give an In by name"),
    ],
)
def test_inputs_that_the_reference_does_not_take_are_refused(inputs, message):
    with pytest.raises(SpecError) as raised:
        gather(inputs=inputs)
    assert message in str(raised.value)


def test_a_range_is_numbers_or_dimensions():
    with pytest.raises(SpecError, match="In: high is '2 \\+'; give a number, or words such as 'rows'"):
        In("int64", 0, "2 +")
    with pytest.raises(SpecError, match="names lines"):
        gather(inputs={"index": In("int64", 0, "lines")}).make((3, 4, 5), DTYPES["float32"])


# ---- elements of a size ----------------------------------------------------------------------------------------------


def test_elements_are_those_of_the_largest_array_and_no_product_of_names():
    kernel = gather()
    assert kernel.elements((30, 4, 500)) == 500 * 4  # the output; the names have a product of 60,000
    planes = {"shapes": {"x": "n 512 512"}, "reference": lambda x: x, "entries": {"f": lambda x, y: None}}
    assert gather(**planes, sizes={"small": (3,)}, edges=(), inputs=None).elements((3,)) == 3 * 2**18


def test_elements_of_arrays_that_only_the_spec_knows_are_counted_where_it_is_cheap():
    asked = []

    def inputs(shape, dtype, rng):
        asked.append(shape)
        return {"x": np.zeros((*shape, 7), dtype)}

    own = {"shapes": {}, "reference": lambda x: x.sum(-1), "entries": {"f": lambda x, y: None}, "edges": ()}
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
    assert (
        DTYPES[name].complex
        or name == "bool"
        or 0 <= values.astype(np.float64).min() <= values.astype(np.float64).max() < 1
    )
