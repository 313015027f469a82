"""<mma.h>: products of matrices by the warps of a block."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from on_cpu import ORDERS, aligned, run, source

from cudalab import host
from cudalab.base.errors import LaunchError

CU = "tensor_cores.cu"
SOURCE = source(CU)


def matmul_is_right(module: host.Module, order: host.Order) -> bool:
    rng, (m, n, k) = np.random.default_rng(0), (70, 90, 50)
    a, b = rng.standard_normal((m, k)).astype(np.float16), rng.standard_normal((k, n)).astype(np.float16)
    bias, c = rng.standard_normal(n).astype(np.float32), np.zeros((m, n), np.float32)
    run(module, "matmul", (3, 3), 128, a, b, bias, c, np.int32(m), np.int32(n), np.int32(k), order=order)
    return bool(np.allclose(c, np.maximum(a.astype(float) @ b.astype(float) + bias, 0), atol=1e-4))


@pytest.mark.parametrize("order", ORDERS)
def test_a_matmul_with_shared_tiles(module, order):
    assert matmul_is_right(module, order)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("__syncthreads();  // FILLED", ""),
        pytest.param("__syncthreads();  // USED", "", marks=pytest.mark.sweep),
        pytest.param("__syncwarp();  // STORED", "", marks=pytest.mark.sweep),
        pytest.param("right[0][warp % 2 * 16], 48", "right[0][warp % 2 * 16], 32", marks=pytest.mark.sweep),
        pytest.param("16, half, wmma::row_major> y", "16, half, wmma::col_major> y", marks=pytest.mark.sweep),
    ],
)  # fmt: skip
def test_a_bug_of_a_matmul_shows(right, wrong):
    assert right in SOURCE
    module = host.load(SOURCE.replace(right, wrong, 1), name="bug.cu")
    assert not all(matmul_is_right(module, order) for order in ORDERS)


@pytest.mark.parametrize("order", ORDERS)
def test_elements_of_operands_and_sums(module, order):
    a, b = np.random.default_rng(0).integers(-3, 3, (2, 16, 16))
    d = aligned(np.zeros((16, 16), np.float16))
    run(module, "scaled", 1, 32, aligned(a.astype(np.float16)), aligned(b.astype(np.float16)), d, order=order)
    np.testing.assert_array_equal(d, 2 * a @ np.maximum(b, 0).T)


@pytest.mark.parametrize(
    ("entry", "threads", "offset", "says"),
    [
        ("diverges", 32, 0, r"of 32 threads .* 32 wait at a warp operation .* tensor_cores.cu:\d+, 0 have returned"),
        ("scaled", 20, 0, r"tensor_cores.cu:\d+: .* load_matrix_sync needs all 32 lanes of a warp"),
        (
            "scaled",
            32,
            8,
            r"tensor_cores.cu:\d+: .* misaligned address: load_matrix_sync .* 32 bytes, and .* 16 bytes off",
        ),
    ],
)
def test_what_a_warp_cannot_do(module, entry, threads, offset, says):
    a, d = aligned(np.zeros(512, np.float16)), aligned(np.zeros(512, np.float16))
    with pytest.raises(LaunchError, match=says):
        run(module, entry, 1, threads, *[a[offset:], a, d] if entry == "scaled" else [a, d])


SHAPES = {
    "half_rr": (16, 16, 16, np.float16, np.float32, "rr"),
    "half_cc": (32, 8, 16, np.float16, np.float32, "cc"),
    "half_half": (8, 32, 16, np.float16, np.float16, "rc"),
    "bfloat16_rc": (16, 16, 16, ml_dtypes.bfloat16, np.float32, "rc"),
    "bfloat16_cr": (32, 8, 16, ml_dtypes.bfloat16, np.float32, "cr"),
    "int8": (16, 16, 16, np.int8, np.int32, "rc"),
    "uint8": (8, 32, 16, np.uint8, np.int32, "rr"),
    "doubles": (8, 8, 4, np.float64, np.float64, "rc"),
}


@pytest.fixture(scope="module")
def types() -> host.Module:
    return host.load(source("wmma_types.cu"), name="wmma_types.cu")


@pytest.mark.parametrize("order", ["alternating", 0])
@pytest.mark.parametrize("entry", SHAPES)
def test_every_type_shape_and_layout(types, entry, order):
    m, n, k, factor, total, layouts = SHAPES[entry]
    rng = np.random.default_rng(0)
    a, b = (
        rng.integers(0 if factor == np.uint8 else -8, 200 if factor == np.uint8 else 8, s) for s in ((m, k), (k, n))
    )
    c, d = rng.integers(-8, 8, (m, n)), aligned(np.zeros((n, m), total))
    left, right = (x if layout == "r" else x.T for x, layout in zip((a, b), layouts, strict=True))
    scalars = [np.dtype(total).type(2), np.dtype(total).type(3)]
    args = [aligned(np.ascontiguousarray(left).astype(factor)), aligned(np.ascontiguousarray(right).astype(factor))]
    run(types, entry, 1, 32, *args, aligned(c.astype(total)), d, *scalars, order=order)
    np.testing.assert_array_equal(d.T.astype(float), 2 * (a @ b) + 3 * c)


def test_tf32_has_ten_bits(types):
    a, b = np.random.default_rng(0).standard_normal((2, 16, 8)).astype(np.float32)
    d = aligned(np.zeros((16, 16), np.float32))
    run(types, "tf32", 1, 32, aligned(a), aligned(b), d)

    def rounded(x: np.ndarray) -> np.ndarray:
        return ((x.view(np.uint32) + np.uint32(0x1000)) & ~np.uint32(0x1FFF)).view(np.float32).astype(float)

    np.testing.assert_allclose(d, rounded(a) @ rounded(b).T, atol=1e-5)
    assert abs(d - a.astype(float) @ b.T).max() > 1e-4
