"""Limits and rates of GPU architectures; needs no GPU."""

from __future__ import annotations

from dataclasses import dataclass

from cudalab.base.errors import unknown


@dataclass(frozen=True)
class Architecture:
    """One compute capability.

    The limits come from "Technical Specifications per Compute Capability" in the CUDA C++ Programming Guide. The rates
    are lanes (results of one thread) per cycle and SM, from "Throughput of Native Arithmetic Instructions" in the CUDA
    C++ Best Practices Guide. The load/store rates come from NVIDIA's white papers on the architectures.

    The tensor cores' rates are operations per cycle and SM, two for a multiply-add, of dense matrices. They come from
    the white papers (Turing TU102, A100, GA102, Jetson AGX Orin, Ada, H100, RTX Blackwell) and the DGX B200 data sheet:
    the number there is this rate x SMs x the clock that the paper names. Where cards of one architecture differ, the
    highest is here: an A10 and an L40S do twice as much in TF32 as a GeForce.
    """

    name: str  # for nvcc
    warps: int  # most that an SM can hold
    blocks: int  # most that an SM can hold
    shared: int  # bytes per SM
    shared_block: int  # most bytes per block
    fp32: int  # lanes per cycle, as below
    fp16x2: int
    fp64: int
    load_store: int
    tensor16: int  # operations of tensor cores on 16-bit floats
    tensor32: int  # the same in TF32, 0: no such unit
    tensor64: int = 0
    registers: int = 65536  # per SM, and most per block
    registers_unit: int = 256  # registers are allocated to a warp in multiples of this
    shared_unit: int = 128
    shared_reserved: int = 1024  # bytes per block that the system takes
    alu: int = 64  # comparisons, selections, logic, shifts, integer additions
    multiply: int = 64  # integer multiply-add
    special: int = 16  # exp2, reciprocal, ...; conversions
    shuffle: int = 32
    partitions: int = 4  # each issues one warp instruction per cycle

    @property
    def issue(self) -> int:
        """Lanes per cycle: one warp instruction from each partition."""
        return 32 * self.partitions

    def units(self, dtype: str) -> tuple[tuple[int, str], ...]:
        """(floating-point operations per cycle and SM, unit) of the units for tasks in `dtype`; none for integers.

        A float32 task may use TF32, and no narrower format: that would be another task.
        """
        units = {
            "float16": ((self.tensor16, "tensor cores"), (4 * self.fp16x2, "half2")),
            "bfloat16": ((self.tensor16, "tensor cores"),),
            "float32": ((self.tensor32, "TF32 tensor cores"), (2 * self.fp32, "float32 units")),
            "float64": ((self.tensor64, "float64 tensor cores"), (2 * self.fp64, "float64 units")),
        }
        return tuple(unit for unit in units.get(dtype, ()) if unit[0])

    def fastest(self, dtype: str) -> tuple[int, str] | None:
        """The fastest of `units`; None for integers."""
        return max(self.units(dtype), default=None)


KIB = 1024
_OLD = {"shared_unit": 256, "shared_reserved": 0}
ARCHITECTURES = {
    a.name: a
    for a in (
        Architecture("sm_75", 32, 16, 64 * KIB, 64 * KIB, 64, 64, 2, 16, 1024, 0, **_OLD),
        Architecture("sm_80", 64, 32, 164 * KIB, 163 * KIB, 64, 128, 32, 32, 2048, 1024, 128),
        Architecture("sm_86", 48, 16, 100 * KIB, 99 * KIB, 128, 64, 2, 16, 1024, 512),
        Architecture("sm_87", 48, 16, 164 * KIB, 163 * KIB, 128, 64, 2, 16, 2048, 1024),
        Architecture("sm_89", 48, 24, 100 * KIB, 99 * KIB, 128, 64, 2, 16, 1024, 512),
        Architecture("sm_90", 64, 32, 228 * KIB, 227 * KIB, 128, 128, 64, 32, 4096, 2048, 256),
        Architecture("sm_100", 64, 32, 228 * KIB, 227 * KIB, 128, 128, 64, 32, 8192, 4096, 128),
        Architecture("sm_120", 48, 24, 100 * KIB, 99 * KIB, 128, 64, 2, 16, 1024, 512),
    )
}


def architecture(name: str) -> Architecture:
    """The architecture of a name such as sm_90, 90 or 9.0. Raises NotFound with the closest name."""
    plain = "sm_" + name.lower().removeprefix("sm_").removeprefix("compute_").replace(".", "")
    if plain not in ARCHITECTURES:
        raise unknown("architecture", name, ARCHITECTURES)
    return ARCHITECTURES[plain]
