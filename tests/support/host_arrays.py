"""Arrays of the host that pass for a GPU's, for backends whose library is replaced by a stand-in."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import numpy as np

from cudalab.device.arrays import DeviceArray
from cudalab.device.operands import Operands


def device(array):
    return DeviceArray(array.shape, array.dtype, array.ctypes.data, array)


def seen(array):
    """A NumPy array on the memory of such an array."""
    memory = (ctypes.c_char * max(array.nbytes, 1)).from_address(array.ptr)
    return np.frombuffer(memory, array.dtype, array.size).reshape(array.shape)


def operands(inputs, output, **scalars):
    arrays = {name: device(array) for name, array in inputs.items()}
    return Operands(arrays, device(output), SimpleNamespace(handle=7), scalars=scalars)
