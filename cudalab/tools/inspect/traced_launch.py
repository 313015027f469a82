"""The launches that inspection follows: parameters, geometry, and what a thread in the middle of each grid sees.

No GPU is needed, and the arrays hold no data.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

import numpy as np

from cudalab.base.errors import InputError, SpecError
from cudalab.results.record import Case
from cudalab.spec import cuda_source, entry_names, work
from cudalab.spec import tuned as stored
from cudalab.spec.card import Card
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Arrays, Kernel, Launch, Shape, assigned
from cudalab.tools.inspect.sass import Code
from cudalab.tools.inspect.thread_state import State

ADDRESS, APART = 0x7F00_0000_0000, 0x10_0000_0000  # assumed addresses of the arrays: aligned as an allocation is


def parameterized(kernel: Kernel, entry: str, kind: DType, arch: str, row: Case | None = None) -> tuple[Kernel, str]:
    """The kernel with the launch parameters to inspect for an architecture, and a remark about them.

    A row of the results has the parameters that it was measured with. Without a row they are those that were tuned for
    the architecture, or else the defaults.
    """
    number = arch.removeprefix("sm_").rstrip("abcf")
    try:
        if row and row.parameters:
            given, why = kernel.with_parameters(row.parameters), "as in the results"
        else:
            given, notes = stored.chosen(kernel, entry, kind, Card(f"{number[:-1]}.{number[-1]}", ""))
            if notes:
                return kernel, notes[0]
            why = f"as tuned for {arch}"
    except SpecError as error:
        return kernel, str(error)
    if given.parameters == kernel.parameters:
        return kernel, ""
    return given, f"compiled and launched with {assigned(given.parameters)}, {why}"


@dataclass(frozen=True)
class TracedLaunch:
    """A launch of an entry on arrays of one size; its `args` have addresses in place of arrays.

    `nbytes` of an entry's only launch are those that `bench` counts: each input read once, each output written once, or
    what `bytes` of the spec says. One of several launches moves the arrays that it takes, workspace too.
    """

    launch: Launch
    nbytes: int
    elements: int  # of the largest array; of several launches, of those that this one takes
    number: int = 1  # its place among the launches of the entry
    of: int = 1  # how many launches the entry makes

    @property
    def last(self) -> bool:
        """Whether no other launch of the entry follows."""
        return self.number == self.of

    @property
    def blocks(self) -> int:
        (x, y, z), _ = self.launch.dims
        return x * y * z

    @property
    def threads(self) -> int:
        """Threads per block."""
        _, (x, y, z) = self.launch.dims
        return x * y * z

    @property
    def warps(self) -> int:
        """Warps per block."""
        return -(-self.threads // 32)


def arrays(kernel: Kernel, dtype: DType, shape: Shape) -> Arrays:
    """Inputs, outputs and workspace by name. The inputs have no values unless the spec makes them or `bytes` asks."""
    usual = kernel.inputs is None and kernel.bytes is None
    try:
        given = kernel.unfilled(shape, dtype) if usual else kernel.make(shape, dtype)
        shapes = {name: a.shape for name, a in given.items()}
        own = [name for name in kernel.array_names if name not in given]
        made = {name: np.empty(kernel.shape_of(name, shapes), kernel.kind_of(name, dtype).numpy) for name in own}
    except (MemoryError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"arrays of {'x'.join(map(str, shape))} do not fit here; give a smaller --size") from None
    return {**given, **made}


def traced_launches(kernel: Kernel, entry: str, on: Arrays) -> tuple[TracedLaunch, ...]:
    """The launches of an entry on these arrays, in order, without empty ones.

    Raises SpecError if CUDA would refuse one, InputError if all are empty.
    """
    launches = [launch for launch in kernel.launches(entry, on) if not launch.empty and 0 not in launch.dims[1]]
    if not launches:
        raise InputError(f"{entry} launches nothing at this size; give a larger --size")
    for launch in launches:
        if (threads := math.prod(launch.dims[1])) > 1024:
            raise SpecError(f"{kernel.file}: {entry} has {threads} threads per block; CUDA's limit is 1024")
    inputs = {name: on[name] for name in kernel.input_names}
    whole = work.amount(kernel, inputs, sum(on[name].nbytes for name in kernel.outs)).nbytes
    if len(launches) == 1:
        return (TracedLaunch(_with_addresses(launches[0]), max(whole, 1), max(a.size for a in on.values())),)
    share = whole / (sum(a.nbytes for a in inputs.values()) + sum(on[name].nbytes for name in kernel.outs) or 1)
    return tuple(
        TracedLaunch(_with_addresses(launch), *_moved(kernel, launch, on, share), number, len(launches))
        for number, launch in enumerate(launches, 1)
    )


def _moved(kernel: Kernel, launch: Launch, on: Arrays, share: float) -> tuple[int, int]:
    """Bytes that one of several launches moves, and the elements of the largest array that it takes.

    It reads or writes each array once; one that is updated in place both, unless its parameter is `const`. `share`: how
    much of the kernel's inputs and outputs is moved, as `bytes` of the spec says.
    """
    declared = entry_names.parameters(cuda_source.read(kernel.cu), launch.entry)
    nbytes, elements = 0.0, 1
    for place, argument in enumerate(launch.args):
        name = next((name for name, array in on.items() if array is argument), "")
        if not name:
            continue
        constant = declared is not None and declared[place].constant
        times = 2 if name in kernel.in_place and not constant else 1
        nbytes += times * on[name].nbytes * (1 if name in kernel.workspace else share)
        elements = max(elements, on[name].size)
    return max(round(nbytes), 1), elements


def _with_addresses(launch: Launch) -> Launch:
    args = (np.uint64(ADDRESS + i * APART) if isinstance(a, np.ndarray) else a for i, a in enumerate(launch.args))
    return Launch(*launch.dims, tuple(args), launch.shared, entry=launch.entry)


def first_state(code: Code, of: TracedLaunch, architecture: str) -> State:
    """Constants and special registers of the thread in the middle of the block in the middle of the grid."""
    grid, block = of.launch.dims
    constants = _parameters(code, of.launch)
    blackwell = int(architecture.removeprefix("sm_").rstrip("abcf")) >= 100
    for base, sizes in ((0x360 if blackwell else 0x0, block), (0x370 if blackwell else 0xC, grid)):
        constants |= dict(enumerate(struct.pack("<3I", *sizes), base))
    places = {f"SR_TID.{axis}": size // 2 for axis, size in zip("XYZ", block, strict=True)}
    places |= {f"SR_CTAID.{axis}": size // 2 for axis, size in zip("XYZ", grid, strict=True)}
    places |= {f"SR_NTID.{axis}": size for axis, size in zip("XYZ", block, strict=True)}
    thread = places["SR_TID.X"] + block[0] * (places["SR_TID.Y"] + block[1] * places["SR_TID.Z"])
    return State(constants=constants, special={**places, "SR_LANEID": thread % 32})


def _parameters(code: Code, launch: Launch) -> dict[int, int]:
    """The bytes of the arguments where the code expects them, each aligned to its own size."""
    if code.parameters is None:
        return {}
    start, length = code.parameters
    packed = b""
    for argument in launch.args:
        data = argument.tobytes()
        packed += bytes(-len(packed) % len(data)) + data
    if len(packed) != length:
        raise SpecError(
            f"{code.name} takes {length} bytes of arguments, but its launch passes {len(packed)}; are all numbers "
            "NumPy scalars of the parameter's own size, such as np.int64(n) for a long long?"
        )
    return dict(enumerate(packed, start))
