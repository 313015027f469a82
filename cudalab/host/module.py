"""A compiled `.cu` in this process: check a launch the way CUDA would, then run it."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from cudalab.base.errors import InputError, LaunchError, OverrunError, RaceError, unknown
from cudalab.base.threads import cores
from cudalab.host.compiler import compile_source, place_of

Triple = tuple[int, int, int]

# CUDA programming guide, "Technical specifications per compute capability" (the same since 3.0);
# shared memory is the most that any card gives to one block (9.0 and 10.0: 227 KiB).
_GRID_LIMIT = (2**31 - 1, 65535, 65535)
_BLOCK_LIMIT = (1024, 1024, 64)
_THREADS_LIMIT = 1024
_SHARED_LIMIT = 227 * 1024

# The order in which threads run (order.h). A number is the seed of a shuffle.
ORDERS = {"alternating": 0, "forward": 1, "reverse": 2}
Order = str | int

_OTHER, _POINTER, _INTEGER, _FLOATING = range(4)  # launch.h, parameter_kind
_OVERRUN = "wrote up to "  # fibers.h, check_shared_memory
_CODE = re.compile("@([0-9a-f]+)@")  # races.h, tell
_ARGUMENT = re.compile("#([0-9]+)#")  # global_races.h, tell
_RACE, _OUTSIDE, _GAVE_UP = "race on ", (_OVERRUN, "reads ", "writes "), "gave up: "  # races.h, global_races.h
REACH = 1 << 36  # bytes on both sides of an array of `reserved` that belong to nothing else
WATCHED = 1 << 20  # bytes of arrays in which races are looked for, at most
ACCESSES = 20_000_000  # that are followed in one launch
FAR_ACCESSES = 400_000  # the same in reserved arrays, of which each may take a page of memory
_KIND_NAMES = ("a value", "a pointer", "an integer", "a floating point number")


class Module:
    """The entries of one `.cu`, ready to run on the CPU. Made by `load`.

    Attributes:
        entries: names of the `__global__` functions; templates are not among them.
        remarks: by entry, what CUDA leaves undefined in a launch that ended well: its line, its block and two threads.
    """

    _last: Module | None = None  # the last to launch: it keeps memory for its next launch

    def __init__(self, library: Path, entries: tuple[str, ...], workers: int = 0) -> None:
        """Open the shared object `library`, which exports `entries`; blocks run on `workers` threads (0: all cores)."""
        self.entries, self._workers, self._file = entries, workers or cores(), library
        self._library = ctypes.CDLL(str(library))  # CDLL: a launch runs without the GIL
        self._library.cudalab_error.restype = self._library.cudalab_remark.restype = ctypes.c_char_p
        self.remarks: dict[str, str] = {}
        self._watched: list[int] = []  # places of the arguments that the last launch watched
        self.reach = 0  # bytes on both sides of each array that belong to nothing else; where races are looked for
        self._watches = hasattr(self._library, "cudalab_watch")
        self._parameters = {entry: self._read_parameters(entry) for entry in entries}

    def launch(
        self, entry: str, grid: Triple, block: Triple, args: Sequence[object], shared: int = 0,
        order: Order = "alternating",
    ) -> None:  # fmt: skip
        """Run one entry to its end.

        `args` are NumPy arrays, of which the kernel gets the address, and NumPy scalars, as in
        PyCUDA. `shared` is the dynamic shared memory in bytes. A grid with a zero launches nothing.
        `order` is that of blocks, warps and threads: forward, reverse, alternating from block to block, or the seed
        (0 or more) of a shuffle. A correct kernel gives the same result in all of them, except that atomic sums may
        round differently.
        Raises `LaunchError` for arguments that do not fit the kernel's parameters, for what CUDA
        refuses, and for a failure inside the kernel.
        """
        if entry not in self._parameters:
            raise unknown("entry", entry, self.entries)
        _check_shape(entry, grid, block, shared)
        turns = _turns(order)
        boxes = self._boxes(entry, args)
        if 0 in grid:
            return
        pointers = (ctypes.c_void_p * max(1, len(boxes)))(*(box.ctypes.data for box in boxes))
        run = self._runner(entry)
        if (last := Module._last) not in (None, self):
            last._library.cudalab_forget()
        Module._last = self
        self._library.cudalab_set_order(ctypes.c_uint64(turns))
        if self._watches:
            self._watch(args)
        self._run(entry, lambda: run(*grid, *block, shared, ctypes.cast(pointers, ctypes.c_void_p), self._workers))
        if entry not in self.remarks and (text := self._library.cudalab_remark().decode()):
            self.remarks[entry] = text

    def launch_ends(
        self, entry: str, grid: Triple, block: Triple, args: Sequence[object], shared: int, ends: int
    ) -> dict[int, tuple[int, int]] | None:
        """Run `ends` blocks at each end of the grid on arrays of `reserved`, in a module that looks for races.

        Returns by address from which byte and up to which each array was written; None if that says nothing: the launch
        took too long, or used atomics, from which blocks may take their numbers.
        Raises OverrunError for an access outside of the arrays, and what `launch` raises.
        """
        _check_shape(entry, grid, block, shared)
        boxes = self._boxes(entry, args)
        if 0 in grid:
            return None
        pointers = (ctypes.c_void_p * max(1, len(boxes)))(*(box.ctypes.data for box in boxes))
        run = self._runner(entry)
        self._watch_none(True, ends, REACH)
        self._watched = [i for i, a in enumerate(args) if isinstance(a, np.ndarray) and a.size]
        arrays = [a for a in args if isinstance(a, np.ndarray) and a.size]
        for array in arrays:
            place, size = ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes)
            self._library.cudalab_watch(place, size, array.itemsize)
        written = self._library.cudalab_written
        written.restype = ctypes.c_size_t
        try:
            whole = self._run(
                entry, lambda: run(*grid, *block, shared, ctypes.cast(pointers, ctypes.c_void_p), self._workers)
            )
            whole = whole and not self._library.cudalab_atomics_seen()
        finally:
            self._watch_none(False, 0, self.reach)
        return {a.ctypes.data: (written(i, 0), written(i, 1)) for i, a in enumerate(arrays)} if whole else None

    def _watch_none(self, huge: bool, ends: int, reach: int) -> None:
        accesses = FAR_ACCESSES if huge else ACCESSES
        self._library.cudalab_watch_none(huge, ends, ctypes.c_uint64(accesses), ctypes.c_size_t(reach))

    def _runner(self, entry: str) -> Callable[..., int]:
        run = self._library[f"cudalab_run_{entry}"]
        run.argtypes = [*[ctypes.c_uint] * 6, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int]
        run.restype = ctypes.c_int
        return run

    def _run(self, entry: str, run: Callable[[], int]) -> bool:
        """Whether the launch ran to its end. Raises what its failure is."""
        if not run():
            return True
        text = self._library.cudalab_error().decode()
        if text.startswith(_GAVE_UP):
            return False
        text = _CODE.sub(lambda code: place_of(self._file, int(code[1], 16)), text)
        text = _ARGUMENT.sub(self._named, text)
        kind = RaceError if text.startswith(_RACE) else OverrunError if text.startswith(_OUTSIDE) else LaunchError
        raise kind(f"{entry}: {text}")

    def _named(self, found: re.Match[str]) -> str:
        """What is watched under this number of global_races.h."""
        number = int(found[1])
        return f"argument {self._watched[number] + 1}" if number < len(self._watched) else "a __device__ variable"

    def _watch(self, args: Sequence[object]) -> None:
        """Look for races on the arrays among the arguments in the next launch, if they are small."""
        self._watch_none(False, 0, self.reach)
        self._watched = []
        seen: set[int] = set()
        arrays = [(i, a) for i, a in enumerate(args) if isinstance(a, np.ndarray) and a.size]
        if sum(a.nbytes for _, a in arrays) > WATCHED:
            return
        for i, array in arrays:
            if (address := array.ctypes.data) not in seen:
                seen.add(address)
                self._watched.append(i)
                size = ctypes.c_size_t(array.nbytes)
                self._library.cudalab_watch(ctypes.c_void_p(address), size, min(array.itemsize, 255))

    def _read_parameters(self, entry: str) -> list[tuple[int, int]]:
        """Size in bytes and kind of each parameter, as the C++ compiler sees them."""
        describe = self._library[f"cudalab_parameters_{entry}"]
        describe.restype = ctypes.POINTER(ctypes.c_uint)
        table = describe()
        return [(table[1 + 2 * i], table[2 + 2 * i]) for i in range(table[0])]

    def _boxes(self, entry: str, args: Sequence[object]) -> list[np.ndarray]:
        """Each argument's bytes in an array of its own, which must outlive the launch."""
        parameters = self._parameters[entry]
        if len(args) != len(parameters):
            raise LaunchError(f"{entry} has {len(parameters)} parameters, got {len(args)} arguments")
        return [
            _box(f"{entry}: argument {i + 1} of {len(args)}", value, size, kind)
            for i, (value, (size, kind)) in enumerate(zip(args, parameters, strict=True))
        ]


