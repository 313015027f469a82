"""A kernel that needs aligned pointers says so with `aligned`, and is checked and called only with such arrays."""

from __future__ import annotations

import numpy as np
import pytest
from cpu_rows import cpu_rows
from small_groups import planned
from specs import spec

from cudalab import Budget, Launch, Out
from cudalab.base.errors import InputError
from cudalab.checks.misaligned import offsets
from cudalab.engine.verdicts import _aligned

SOURCE = """
__global__ void twice(const float* x, const float* w, float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n / 4) return;
    const float4 v = reinterpret_cast<const float4*>(x)[i];
    reinterpret_cast<float4*>(y)[i] = {2 * v.x * w[0], 2 * v.y * w[0], 2 * v.z * w[0], 2 * v.w * w[0]};
}
"""


def twice(folder, aligned):
    """2 x w[0]."""
    return spec(
        folder, lambda x, w: 2 * x * w[0], SOURCE, "twice", sizes={"small": (64,)}, edges=((4,), (32,)),
        inputs=lambda shape, dtype, rng: {"x": rng.random(shape, dtype), "w": rng.random(1, dtype)}, aligned=aligned,
        entries={"twice": lambda x, w, y: Launch((1,), (32,), (x, w, y, np.int32(x.size)))}, budgets=Budget(1),
    )  # fmt: skip


@pytest.mark.sweep
@pytest.mark.parametrize(("aligned", "right"), [(16, True), ({"x": 16, "y": 16}, True), ({"x": 16}, False), (1, False)])
def test_a_kernel_of_float4_is_right_with_the_alignment_that_it_asks_for(tmp_path, aligned, right):
    cases = [case for group in planned(twice(tmp_path, aligned)) for case in cpu_rows(group, "host")]
    said = [case.reason for case in cases if case.status != "ok"]
    assert bool(said) != right
    assert all("misaligned address" in reason for reason in said)
    assert all("does the kernel need `aligned=16` in its spec?" in reason for reason in said)


def test_the_hint_names_the_bytes_that_the_type_needs():
    said = "k.cu:3: block (0,0,0), thread (0,0,0): misaligned address: 'float2' needs an alignment of 8 bytes, and the"
    assert "`aligned=8`" in _aligned(said) and "`aligned=16`" in _aligned("cuCtxSynchronize failed: misaligned address")


def test_arrays_move_by_the_alignment(tmp_path):
    groups = [g for g in planned(twice(tmp_path, {"x": 16})) if g.offsets]
    assert {g.size: g.offsets for g in groups} == {
        "4, all +4 B or more": (16, 4, 4), "64, all +4 B or more": (16, 4, 4),
        "32, all +4 B or more": (16, 4, 4), "32, all +8 B or more": (16, 8, 8),
        "32, x +16 B": (16, 0, 0), "32, w +4 B": (0, 4, 0), "32, y +4 B": (0, 0, 4),
    }  # fmt: skip
    assert offsets({"x": 16, "y": 16}) == {"all +16 B": (16, 16), "x +16 B": (16, 0), "y +16 B": (0, 16)}


def test_a_call_with_a_less_aligned_array_is_refused(tmp_path):
    kernel = twice(tmp_path, {"x": 16, "y": 16})
    x, w = np.arange(36, dtype=np.float32), np.ones(3, np.float32)
    whole = np.empty(64, np.float32)
    start = -whole.ctypes.data // 4 % 4  # of an aligned slice
    aligned = whole[start : start + 32]
    aligned[:] = x[:32]
    np.testing.assert_array_equal(kernel(aligned, w[1:2]), 2 * x[:32])
    off = whole[start + 1 : start + 33]
    with pytest.raises(InputError, match="x starts 4 bytes after a multiple of 16, as a slice does, and twice takes"):
        kernel(off, w[:1])
    with pytest.raises(InputError, match="out starts 4 bytes after"):
        kernel(x[:32].copy(), w[:1], out=off)


@pytest.mark.parametrize("in_place", [False, True])
def test_a_call_on_the_cpu_copies_where_the_allocator_aligns_less_than_the_spec_asks_for(tmp_path, in_place):
    """NumPy's arrays start at a multiple of 16, and a struct of eight floats needs 32."""
    text = (
        "struct alignas(32) Oct { float v[8]; };\n"
        f"__global__ void k({'' if in_place else 'const'} Oct* x, Oct* y) {{\n"
        "    const int i = threadIdx.x;\n    Oct a = x[i];\n    for (float& v : a.v) v += 1;\n    y[i] = a;\n}\n"
    )
    kernel = spec(
        tmp_path, lambda x: x + 1, text, sizes={"small": (64,)}, edges=((8,),), aligned=32, budgets=Budget(1),
        entries={"k": lambda x, **y: Launch((1,), (x.size // 8,), (x, y.get("y", x)))},
        outputs={"x": Out()} if in_place else {},
    )  # fmt: skip
    raw = np.zeros(64 + 16, np.float32)
    first = -raw.ctypes.data % 32 // 4
    for start in (first, first + 4):
        x = raw[start : start + 64]
        x[...] = 1
        out = kernel(x) if in_place else kernel(x, out=raw[start : start + 64] + 0)
        assert (out == 2).all() and (x == (2 if in_place else 1)).all()
