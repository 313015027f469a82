"""NumPy arrays of every kind given to the kernels' functions.

The answer is that of the float64 reference, or an error that says what to pass instead; inputs stay as they were.
"""

from __future__ import annotations

import warnings

import numpy as np
from fuzzing import KERNELS, hard, judged, more, said_clearly, shapes
from hypothesis import example, given
from hypothesis import strategies as st

from cudalab.base.errors import CudalabError, InputError
from cudalab.kernels.gelu import gelu
from cudalab.spec.dtype import DTYPES, dtype

NAMES = sorted(DTYPES)


def shifted(array, by):
    """A copy `by` bytes off the alignment that it would have."""
    memory = np.empty(array.nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 16 + by
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


def matrix(array):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy discourages its use
        return np.asmatrix(array)


VIEWS = {
    "as it is": lambda a: a,
    "a part": lambda a: np.concatenate([a.reshape(-1)[:1], a.reshape(-1)])[a.size > 0 :].reshape(a.shape),
    "every second": lambda a: np.repeat(a.reshape(-1), 2)[::2],
    "backwards": lambda a: a[::-1] if a.ndim else a,
    "transposed": lambda a: a.T,
    "Fortran": np.asfortranarray,
    "broadcast": lambda a: np.broadcast_to(a, (2, *a.shape)),
    "broadcast of one": lambda a: np.broadcast_to(a.reshape(-1)[:1], (7,)) if a.size else a,
    "read-only": read_only,
    "new axis": lambda a: a[None] if a.ndim < 31 else a,
    "0-d": lambda a: a.reshape(-1)[0:1].reshape(()) if a.size else a,
    "scalar": lambda a: a.reshape(-1)[0] if a.size else a,
    "byte-swapped": lambda a: a.astype(a.dtype.newbyteorder()) if a.dtype.kind in "fiu" and a.itemsize > 1 else a,
    "object": lambda a: a.astype(object),
    "list": lambda a: a.tolist(),
    "complex": lambda a: a.astype(np.complex64) if a.dtype.kind in "fiu" else a,
    "bool": lambda a: a.astype(bool),
    "text": lambda a: np.full(a.shape, "1.0"),
    "time": lambda a: np.zeros(a.shape, "M8[s]"),
    "record": lambda a: np.zeros(a.shape, [("x", "f4")]),
    "bytes": lambda a: a.tobytes(),
    "memoryview": lambda a: memoryview(a.tobytes()),
    "masked": lambda a: np.ma.masked_array(a, np.ones(a.shape, bool)),
    "matrix": lambda a: matrix(a) if 1 <= a.ndim <= 2 and a.dtype.kind in "fiu" else a,
    "class": lambda a: type(a),
    "dtype": lambda a: a.dtype,
    "None": lambda a: None,
    **{f"{by} bytes off": lambda a, by=by: shifted(a, by) for by in (1, 2, 4, 8)},
}
numpy_views = st.sampled_from(list(VIEWS))


def accepted(array, kernel):
    """Whether a NumPy array is one that the kernel's function promises to take."""
    return (type(array) is np.ndarray and array.flags.c_contiguous and array.flags.aligned
            and str(array.dtype) in kernel.dtypes and (kernel.rank is None or array.ndim == kernel.rank))  # fmt: skip


@st.composite
def calls(draw):
    """A kernel and as many arrays as it takes, the second like the first or not."""
    kernel = KERNELS[draw(st.sampled_from(list(KERNELS)))]
    shape, view = draw(shapes), draw(numpy_views)
    kind = dtype(draw(st.one_of(st.sampled_from(kernel.dtypes), st.sampled_from(NAMES))))
    if kernel.rank and draw(st.booleans()):
        shape = (*shape, 3, 5)[: kernel.rank]
    given = [(shape, kind, view)]
    for _ in kernel.input_names[1:]:
        other = (draw(shapes), dtype(draw(st.sampled_from(NAMES))), draw(numpy_views))
        given.append(given[0] if draw(st.integers(0, 3)) else other)
    seed = draw(st.integers(0, 2**32))
    with np.errstate(all="ignore"):
        return kernel, [VIEWS[view](hard(shape, kind, seed + i)) for i, (shape, kind, view) in enumerate(given)]


@more(6)
@given(calls())
@example((gelu, [np.ma.masked_array(np.ones(3, np.float32), [1, 0, 0])]))
@example((gelu, [np.float32(1)]))
@example((gelu, [shifted(np.ones(40, np.float32), 1)]))
def test_numpy_arrays(call):
    kernel, arrays = call
    before = [np.array(a) if isinstance(a, np.ndarray) else None for a in arrays]
    try:
        got = kernel(*arrays)
    except CudalabError as error:
        said_clearly(error)
        same = {(a.shape, str(a.dtype)) for a in arrays if isinstance(a, np.ndarray)}
        assert not (all(accepted(a, kernel) for a in arrays) and len(same) == 1), error
    else:
        assert type(got) is np.ndarray
        assert not any(np.shares_memory(got, a) for a in arrays)
        assert not any(isinstance(a, np.ma.MaskedArray) for a in arrays), "its mask would be lost"
        judged(kernel, got, dict(zip(kernel.input_names, map(np.asarray, arrays), strict=True)))
    for array, was in zip(arrays, before, strict=True):
        if was is not None and was.dtype != object:
            assert np.asarray(array).tobytes() == was.tobytes()


OUTS = {
    "new": lambda x: np.full_like(x, 7),
    "the input": lambda x: x,
    "read-only": read_only,
    "too short": lambda x: np.empty(x.size // 2, x.dtype),
    "other shape": lambda x: np.empty((*x.shape, 1), x.dtype),
    "other dtype": lambda x: np.zeros(x.shape, np.float64),
    "not contiguous": lambda x: np.zeros((*x.shape, 2), x.dtype)[..., 0],
    "backwards": lambda x: x[::-1] if x.ndim else x,
    "list": lambda x: x.tolist(),
    "off by 1 byte": lambda x: shifted(x, 1),
    "off by 4 bytes": lambda x: shifted(x, 4),
    "masked": lambda x: np.ma.masked_array(x.copy()),
    "byte-swapped": lambda x: np.zeros(x.shape, x.dtype.newbyteorder()) if x.dtype.kind in "fiu" else x.copy(),
    "text": lambda x: "y",
    "memory of a file's": lambda x: np.frombuffer(bytes(x.nbytes), x.dtype).reshape(x.shape),
}


@more(6)
@given(
    st.sampled_from(["gelu", "plus_one"]), shapes, st.integers(0, 2), st.sampled_from(list(OUTS)), st.integers(0, 2**32)
)
def test_out(name, shape, which, how, seed):
    kernel = KERNELS[name]
    kind = dtype(kernel.dtypes[which % len(kernel.dtypes)])
    x = hard(shape, kind, seed)
    was = x.copy()
    out = OUTS[how](x)
    content = out.copy() if isinstance(out, np.ndarray) else None
    try:
        got = kernel(x, out=out)
    except CudalabError as error:
        said_clearly(error)
        assert how not in ("new", "the input"), error
        assert x.tobytes() == was.tobytes()
        if isinstance(error, InputError) and content is not None:
            assert out.tobytes() == content.tobytes()
    else:
        assert got is out
        judged(kernel, got, {"x": was})
        assert how in ("the input", "backwards") or x.tobytes() == was.tobytes()


@more(4)
@given(st.integers(1, 200), st.integers(0, 40), st.integers(0, 40), st.integers(0, 2**32))
def test_overlap(n, first, second, seed):
    """In place is right; any other overlap is refused."""
    memory = hard((n + 40,), dtype("float32"), seed)
    x, out = memory[first : first + n], memory[second : second + n]
    was = x.copy()
    try:
        gelu(x, out=out)
    except InputError as error:
        assert "overlaps" in str(error)
        assert 0 < abs(first - second) < n
    else:
        assert first == second or abs(first - second) >= n
        judged(gelu, out, {"x": was})
