"""Memory that a process frees: whether it keeps it."""

from __future__ import annotations

import ctypes
import os
import resource

import numpy as np
import pytest

from cudalab.base import memory


def _faults() -> int:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        assert len([np.ones(1 << 19) for _ in range(4)]) == 4  # of 4 MB, 1,024 pages
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


@pytest.mark.process
def test_arrays_take_the_pages_of_those_before():
    reading, writing = os.pipe()
    if not (child := os.fork()):
        for what in memory._MMAP_THRESHOLD, memory._TRIM_THRESHOLD:
            ctypes.CDLL(None).mallopt(what, 128 << 10)  # as in a new process, whatever the tests before have freed
        usual = _faults()
        memory.keep()
        _faults()
        os.write(writing, f"{usual} {_faults()}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    usual, kept = map(int, os.read(reading, 40).split())
    assert usual > 4096 and kept < 1024
