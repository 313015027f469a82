"""A kernel that needs aligned pointers says so with `aligned`, and is checked and called only with such arrays."""

from __future__ import annotations

import numpy as np
import pytest

from cudalab import Budget, Kernel, Launch, Out
from cudalab.base.errors import InputError, SpecError
from cudalab.checks.misaligned import offsets
from cudalab.engine.check_plan import checks
from cudalab.engine.runs import check
from cudalab.engine.verdicts import _aligned
from cudalab.spec import find

SOURCE = """
__global__ void twice(const float* x, const float* w, float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n / 4) return;
    const float4 v = reinterpret_cast<const float4*>(x)[i];
    reinterpret_cast<float4*>(y)[i] = {2 * v.x * w[0], 2 * v.y * w[0], 2 * v.z * w[0], 2 * v.w * w[0]};
}
"""
SPEC = """
import numpy as np
from cudalab import Budget, Kernel, Launch, Out

twice = Kernel(
    file=__file__, summary="y = 2 x w[0]", dtypes=("float32",), sizes={{"small": (64,)}}, edges=((4,), (32,)),
    inputs=lambda shape, dtype, rng: {{"x": rng.random(shape, dtype), "w": rng.random(1, dtype)}},
    reference=lambda x, w: 2 * x * w[0], budgets={{"float32": Budget(1)}}, aligned={aligned},
    entries={{"twice": lambda x, w, y: Launch((1,), (32,), (x, w, y, np.int32(x.size)))}},
)
"""


@pytest.fixture
def spec(tmp_path):
    def write(aligned):
        (tmp_path / "twice.cu").write_text(SOURCE)
        (tmp_path / "twice.py").write_text(SPEC.format(aligned=aligned))
        return str(tmp_path / "twice.py")

    return write


@pytest.mark.sweep
@pytest.mark.process
@pytest.mark.parametrize(("aligned", "right"), [(16, True), ({"x": 16, "y": 16}, True), ({"x": 16}, False), (1, False)])
def test_a_kernel_of_float4_is_right_with_the_alignment_that_it_asks_for(spec, aligned, right):
    run = check(spec(aligned), only="host", device="cpu")
    said = {case.size: case.reason for case in run.cases if case.status != "ok"}
    assert not said if right else all("misaligned address" in reason for reason in said.values()) and said
    assert all("does the kernel need `aligned=16` in its spec?" in reason for reason in said.values())


def test_the_hint_names_the_bytes_that_the_type_needs():
    said = "k.cu:3: block (0,0,0), thread (0,0,0): misaligned address: 'float2' needs an alignment of 8 bytes, and the"
    assert "`aligned=8`" in _aligned(said) and "`aligned=16`" in _aligned("cuCtxSynchronize failed: misaligned address")


def test_arrays_move_by_the_alignment(spec):
    groups = [g for g in checks([spec({"x": 16})], "float32") if g.offsets]
    assert {g.size: g.offsets for g in groups} == {
        "4, all +4 B or more": (16, 4, 4), "64, all +4 B or more": (16, 4, 4),
        "32, all +4 B or more": (16, 4, 4), "32, all +8 B or more": (16, 8, 8),
        "32, x +16 B": (16, 0, 0), "32, w +4 B": (0, 4, 0), "32, y +4 B": (0, 0, 4),
    }  # fmt: skip
    assert offsets({"x": 16, "y": 16}) == {"all +16 B": (16, 16), "x +16 B": (16, 0), "y +16 B": (0, 16)}


def test_a_call_with_a_less_aligned_array_is_refused(spec):
    twice = find.kernel(spec({"x": 16, "y": 16}))
    x, w = np.arange(36, dtype=np.float32), np.ones(3, np.float32)
    whole = np.empty(64, np.float32)
    start = -whole.ctypes.data // 4 % 4  # of an aligned slice
    aligned = whole[start : start + 32]
    aligned[:] = x[:32]
    np.testing.assert_array_equal(twice(aligned, w[1:2]), 2 * x[:32])
    off = whole[start + 1 : start + 33]
    with pytest.raises(InputError, match="x starts 4 bytes after a multiple of 16, as a slice does, and twice takes"):
        twice(off, w[:1])
    with pytest.raises(InputError, match="out starts 4 bytes after"):
        twice(x[:32].copy(), w[:1], out=off)


@pytest.mark.parametrize(
    ("aligned", "said"),
    [(12, "aligned is 12; give a power of two"), (512, "up to 256"), (True, "power of two"),
     ({"z": 16}, "aligned: no array named 'z'"), ({"x": 3}, "give a power of two")],
)  # fmt: skip
def test_an_alignment_that_cannot_be(tmp_path, aligned, said):
    with pytest.raises(SpecError, match=said):
        Kernel(
            file=str(tmp_path / "k.py"), summary="", dtypes=("float32",), sizes={"small": (9,)}, edges=(),
            reference=lambda x: x, entries={"k": lambda x, y: Launch((1,), (1,), (x, y))},
            budgets={"float32": Budget(0)}, aligned=aligned,
        )  # fmt: skip


@pytest.mark.parametrize("in_place", [False, True])
def test_a_call_on_the_cpu_copies_where_the_allocator_aligns_less_than_the_spec_asks_for(tmp_path, in_place):
    """NumPy's arrays start at a multiple of 16, and a struct of eight floats needs 32."""
    (tmp_path / "oct.cu").write_text(
        "struct alignas(32) Oct { float v[8]; };\n"
        f"__global__ void oct({'' if in_place else 'const'} Oct* x, Oct* y) {{\n"
        "    const int i = threadIdx.x;\n    Oct a = x[i];\n    for (float& v : a.v) v += 1;\n    y[i] = a;\n}\n"
    )
    outputs = {"outputs": {"x": Out()}} if in_place else {}
    kernel = Kernel(
        file=str(tmp_path / "oct.py"), summary="x + 1", dtypes=("float32",), sizes={"small": (64,)}, edges=((8,),),
        reference=lambda x: x + 1, budgets=Budget(1), aligned=32, **outputs,
        entries={"oct": lambda x, **y: Launch((1,), (x.size // 8,), (x, y.get("y", x)))},
    )  # fmt: skip
    raw = np.zeros(64 + 16, np.float32)
    first = -raw.ctypes.data % 32 // 4
    for start in (first, first + 4):
        x = raw[start : start + 64]
        x[...] = 1
        out = kernel(x) if in_place else kernel(x, out=raw[start : start + 64] + 0)
        assert (out == 2).all() and (x == (2 if in_place else 1)).all()
