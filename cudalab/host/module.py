"""A compiled `.cu` in this process: check a launch the way CUDA would, then run it."""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cudalab.base.errors import InputError, LaunchError, NotOnCpu, OverrunError, RaceError, Unavailable, unknown
from cudalab.base.threads import cores
from cudalab.host.compiler import STANDARD, Built, compile_source
from cudalab.host.gxx import place_of
from cudalab.host.launch_rules import Order, Triple, box, check_cooperative, check_shape, misfit, turns
from cudalab.host.shared_gaps import shared_gaps
from cudalab.spec.entry_names import constant_named
from cudalab.spec.launch_check import wrong_cluster

_OVERRUN = "wrote up to "  # fibers.h, check_shared_memory
_NOT_HERE = " cannot run on the CPU"  # volatile.h, of a pointer that turns out to be one to shared memory
CODE = re.compile("@([0-9a-f]+)@")  # races.h, tell
_ARGUMENT = re.compile("#([0-9]+)#")  # global_races.h, tell
_RACE, _OUTSIDE, _GAVE_UP = "race on ", (_OVERRUN, "reads ", "writes "), "gave up: "  # races.h, global_races.h
REACH = 1 << 36  # bytes on both sides of an array of `reserved` that belong to nothing else
WATCHED = 1 << 20  # bytes of arrays in which races are looked for, at most
ACCESSES = 20_000_000  # that are followed in one launch
FAR_ACCESSES = 400_000  # the same in reserved arrays, of which each may take a page of memory


class Ends(NamedTuple):
    """What the blocks at both ends of a grid did to arrays, which are named by their addresses."""

    written: Mapping[int, int]  # up to which byte
    # Of each instruction that the last blocks ran, and that read another place for another block: its address in the
    # module, the array, up to which byte.
    read: Sequence[tuple[int, int, int]]


class LastAccess(ctypes.Structure):
    """An access to memory: races.h, last_access. `code` is the address of its instruction in the module; 0: none.

    `arrays` are the first and the last address of arrays of the launch.
    """

    _fields_ = (
        *((name, ctypes.c_uint64) for name in ("code", "address", "bytes", "writes", "thread")),
        ("block", ctypes.c_uint64 * 3),
        ("arrays", ctypes.c_uint64 * 2 * 32),
    )

    @property
    def allowed(self) -> bool:
        """Whether it is in one of the arrays: then the process ended at an access that follows it."""
        return any(0 < first <= self.address <= last for first, last in self.arrays)


