"""What a GPU allows a launch: shared memory beyond 48 KB, blocks that live at the same time, clusters."""

from __future__ import annotations

import ctypes
import math
import struct
from functools import cache

import numpy as np

from cudalab.base.errors import LaunchError
from cudalab.device import driver
from cudalab.spec.launch import Launch
from cudalab.spec.launch_check import PORTABLE_CLUSTER

USUAL_SHARED = 48 * 1024  # bytes of a block; more has to be opted in

# Numbers in cuda.h: of CUfunction_attribute, of CUdevice_attribute, of CUresult.
SHARED_SIZE_BYTES, MAX_DYNAMIC_SHARED_SIZE_BYTES, NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 1, 8, 14
MULTIPROCESSOR_COUNT, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, CLUSTER_LAUNCH = 16, 97, 120


def shared_to_opt_in(launch: Launch, static: int, most: int) -> int:
    """Bytes of dynamic shared memory to opt in for a function with `static` ones; 0: none. Raises LaunchError."""
    wanted = int(launch.shared)
    if wanted + static > most:
        own = f" and {static:,} bytes of static" if static else ""
        raise LaunchError(
            f"{launch.entry}: {wanted:,} bytes of dynamic{own} shared memory; this GPU has {most:,} per block"
        )
    return wanted if wanted + static > USUAL_SHARED else 0


@cache
def device_attribute(context: int, number: int) -> int:
    """Return a number of the device of a context."""
    device, value = ctypes.c_int(), ctypes.c_int()
    with driver.within(context):
        driver.ask("cuCtxGetDevice", ctypes.byref(device))
    driver.ask("cuDeviceGetAttribute", ctypes.byref(value), number, device)
    return value.value


def most_shared(context: int) -> int:
    """Bytes of shared memory that a block can have."""
    return device_attribute(context, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)


def refuse_addresses(launch: Launch) -> None:
    """Raise LaunchError where a number of a launch is the address of memory that the lab has not given it.

    A kernel could keep its answers there. Numbers of 8 bytes are looked at, also those anywhere in a struct.
    """
    for number, one in enumerate(launch.args, 1):
        if issubclass(type(one), np.generic):  # isinstance() would ask a stand-in of `passed` for its class
            data = one.tobytes()
            words = (struct.unpack_from("Q", data, at)[0] for at in range(len(data) - 7))
            if any(word and driver.is_memory(word) for word in words):
                raise LaunchError(
                    f"{launch.entry}: argument {number} is the address of memory of a GPU; give the array itself, "
                    "as an input, an output or a workspace of the spec"
                )


def make_able(function: int, launch: Launch, context: int) -> None:
    """Opt a loaded function in to what its launch asks for. Raises LaunchError for what the GPU cannot hold."""
    if not (launch.cooperative or launch.cluster or launch.shared):
        return
    with driver.within(context):
        if grow := shared_to_opt_in(launch, _of_function(function, SHARED_SIZE_BYTES), most_shared(context)):
            _set(function, MAX_DYNAMIC_SHARED_SIZE_BYTES, grow)
        if launch.cluster:
            if not device_attribute(context, CLUSTER_LAUNCH):
                raise LaunchError(f"{launch.entry}: this GPU has no clusters; they need compute capability 9.0 or more")
            if math.prod(launch.cluster) > PORTABLE_CLUSTER:
                _set(function, NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)
        if launch.cooperative:
            _refuse_too_many(function, launch, context)


def _refuse_too_many(function: int, launch: Launch, context: int) -> None:
    grid, block = launch.dims
    threads, blocks, each = math.prod(block), math.prod(grid), ctypes.c_int()
    driver.ask(
        "cuOccupancyMaxActiveBlocksPerMultiprocessor", ctypes.byref(each), ctypes.c_void_p(function), threads,
        ctypes.c_size_t(int(launch.shared)),
    )  # fmt: skip
    if blocks > (room := each.value * device_attribute(context, MULTIPROCESSOR_COUNT)):
        raise LaunchError(
            f"{launch.entry}: a cooperative launch of {blocks} blocks of {threads} threads is too large: this GPU "
            f"holds {room} of them at once ({each.value} on each multiprocessor); launch at most that many, and let "
            "each block do the work of several"
        )


def _of_function(function: int, number: int) -> int:
    value = ctypes.c_int()
    driver.ask("cuFuncGetAttribute", ctypes.byref(value), number, ctypes.c_void_p(function))
    return value.value


def _set(function: int, number: int, value: int) -> None:
    driver.ask("cuFuncSetAttribute", ctypes.c_void_p(function), number, value)