def load(
    text: str,
    *,
    name: str = "kernel.cu",
    defines: Mapping[str, str] | None = None,
    include: Path | None = None,
    sanitize: bool = False,
    races: bool = False,
) -> Module:
    """Compile the CUDA source `text` for the CPU (once per content, see compiler.py) and open it.

    Args:
        text: the `.cu`, unmodified, with or without `extern "C"`.
        name: what error messages call it.
        defines: preprocessor macros, for example `{"scalar_t": "__half"}`.
        include: folder for the source's own `#include "..."` lines.
        sanitize: check addresses and for undefined behaviour; see `compiler.compile_source`.
        races: look for races; a launch that has one fails. The arrays of larger launches are not watched.

    Raises:
        CompileError: with the compiler's lines, or with what cannot run on the CPU.
    """
    built = compile_source(text, name=name, defines=defines, include=include, sanitize=sanitize, races=races)
    return Module(
        *built, workers=1 if sanitize or races else 0
    )  # one: static __shared__ arrays are static variables there


def _box(where: str, value: object, size: int, kind: int) -> np.ndarray:
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


def _check_shape(entry: str, grid: Triple, block: Triple, shared: int) -> None:
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


def _turns(order: Order) -> int:
    if isinstance(order, str):
        if order not in ORDERS:
            raise unknown("order", order, ORDERS)
        return ORDERS[order]
    if order < 0:
        raise InputError(f"the seed of an order is {order}; give a whole number that is not negative")
    return len(ORDERS) + int(order) % 2**63
