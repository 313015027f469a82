"""How many blocks of a launch an SM holds at once, and what limits that."""

from __future__ import annotations

from dataclasses import dataclass

from cudalab.tools.inspect.machine import Architecture


@dataclass(frozen=True)
class Occupancy:
    """Resident blocks and warps of one SM; `limit` names what is used up first."""

    blocks: int
    warps: int
    most: int  # warps that an SM can hold
    limit: str  # registers, shared memory, warps or blocks

    @property
    def share(self) -> float:
        return self.warps / self.most


def occupancy(of: Architecture, threads: int, registers: int, shared: int) -> Occupancy:
    """Of blocks of so many threads, registers a thread and bytes of shared memory (static and dynamic).

    The rules are those of NVIDIA's occupancy calculator (cuda_occupancy.h in the CUDA toolkit), with as much of the
    L1 cache given to shared memory as the kernel can use.
    """
    warps = -(-threads // 32)
    a_warp = _up(registers * 32, of.registers_unit)
    per_partition = of.registers // of.partitions // a_warp if a_warp else of.warps
    fits = a_warp * _up(warps, of.partitions) <= of.registers
    taken = _up(shared + of.shared_reserved, of.shared_unit)
    limits = {
        "warps": of.warps // warps if warps else 0,
        "blocks": of.blocks,
        "registers": per_partition * of.partitions // warps if fits and warps else 0,
        "shared memory": 0 if shared > of.shared_block else of.shared // taken if taken else of.blocks,
    }
    limit = min(limits, key=lambda name: limits[name])
    return Occupancy(limits[limit], limits[limit] * warps, of.warps, limit)


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
