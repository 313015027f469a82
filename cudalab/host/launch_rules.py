"""What CUDA asks of a launch: its shape, the order of its threads, and arguments that fit the parameters."""

from __future__ import annotations

import math

import numpy as np

from cudalab.base.errors import InputError, LaunchError, unknown

Triple = tuple[int, int, int]

# CUDA programming guide, "Technical specifications per compute capability" (the same since 3.0);
# shared memory is the most that any card gives to one block (9.0 and 10.0: 227 KiB).
_GRID_LIMIT = (2**31 - 1, 65535, 65535)
_BLOCK_LIMIT = (1024, 1024, 64)
_THREADS_LIMIT = 1024
_SHARED_LIMIT = 227 * 1024

# What an H200 holds at once, the rule for cooperative launches on the CPU: its multiprocessors, and what each has room
# for; the system reserves shared memory for each block.
_SMS, _SM_THREADS, _SM_BLOCKS, _SM_SHARED, _RESERVED_SHARED = 132, 2048, 32, 228 * 1024, 1024

# The order in which threads run (order.h). A number is the seed of a shuffle.
ORDERS = {"alternating": 0, "forward": 1, "reverse": 2}
Order = str | int

_OTHER, _POINTER, _INTEGER, _FLOATING = range(4)  # launch.h, parameter_kind
_KIND_NAMES = ("a value", "a pointer", "an integer", "a floating point number")


def check_shape(entry: str, grid: Triple, block: Triple, shared: int) -> None:
    """Raise LaunchError for a grid, a block or bytes of shared memory that CUDA does not allow."""
    for what, got, least, limits in (
        ("grid", grid, 0, _GRID_LIMIT),
        ("block", block, 1, _BLOCK_LIMIT),
    ):
        if len(got) != 3:
            raise LaunchError(f"{entry}: {what} must have three dimensions, got {got}")
        for axis, size, limit in zip("xyz", got, limits, strict=True):
            if not least <= size <= limit:
                raise LaunchError(f"{entry}: {what} {axis} is {size}, CUDA allows {least} to {limit}")
    threads = block[0] * block[1] * block[2]
    if threads > _THREADS_LIMIT:
        raise LaunchError(f"{entry}: block {tuple(block)} has {threads} threads, CUDA allows {_THREADS_LIMIT}")
    if not 0 <= shared <= _SHARED_LIMIT:
        raise LaunchError(f"{entry}: {shared} bytes of shared memory, a GPU has at most {_SHARED_LIMIT}")


def check_cooperative(entry: str, grid: Triple, block: Triple, shared: int) -> None:
    """Refuse a grid whose blocks an H200 cannot hold at once; registers and static shared memory are not counted."""
    threads, blocks = math.prod(block), math.prod(grid)
    room = min(_SM_THREADS // threads, _SM_BLOCKS, _SM_SHARED // (shared + _RESERVED_SHARED))
    if blocks > room * _SMS:
        raise LaunchError(
            f"{entry}: a cooperative launch of {blocks} blocks of {threads} threads is too large: a GPU holds "
            f"{room * _SMS} of them at once (an H200: {_SMS} multiprocessors with {room} blocks each); launch at "
            "most that many, and let each block do the work of several"
        )


def turns(order: Order) -> int:
    """Return the number of order.h for an order. Raises NotFound for another name, InputError for a negative seed."""
    if isinstance(order, str):
        if order not in ORDERS:
            raise unknown("order", order, ORDERS)
        return ORDERS[order]
    if order < 0:
        raise InputError(f"the seed of an order is {order}; give a whole number that is not negative")
    return len(ORDERS) + int(order) % 2**63


def box(where: str, value: object, size: int, kind: int) -> np.ndarray:
    """The bytes of an argument, for a parameter of `size` bytes. Raises LaunchError where they do not fit it."""
    if isinstance(value, np.ndarray):
        if kind != _POINTER:
            raise LaunchError(f"{where} is an array, but the parameter is {_KIND_NAMES[kind]}")
        return np.array([value.ctypes.data], np.uintp)
    if not isinstance(value, np.generic):
        raise LaunchError(
            f"{where} is a {type(value).__name__}; pass a NumPy array, or a NumPy scalar such as "
            "np.int64(n), which says how many bytes the kernel gets"
        )
    given = f"np.{value.dtype.name}"
    if kind == _POINTER:
        raise LaunchError(f"{where} is the scalar {given}, but the parameter is a pointer")
    if value.dtype.itemsize != size:
        raise LaunchError(f"{where} is {given} with {value.dtype.itemsize} bytes, but the parameter has {size} bytes")
    if (kind, value.dtype.kind) in {(_INTEGER, "f"), (_FLOATING, "i"), (_FLOATING, "u")}:
        raise LaunchError(f"{where} is {given}, but the parameter is {_KIND_NAMES[kind]}")
    return np.array([value], value.dtype)


def misfit(value: np.ndarray, size: int, element: int, kind: int) -> str:
    """Why a value does not fit a `__constant__` variable; "" if it does."""
    if kind in (_INTEGER, _FLOATING):
        fits = value.dtype.itemsize == element and (value.dtype.kind in "iub") == (kind == _INTEGER)
        if not fits:
            bits, names = 8 * element, {_INTEGER: "integers", _FLOATING: "floating point numbers"}
            return f"got {value.dtype.name}, and its elements are {bits}-bit {names[kind]}"
    if value.nbytes != size:
        elements = f" ({size // element} elements)" if size > element else ""
        return f"got {value.nbytes} bytes (shape {value.shape}), and it has {size} bytes{elements}"
    return ""
