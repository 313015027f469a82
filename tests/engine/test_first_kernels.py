"""Kernels with which people begin: a copy, a flag of each element, an embedding; their rows, bytes and calls."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import specs
from cpu_rows import cpu_rows

from cudalab import Launch
from cudalab.engine.groups import Group
from cudalab.spec.dtype import dtype
from cudalab.spec.work import amount

FLAG = """__global__ void flag(const float* x, int* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] > 0.5f;
}
"""
EMBED = """__global__ void embed(const long long* ids, const float* table, float* y, int cols) {
    for (int c = threadIdx.x; c < cols; c += blockDim.x) y[blockIdx.x * cols + c] = table[ids[blockIdx.x] * cols + c];
}
"""
VOCABULARY = 500


def gather(ids, table, y):
    return Launch((ids.size,), (32,), (ids, table, y, np.int32(table.shape[1])))


def words(shape, dtype, rng):
    rows, cols = shape
    return {"ids": rng.integers(0, VOCABULARY, rows), "table": rng.standard_normal((VOCABULARY, cols)).astype(dtype)}


def embedding(folder):
    return specs.kernel(
        folder, "embed", EMBED, sizes={"tiny": (20, 6)}, edges=((1, 1),), inputs=words,
        reference=lambda ids, table: table[ids], shapes={"ids": "rows", "table": "vocabulary cols", "y": "rows cols"},
        entries={"embed": gather}, bytes=lambda ids, table: ids.nbytes + 2 * ids.size * table[0].nbytes,
    )  # fmt: skip


def row(kernel, name, label):
    ((size, shape),) = kernel.sizes.items()
    (case,) = cpu_rows(Group(kernel, size, shape, dtype(name)), label)
    return case


def test_a_reference_that_returns_its_input_is_right(tmp_path):
    case = row(specs.kernel(tmp_path, "copy", FLAG), "float32", "numpy")
    assert (case.status, case.reason) == ("ok", "")


def test_bytes_of_an_embedding_are_those_of_its_rows(tmp_path):
    kernel = embedding(tmp_path)
    arrays = kernel.make((20, 6), dtype("float32"))
    assert amount(kernel, arrays, 20 * 6 * 4).nbytes == 20 * 8 + 2 * 20 * 6 * 4
    assert row(kernel, "float32", "numpy").nbytes == 20 * 8 + 2 * 20 * 6 * 4


@pytest.mark.skipif(not (shutil.which("g++") or shutil.which("clang++")), reason="needs a host compiler")
def test_a_call_takes_inputs_of_other_dtypes_than_the_kernels(tmp_path):
    flagged = specs.kernel(
        tmp_path, "flag", FLAG, dtypes=("int32",), reference=lambda x: (x > 0.5).astype(int), pointwise=True,
        inputs=lambda shape, dtype, rng: {"x": rng.random(shape, np.float32)},
    )  # fmt: skip
    assert flagged(np.array([0, 1], np.float32)).tolist() == [0, 1]
    found = embedding(tmp_path)(np.array([3, 1]), np.arange(1000.0, dtype="f").reshape(500, 2))
    assert found.tolist() == [[6, 7], [2, 3]]
