"""The backend of CUB's algorithms, on a stand-in for `cuda.compute` that does them in NumPy."""

from __future__ import annotations

import ast
import sys
from dataclasses import replace
from enum import Enum
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import host_arrays
import numpy as np
import pytest

from cudalab.backends import cuda_compute
from cudalab.base.errors import Unavailable
from cudalab.spec import cub, find
from cudalab.spec.dtype import dtype

OpKind = Enum("OpKind", "PLUS MULTIPLIES MINIMUM MAXIMUM")
SortOrder = Enum("SortOrder", "ASCENDING DESCENDING")
DOES = {OpKind.PLUS: np.add, OpKind.MULTIPLIES: np.multiply, OpKind.MINIMUM: np.minimum, OpKind.MAXIMUM: np.maximum}
NEEDS = 16  # bytes of temporary memory


class Made:
    """What a `make_` function gives: says how much memory it needs, then runs on it."""

    def __init__(self, run):
        self.run = run

    def __call__(self, *, temp_storage, stream=None, **arguments):
        assert stream.__cuda_stream__() == (0, 7)
        if temp_storage is None:
            return NEEDS
        assert temp_storage.nbytes == NEEDS
        return self.run(**{k: host_arrays.seen(v) if hasattr(v, "ptr") else v for k, v in arguments.items()})


def make_reduce_into(*, d_in, d_out, op, h_init=None, **kwargs):
    def run(*, d_in, d_out, num_items, op, h_init):
        d_out[...] = DOES[op].reduce(d_in.ravel()[:num_items].astype(h_init.dtype), initial=h_init[0])

    return Made(run)


def make_segmented_reduce(*, d_in, d_out, start_offsets_in, end_offsets_in, op, h_init, compute_capability=None):
    def run(*, d_in, d_out, num_segments, start_offsets_in, end_offsets_in, op, h_init, max_segment_size=None):
        for i in range(num_segments):
            segment = d_in.ravel()[start_offsets_in[i] : end_offsets_in[i]]
            d_out.ravel()[i] = DOES[op].reduce(segment, initial=h_init[0])

    return Made(run)


def scan_of(name, part):
    def make(*, d_in, d_out, op, init_value=None, compute_capability=None):
        def run(*, d_in, d_out, op, init_value, num_items):
            given = np.concatenate([init_value, d_in.ravel()[:num_items]])
            d_out.ravel()[:] = DOES[op].accumulate(given)[part]

        return Made(run)

    make.__name__ = name
    return make


def make_histogram_even(
    *, d_samples, d_histogram, h_num_output_levels, h_lower_level, h_upper_level, num_samples, compute_capability=None
):
    def run(*, d_samples, d_histogram, h_num_output_levels, h_lower_level, h_upper_level, num_samples):
        limits = h_lower_level[0], np.nextafter(float(h_upper_level[0]), -np.inf)
        inside = d_samples[(d_samples >= limits[0]) & (d_samples <= limits[1])]
        bins = int(h_num_output_levels[0]) - 1
        d_histogram[:] = np.histogram(inside, bins, (float(h_lower_level[0]), float(h_upper_level[0])))[0]

    return Made(run)


def make_radix_sort(*, d_in_keys, d_out_keys, d_in_values, d_out_values, order, compute_capability=None):
    def run(*, d_in_keys, d_out_keys, d_in_values, d_out_values, num_items, begin_bit=None, end_bit=None):
        found = np.sort(d_in_keys.ravel()[:num_items])
        d_out_keys.ravel()[:] = found[::-1] if order is SortOrder.DESCENDING else found

    return Made(run)


MAKERS = (
    make_reduce_into, make_segmented_reduce, make_histogram_even, make_radix_sort,
    scan_of("make_inclusive_scan", slice(1, None)), scan_of("make_exclusive_scan", slice(-1)),
)  # fmt: skip


@pytest.fixture
def compute(monkeypatch):
    module = ModuleType("cuda")
    module.compute = SimpleNamespace(OpKind=OpKind, SortOrder=SortOrder, **{f.__name__: f for f in MAKERS})
    monkeypatch.setitem(sys.modules, "cuda", module)
    monkeypatch.setattr(cuda_compute, "_memory", lambda nbytes: host_arrays.device(np.zeros(nbytes, np.uint8)))
    monkeypatch.setattr(cuda_compute, "_on_device", host_arrays.device)


