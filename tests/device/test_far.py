"""What a kernel on the CPU does far beside its arrays: it harms nobody, and it is seen."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from cudalab.base.errors import Unavailable
from cudalab.device import cpu
from cudalab.device.guard import GUARD
from cudalab.host import reserved

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
    assert guarded.array.ctypes.data % cpu.ALIGN == 4
    assert guarded.overrun() is None
    guarded.whole[-1] ^= 1
    assert guarded.overrun() == "wrote 1 bytes after"
    guarded.mend()
    assert guarded.overrun() is None
