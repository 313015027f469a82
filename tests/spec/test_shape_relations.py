"""A call whose shapes do not fit together is refused without `shapes`, as far as the spec's own inputs show it."""

from __future__ import annotations

import numpy as np
import pytest
import specs

from cudalab import Launch
from cudalab.base.errors import InputError
from cudalab.spec import find
from cudalab.spec.dtype import dtype


def kernel(tmp_path, inputs, reference, sizes, edges, **more):
    entries = {"k": lambda **arrays: Launch((1,), (1,), ())}
    return specs.kernel(tmp_path, inputs=inputs, reference=reference, sizes=sizes, edges=edges, entries=entries, **more)


def zeros(**shapes):
    return {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}


def rows(tmp_path, edges=((3, 5), (7, 2)), **more):
    return kernel(
        tmp_path, lambda s, d, r: zeros(x=s, w=s[1:]), lambda x, w: x * w, {"small": (8, 64)}, edges, **more
    )  # fmt: skip


def test_too_short_a_weight_is_refused(tmp_path):
    found = rows(tmp_path)
    assert found._relations == {"w": ((1,),)}
    found.accepts_call({"x": (9, 100), "w": (100,)})
    with pytest.raises(
        InputError, match=r"0 of w is 99 and should be 100, as dimension 1 of x\. All sizes of the spec agree"
    ):
        found.accepts_call({"x": (9, 100), "w": (99,)})
    with pytest.raises(InputError, match="w has 2 dimensions instead of 1"):
        found.accepts_call({"x": (9, 100), "w": (1, 100)})


def test_what_the_sizes_leave_open_is_not_refused(tmp_path):
    square = rows(tmp_path, edges=((3, 3), (5, 5)))
    assert square._relations == {"w": ((1,),)}  # the size 8 x 64 decides
    alike = kernel(
        tmp_path, lambda s, d, r: zeros(x=s, w=s[1:]), lambda x, w: x * w, {"small": (8, 8)}, ((3, 3),)
    )  # fmt: skip
    for w in (9, 100):
        alike.accepts_call({"x": (9, 100), "w": (w,)})
    with pytest.raises(InputError, match="dimension 0 of w is 50"):
        alike.accepts_call({"x": (9, 100), "w": (50,)})
    one = rows(tmp_path, edges=())
    one.accepts_call({"x": (9, 100), "w": (7,)})  # one size shows nothing
    twice = kernel(
        tmp_path, lambda s, d, r: zeros(x=s, w=(2 * s[0], 4)), lambda x, w: x, {"small": (8,)}, ((3,), (5,))
    )  # fmt: skip
    twice.accepts_call({"x": (9,), "w": (1, 1)})


def test_named_dimensions_decide_where_there_are_some(tmp_path):
    rows(tmp_path, shapes={"x": "rows cols", "w": "others"}).accepts_call({"x": (9, 100), "w": (7,)})


def test_a_spec_that_fails_to_make_inputs_is_not_in_the_way(tmp_path):
    def broken(shape, dtype, rng):
        raise RuntimeError("not now")

    found = kernel(tmp_path, broken, lambda x, w: x, {"small": (8,)}, ((3,),))
    found.accepts_call({"x": (9,), "w": (1,)})


def test_the_labs_kernels_still_take_their_own_shapes():
    for each in find.kernels().values():
        for shape in each.edges:
            each.accepts_call({name: a.shape for name, a in each.make(shape, dtype(each.dtypes[0])).items()})