class Module:
    """The entries of one `.cu`, ready to run on the CPU. Made by `load`.

    Attributes:
        entries: names of the `__global__` functions: the plain ones, and those of templates that were asked for.
        constants: names of the `__constant__` variables.
        remarks: by entry, what CUDA leaves undefined in a launch that ended well: its line, its block and two threads.
        undefined_reads: by line of the source, the first read there of a value that CUDA leaves undefined, in the last
            launch; with block and thread. It is no fault where the value is not used.
        names_places: whether errors name file and line; else they have the addresses of instructions.
    """

    _last: Module | None = None  # the last to launch: it keeps memory for its next launch

    def __init__(self, built: Built, workers: int = 0) -> None:
        """Open a shared object; blocks run on `workers` threads (0: all cores)."""
        library, entries, self.constants, self._one_block = built
        self.entries, self._workers, self._file = tuple(entries), workers or cores(), library
        self._exported = entries
        self._library = ctypes.CDLL(str(library))  # CDLL: a launch runs without the GIL
        for said in (self._library.cudalab_error, self._library.cudalab_remark, self._library.cudalab_undefined_read):
            said.restype = ctypes.c_char_p
        self.remarks: dict[str, str] = {}
        self.undefined_reads: dict[int, str] = {}
        self._watched: list[int] = []  # places of the arguments that the last launch watched
        self.names_places = True
        self.reach = 0  # bytes on both sides of each array that belong to nothing else; where races are looked for
        self._watches = hasattr(self._library, "cudalab_watch")
        for number, gap in enumerate(shared_gaps(library) if self._watches else ()):
            self._library.cudalab_shared_gap(number, *map(ctypes.c_size_t, gap))
        self._parameters = {entry: self._read_parameters(entry) for entry in entries}
        self._constants = {name: self._read_constant(name) for name in self.constants}  # as they must stay

    def launch(
        self, entry: str, grid: Triple, block: Triple, args: Sequence[object], shared: int = 0,
        order: Order = "alternating", cooperative: bool = False, cluster: Sequence[int] | None = None, probe: int = 0,
        limit: float = math.inf,
    ) -> None:  # fmt: skip
        """Run one entry to its end.

        `args` are NumPy arrays, of which the kernel gets the address, and NumPy scalars, as in
        PyCUDA. `shared` is the dynamic shared memory in bytes. A grid with a zero launches nothing.
        `cooperative` and `cluster` are those of `Launch`.
        `order` is that of blocks, warps and threads: forward, reverse, alternating from block to block, or the seed
        (0 or more) of a shuffle. A correct kernel gives the same result in all of them, except that atomic sums may
        round differently. `probe`: a line of the source whose undefined reads find another value than usual. `limit`:
        seconds after which no more blocks start.
        Raises `LaunchError` for arguments that do not fit the kernel's parameters, for what CUDA
        refuses, and for a failure inside the kernel; Unavailable where it takes longer than the limit.
        """
        if entry not in self._parameters:
            raise unknown("entry", entry, self.entries)
        check_shape(entry, grid, block, shared)
        size = self._cluster(entry, grid, cluster)
        if cooperative:
            check_cooperative(entry, grid, block, shared)
        if self._one_block and (cooperative or math.prod(size) > 1):
            raise Unavailable(
                "the address sanitizer cannot follow blocks that run at the same time and have static __shared__ arrays"
            )
        taken = turns(order)
        boxes = self._boxes(entry, args)
        if 0 in grid:
            return
        pointers = (ctypes.c_void_p * max(1, len(boxes)))(*(one.ctypes.data for one in boxes))
        run = self._runner(entry)
        if (last := Module._last) not in (None, self):
            last._library.cudalab_forget()
        Module._last = self
        self._library.cudalab_set_order(ctypes.c_uint64(taken), probe, ctypes.c_double(limit))
        self._library.cudalab_set_groups(*map(ctypes.c_uint, size), int(cooperative))
        if self._watches:
            self._watch(args)
        given = ctypes.cast(pointers, ctypes.c_void_p)
        whole = self._run(entry, lambda: run(*grid, *block, shared, given, self._workers))
        self._unwritten(entry)
        if not whole:
            raise Unavailable(f"{entry}: a launch of {math.prod(grid):,} blocks takes more than {limit:g} s on the CPU")
        if entry not in self.remarks and (text := self._library.cudalab_remark().decode()):
            self.remarks[entry] = text
        self.undefined_reads = self._undefined_reads()

    def _undefined_reads(self) -> dict[int, str]:
        found, line = dict[int, str](), ctypes.c_uint()
        while text := self._library.cudalab_undefined_read(len(found), ctypes.byref(line)):
            found[line.value] = text.decode()
        return found

    def launch_ends(
        self, entry: str, grid: Triple, block: Triple, args: Sequence[object], shared: int, ends: int,
        accesses: int = FAR_ACCESSES,
    ) -> Ends | None:  # fmt: skip
        """Run `ends` blocks at each end of the grid on arrays of `reserved`, in a module that looks for races.

        It gives up after so many accesses.

        Returns None if that says nothing: the launch took too long, or used atomics, from which blocks may take their
        numbers.
        Raises OverrunError for an access outside of the arrays, and what `launch` raises.
        """
        if entry not in self._parameters:
            raise unknown("entry", entry, self.entries)
        check_shape(entry, grid, block, shared)
        if math.prod(self._cluster(entry, grid, None)) > 1:
            raise LaunchError(f"{entry}: a launch with clusters cannot run only some blocks")
        boxes = self._boxes(entry, args)
        if 0 in grid:
            return Ends({}, [])
        pointers = (ctypes.c_void_p * max(1, len(boxes)))(*(one.ctypes.data for one in boxes))
        run = self._runner(entry)
        self._library.cudalab_set_order(ctypes.c_uint64(turns("alternating")), 0, ctypes.c_double(math.inf))
        self._library.cudalab_set_groups(1, 1, 1, 0)
        self._watch_none(True, ends, REACH, accesses)
        self._watched = [i for i, a in enumerate(args) if isinstance(a, np.ndarray) and a.size]
        arrays = [a for a in args if isinstance(a, np.ndarray) and a.size]
        for array in arrays:
            place, size = ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes)
            self._library.cudalab_watch(place, size, array.itemsize)
        try:
            whole = self._run(
                entry, lambda: run(*grid, *block, shared, ctypes.cast(pointers, ctypes.c_void_p), self._workers)
            )
            return self._ends(arrays) if whole and not self._library.cudalab_atomics_seen() else None
        finally:
            self._watch_none(False, 0, self.reach)

    def _ends(self, arrays: Sequence[np.ndarray]) -> Ends:
        written, reader = self._library.cudalab_written, self._library.cudalab_reader
        written.restype, reader.restype = ctypes.c_size_t, ctypes.POINTER(ctypes.c_uint64)
        addresses, read = [array.ctypes.data for array in arrays], list[tuple[int, int, int]]()
        while found := reader(len(read)):
            read.append((found[0], addresses[found[1]], found[2]))
        return Ends({address: written(i) for i, address in enumerate(addresses)}, read)

    def leave_last(self, place: int) -> None:
        """From now on leave each access at this address, as a `LastAccess`, if the module looks for races."""
        if self._watches:
            self._library.cudalab_leave_last(ctypes.c_void_p(place))

    def place(self, code: int) -> str:
        """Return file and line of an instruction, by its address in the module."""
        return place_of(self._file, code)

    def _watch_none(self, huge: bool, ends: int, reach: int, accesses: int = ACCESSES) -> None:
        self._library.cudalab_watch_none(huge, ends, ctypes.c_uint64(accesses), ctypes.c_size_t(reach))

    def _runner(self, entry: str) -> Callable[..., int]:
        run = self._library[f"cudalab_run_{self._exported[entry]}"]
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
        if self.names_places:
            text = CODE.sub(lambda code: self.place(int(code[1], 16)), text)
        text = _ARGUMENT.sub(self._named, text)
        if _NOT_HERE in text:
            raise NotOnCpu(text)
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
        describe = self._library[f"cudalab_parameters_{self._exported[entry]}"]
        describe.restype = ctypes.POINTER(ctypes.c_uint)
        table = describe()
        return [(table[1 + 2 * i], table[2 + 2 * i]) for i in range(table[0])]

    def set_constant(self, name: str, value: np.ndarray) -> None:
        """Set a `__constant__` variable for the launches that follow. Raises NotFound, and InputError for a value that
        does not fit it.
        """
        full = constant_named(name, self.constants)
        address, size, element, kind = self._describe_constant(full)
        value = np.ascontiguousarray(value)
        if wrong := misfit(value, size, element, kind):
            raise InputError(f"constant {name}: {wrong}")
        ctypes.memmove(address, value.ctypes.data, size)
        self._constants[full] = self._read_constant(full)

    def _describe_constant(self, full: str) -> list[int]:
        """Address, bytes, and bytes and kind of an element of a `__constant__` variable."""
        describe = self._library[f"cudalab_constant_{self.constants.index(full)}"]
        describe.restype = ctypes.POINTER(ctypes.c_size_t)
        return describe()[:4]

    def _read_constant(self, full: str) -> bytes:
        address, size, *_ = self._describe_constant(full)
        return ctypes.string_at(address, size)

    def _unwritten(self, entry: str) -> None:
        """Raise OverrunError where a launch wrote to a `__constant__` variable, which then has its value again."""
        for name, value in self._constants.items():
            if self._read_constant(name) != value:
                ctypes.memmove(self._describe_constant(name)[0], value, len(value))
                raise OverrunError(
                    f"{entry}: writes to its __constant__ variable {name!r}, which a kernel may only read"
                )

    def _cluster(self, entry: str, grid: Triple, given: Sequence[int] | None) -> Triple:
        """The cluster of a launch: what the launch gives, or the source by __cluster_dims__, or one block."""
        fixed: Triple | None = None
        if describe := getattr(self._library, f"cudalab_cluster_{self._exported[entry]}", None):
            describe.restype = ctypes.POINTER(ctypes.c_uint)
            fixed = tuple(int(d) or 1 for d in describe()[:3])  # type: ignore[assignment]
        asked = None if given is None else (*given, 1, 1)[:3]
        if fixed and asked and fixed != asked:
            raise LaunchError(f"{entry} has __cluster_dims__{fixed}, but its launch has cluster={tuple(given or ())}")
        size = asked or fixed or (1, 1, 1)
        if wrong := wrong_cluster(grid, size):
            raise LaunchError(f"{entry}: {wrong}")
        return size  # type: ignore[return-value]

    def _boxes(self, entry: str, args: Sequence[object]) -> list[np.ndarray]:
        """Each argument's bytes in an array of its own, which must outlive the launch."""
        parameters = self._parameters[entry]
        if len(args) != len(parameters):
            raise LaunchError(f"{entry} has {len(parameters)} parameters, got {len(args)} arguments")
        return [
            box(f"{entry}: argument {i + 1} of {len(args)}", value, size, kind)
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
    entries: Sequence[str] = (),
    standard: str = STANDARD,
) -> Module:
    """Compile the CUDA source `text` for the CPU (once per content, see compiler.py) and open it.

    Args:
        text: the `.cu`, unmodified, with or without `extern "C"`.
        name: what error messages call it.
        defines: preprocessor macros, for example `{"scalar_t": "__half"}`.
        include: folder for the source's own `#include "..."` lines.
        sanitize: check addresses and for undefined behaviour; see `compiler.compile_source`.
        races: look for races; a launch that has one fails. The arrays of larger launches are not watched.
        entries: names in C++ to make ready beside the plain ones, such as `row_sum<64, float>` and `ns::k`.
        standard: the option for the C++ standard.

    Raises:
        CompileError: with the compiler's lines, or with what cannot run on the CPU.
    """
    built = compile_source(
        text,
        name=name,
        defines=defines,
        include=include,
        sanitize=sanitize,
        races=races,
        entries=entries,
        standard=standard,
    )
    return Module(
        built, workers=1 if sanitize or races else 0
    )  # one: static __shared__ arrays are static variables there
