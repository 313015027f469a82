"""A call whose shapes do not fit together is refused without `shapes`, as far as the spec's own inputs show it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import specs

from cudalab.base.errors import InputError
from cudalab.spec import find
from cudalab.spec.dtype import dtype


def relating(w, reference=lambda x, w: x * w, sizes=None, edges=((3, 5), (7, 2)), **more):
    """A spec whose weight has the shape `w` of the size."""

    def inputs(size, dtype, rng):
        return {"x": np.zeros(size, np.float32), "w": np.zeros(w(size), np.float32)}

    return specs.spec(Path(), reference, inputs=inputs, sizes=sizes or {"small": (8, 64)}, edges=edges, **more)


def rows(**more):
    return relating(lambda size: size[1:], **more)


def test_too_short_a_weight_is_refused():
    found = rows()
    assert found._relations == {"w": ((1,),)}
    found.accepts_call({"x": (9, 100), "w": (100,)})
    said = r"0 of w is 99 and should be 100, as dimension 1 of x\. All sizes of the spec agree"
    with pytest.raises(InputError, match=said):
        found.accepts_call({"x": (9, 100), "w": (99,)})
    with pytest.raises(InputError, match="w has 2 dimensions instead of 1"):
        found.accepts_call({"x": (9, 100), "w": (1, 100)})


def test_what_the_sizes_leave_open_is_not_refused():
    assert rows(edges=((3, 3), (5, 5)))._relations == {"w": ((1,),)}  # the size 8 x 64 decides
    alike = rows(sizes={"small": (8, 8)}, edges=((3, 3),))
    for w in (9, 100):
        alike.accepts_call({"x": (9, 100), "w": (w,)})
    with pytest.raises(InputError, match="dimension 0 of w is 50"):
        alike.accepts_call({"x": (9, 100), "w": (50,)})
    rows(edges=()).accepts_call({"x": (9, 100), "w": (7,)})  # one size shows nothing
    twice = relating(lambda size: (2 * size[0], 4), lambda x, w: x, {"small": (8,)}, ((3,), (5,)))
    twice.accepts_call({"x": (9,), "w": (1, 1)})
    named = rows(shapes={"x": "rows cols", "w": "others"})  # which decide where there are some
    named.accepts_call({"x": (9, 100), "w": (7,)})


def test_a_spec_that_fails_to_make_inputs_is_not_in_the_way():
    def broken(size):
        raise RuntimeError("not now")

    relating(broken, lambda x, w: x, {"small": (8,)}, ((3,),)).accepts_call({"x": (9,), "w": (1,)})


def test_the_labs_kernels_still_take_their_own_shapes():
    for each in find.kernels().values():
        for shape in each.edges:
            each.accepts_call({name: a.shape for name, a in each.make(shape, dtype(each.dtypes[0])).items()})
