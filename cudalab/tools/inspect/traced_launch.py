"""The launch that inspection follows: its parameters, its geometry, and what a thread in the middle of its grid sees.

No GPU is needed, and the arrays hold no data.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

from cudalab.base.errors import InputError, SpecError
from cudalab.results.record import Case
from cudalab.spec import tuned as stored
from cudalab.spec.card import Card
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Arrays, Kernel, Launch, Shape, assigned
from cudalab.tools.inspect.sass import Code
from cudalab.tools.inspect.symbolic_values import State

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
    """One entry's launch on arrays of one size; `args` of the launch have addresses in place of arrays."""

    launch: Launch
    nbytes: int  # each input read once, the output written once
    elements: int  # of the largest array

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
    """Inputs, outputs and workspace by name. The inputs have no values unless the spec makes them."""
    try:
        given = kernel.unfilled(shape, dtype) if kernel.inputs is None else kernel.make(shape, dtype)
        shapes = {name: a.shape for name, a in given.items()}
        own = [name for name in kernel.array_names if name not in given]
        made = {name: np.empty(kernel.shape_of(name, shapes), kernel.kind_of(name, dtype).numpy) for name in own}
    except (MemoryError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"arrays of {'x'.join(map(str, shape))} do not fit here; give a smaller --size") from None
    return {**given, **made}


def traced_launch(kernel: Kernel, entry: str, on: Arrays) -> TracedLaunch:
    """The launch of an entry on these arrays. Raises SpecError if CUDA would refuse it, InputError if it is empty."""
    launch = kernel.launch(entry, on)
    grid, block = launch.dims
    threads = block[0] * block[1] * block[2]
    if launch.empty or not threads:
        raise InputError(f"{entry} launches nothing at this size; give a larger --size")
    if threads > 1024:
        raise SpecError(f"{kernel.file}: {entry} has {threads} threads a block; CUDA's limit is 1024")
    args = tuple(np.uint64(ADDRESS + i * APART) if isinstance(a, np.ndarray) else a for i, a in enumerate(launch.args))
    sizes = [a.size for a in on.values()]
    return TracedLaunch(
        Launch(grid, block, args, launch.shared, entry=launch.entry), sum(a.nbytes for a in on.values()), max(sizes)
    )


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
            f"{code.name} takes {length} bytes of arguments, its launch gives {len(packed)}; are all numbers "
            "NumPy scalars of the parameter's own size, such as np.int64(n) for a long long?"
        )
    return dict(enumerate(packed, start))