X = np.array([[3, 1, 2], [5, 0, 250]])
CASES = [
    (("reduce", "sum"), X, np.array([261])),
    (("reduce", "max"), X, np.array([250])),
    (("reduce", "min"), X, np.array([0])),
    (("segmented_reduce", "product"), X, np.array([6, 0])),
    (("scan", "sum"), X, np.cumsum(X).reshape(X.shape)),
    (("exclusive_scan", "sum"), X, np.array([[0, 3, 4], [6, 11, 11]])),
    (("sort",), X, np.array([[0, 1, 2], [3, 5, 250]])),
    (("sort_descending",), X, np.array([[250, 5, 3], [2, 1, 0]])),
    (("histogram", 0, 4), X, np.array([1, 1, 1, 1])),
]


@pytest.mark.parametrize(("words", "given", "wanted"), CASES, ids=lambda value: "_".join(map(str, value[:2])))
@pytest.mark.parametrize("name", ["float32", "int32"])
def test_each_algorithm_is_made_once_and_runs_on_the_operands(compute, words, given, wanted, name):
    kernel, kind = replace(find.kernel("sum"), cub=words), dtype(name)
    x, y = given.astype(kind.numpy), np.zeros(wanted.shape, np.int32 if words[0] == "histogram" else kind.numpy)
    assert cuda_compute.variants(kernel) == ("",)
    bound = cuda_compute.bind(kernel, "", kind, host_arrays.operands({"x": x}, y))
    bound.run()
    assert np.array_equal(y, wanted)
    other = np.zeros_like(y)
    bound.again(host_arrays.operands({"x": x}, other)).run()
    assert np.array_equal(other, wanted)


def test_16_bits_are_added_in_float32(compute):
    x, y = np.ones(5000, np.float16), np.zeros(1, np.float16)
    bound = cuda_compute.bind(find.kernel("sum"), "", dtype("float16"), host_arrays.operands({"x": x}, y))
    bound.run()
    assert y[0] == 5000
    assert cub.accumulator(dtype("bfloat16").numpy, dtype("bfloat16").numpy) == np.float32
    assert cub.accumulator(np.dtype(np.int32), np.dtype(np.int64)) == np.int64
    assert cub.identity("max", np.dtype(np.float32)) == -np.inf
    assert cub.identity("min", np.dtype(np.uint8)) == 255


@pytest.mark.parametrize(
    ("words", "shape", "said"),
    [
        (("reduce", "sum"), (2,), "a reduction gives one element, and the output has 2"),
        (("segmented_reduce", "sum"), (3,), "a reduction of each row gives 2 elements, and the output has 3"),
        (("scan", "sum"), (3,), "scan writes as many elements as it reads: 6, not 3"),
        (("sort",), (3,), "sort writes as many elements as it reads: 6, not 3"),
    ],
)
def test_an_output_of_another_size_is_refused(compute, words, shape, said):
    kernel, x = replace(find.kernel("sum"), cub=words), X.astype(np.float32)
    with pytest.raises(Unavailable, match=said):
        cuda_compute.bind(kernel, "", dtype("float32"), host_arrays.operands({"x": x}, np.zeros(shape, np.float32)))


def test_the_stand_in_is_called_as_the_library_is():
    """By the library's source: it cannot be imported without a driver."""
    try:
        found = find_spec("cuda.compute")
    except ImportError:
        found = None
    if found is None:
        pytest.skip("cuda-cccl is not installed")
    takes, called = {}, {}
    for path in Path(found.submodule_search_locations[0], "algorithms").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("make_"):
                takes[node.name] = {a.arg for a in node.args.kwonlyargs}
            if isinstance(node, ast.FunctionDef) and not node.name.startswith(("make_", "_")):
                called[node.name] = {a.arg for a in node.args.kwonlyargs}
    like = {name: host_arrays.device(np.zeros(4, np.float32)) for name in ("given", "written")}
    names = SimpleNamespace(OpKind=OpKind, SortOrder=SortOrder, **{f.__name__: f for f in MAKERS})
    for words in (case[0] for case in CASES):
        written = host_arrays.device(np.zeros(1, np.float32)) if "reduce" in words[0] else like["written"]
        if words[0] == "segmented_reduce":
            continue  # its offsets are on a GPU
        form = cuda_compute._form(names, words, like["given"], written)
        assert {*form.arrays, *form.shared, *form.of_make} <= takes[form.make.__name__]
        assert {*form.arrays, *form.of_call, "stream"} == called[form.name] - {"begin_bit", "end_bit"}
