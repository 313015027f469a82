"""What a kernel on the CPU does far beside its arrays: it harms nobody, and it is seen."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
import specs
from cpu_rows import cpu_rows

from cudalab import host
from cudalab.base.errors import Unavailable
from cudalab.device import cpu
from cudalab.device.guard import GUARD
from cudalab.engine.groups import Group
from cudalab.host import reserved
from cudalab.spec.dtype import dtype

FLOAT = np.dtype(np.float32)
SIZES = (0, 5, 1000, 3 << 20)


@pytest.fixture
def tells():
    if not cpu.Guarded((1,), FLOAT).watched:
        pytest.skip("this system does not tell which memory was touched")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("offset", [0, 4])
def test_nothing_is_told_of_an_array_that_is_used(size, offset):
    guarded = cpu.Guarded((size,), FLOAT, offset)
    guarded.array[...] = 1
    assert guarded.overrun() is None
    assert guarded.array.ctypes.data % cpu.ALIGN == offset


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("beside", [GUARD + 4096 + 16, 1 << 20, cpu.FAR])
@pytest.mark.parametrize("side", ["before", "after"])
def test_what_is_touched_far_beside_an_array_is_seen(tells, size, beside, side):
    guarded = cpu.Guarded((size,), FLOAT)
    start = guarded.whole.ctypes.data + GUARD
    at = start - beside if side == "before" else start + guarded.array.nbytes + beside - 16
    ctypes.memset(at, 1, 4)
    assert guarded.overrun() == f"reads or writes more than {GUARD >> 10} KB {side}"
    guarded.mend()
    assert guarded.overrun() is None
    assert not np.frombuffer((ctypes.c_char * 4).from_address(at), np.uint8).any()


def test_without_address_space_the_guard_bands_still_hold(monkeypatch):
    real = reserved.space

    def little(size):
        if size > cpu.FAR:
            raise Unavailable("no address space")
        return real(size)

    monkeypatch.setattr(reserved, "space", little)
    guarded = cpu.Guarded((1000,), FLOAT, 4)
    assert guarded.array.ctypes.data % cpu.ALIGN == 4 and guarded.overrun() is None
    guarded.whole[-1] ^= 1
    assert guarded.overrun() == "wrote 1 bytes after"
    guarded.mend()
    assert guarded.overrun() is None


@pytest.mark.skipif(host.compiler_missing() is not None, reason="no C++ compiler")
def test_a_kernel_that_writes_beside_its_arrays_is_wrong_with_its_line_and_the_next_one_is_not_blamed(tells, tmp_path):
    text = "".join(
        f"__global__ void {name}(const float* x, float* y, int n) {{\n"
        f"    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i < n) y[i] = x[i]{more};\n}}\n"
        for name, more in (("strays", ", y[i + 500000] = 1"), ("beside", ", y[i + n] = 1"), ("stays", ""))
    )
    kernel = specs.kernel(tmp_path, "far", text, entries=dict.fromkeys(("strays", "beside", "stays"), specs.flat))
    strays, beside, stays = cpu_rows(Group(kernel, "small", (64,), dtype("float32")), "host")
    assert strays.status == "WRONG" and "reads or writes more than 64 KB after 'y'" in strays.reason
    assert beside.status == "WRONG" and beside.reason.startswith("wrote 256 bytes after 'y'; is each index checked")
    outside = "first access outside: beside: writes 4 bytes outside an array (argument 2) at far.cu:7: element 64 of 64"
    assert f"size? {outside}" in beside.reason
    assert stays.status == "ok", stays.reason
