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

EMBED = """__global__ void embed(const long long* ids, const float* table, float* y, int cols) {
    for (int c = threadIdx.x; c < cols; c += blockDim.x) y[blockIdx.x * cols + c] = table[ids[blockIdx.x] * cols + c];
}
"""


def words(shape, dtype, rng):
    """Of a table whose length no size has."""
    return {"ids": rng.integers(0, 500, shape[0]), "table": rng.standard_normal((500, shape[1])).astype(dtype)}


def embedding(folder):
    return specs.kernel(
        folder, "embed", EMBED, sizes={"tiny": (20, 6)}, edges=((1, 1),), inputs=words,
        reference=lambda ids, table: table[ids], shapes={"ids": "rows", "table": "vocabulary cols", "y": "rows cols"},
        entries={"embed": lambda ids, table, y: Launch((ids.size,), (32,), (ids, table, y, np.int32(table.shape[1])))},
        bytes=lambda ids, table: ids.nbytes + 2 * ids.size * table[0].nbytes,
    )  # fmt: skip


def numpy_row(kernel):
    ((size, shape),) = kernel.sizes.items()
    (case,) = cpu_rows(Group(kernel, size, shape, dtype("float32")), "numpy")
    assert (case.status, case.reason) == ("ok", "")
    return case


def test_rows_of_a_reference_that_returns_its_input_and_of_an_embedding(tmp_path):
    assert numpy_row(specs.kernel(tmp_path, "copy", "")).nbytes == 2 * 64 * 4
    assert numpy_row(embedding(tmp_path)).nbytes == 20 * 8 + 2 * 20 * 6 * 4  # not of the whole table


@pytest.mark.skipif(not (shutil.which("g++") or shutil.which("clang++")), reason="needs a host compiler")
def test_a_call_takes_inputs_of_other_dtypes_than_the_kernels(tmp_path):
    flagged = specs.pointwise(
        tmp_path, "if (i < n) y[i] = x[i] > 0.5f;", lambda x: (x > 0.5).astype(int), of="float", dtypes=("int32",),
        pointwise=True, inputs=lambda shape, dtype, rng: {"x": rng.random(shape, np.float32)},
    )  # fmt: skip
    assert flagged(np.array([0, 1], np.float32)).tolist() == [0, 1]
    found = embedding(tmp_path)(np.array([3, 1]), np.arange(1000.0, dtype="f").reshape(500, 2))
    assert found.tolist() == [[6, 7], [2, 3]]
