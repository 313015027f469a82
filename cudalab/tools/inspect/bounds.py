"""How many blocks an SM holds at once, and how long a launch takes at least, by each resource that it uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from cudalab.spec.architecture import Architecture
from cudalab.tools.inspect.cards import Card
from cudalab.tools.inspect.instruction_mix import Mix
from cudalab.tools.inspect.traced_launch import TracedLaunch

L1 = 128  # bytes per cycle that the L1 cache and the shared memory of an SM deliver


@dataclass(frozen=True)
class Occupancy:
    """Resident blocks and warps of one SM; `limit` names the resource that is used up first."""

    blocks: int
    warps: int
    most: int  # warps that an SM can hold
    limit: str  # registers, shared memory, warps or blocks

    @property
    def share(self) -> float:
        return self.warps / self.most


def occupancy(of: Architecture, threads: int, registers: int, shared: int) -> Occupancy:
    """For blocks of `threads` threads with `registers` registers each and `shared` bytes (static and dynamic).

    The rules are those of NVIDIA's occupancy calculator (cuda_occupancy.h in the CUDA toolkit). The L1 cache gives the
    kernel as much shared memory as it can use.
    """
    warps = -(-threads // 32)
    a_warp = _round_up(registers * 32, of.registers_unit)
    per_partition = of.registers // of.partitions // a_warp if a_warp else of.warps
    fits = a_warp * _round_up(warps, of.partitions) <= of.registers
    taken = _round_up(shared + of.shared_reserved, of.shared_unit)
    limits = {
        "warps": of.warps // warps if warps else 0,
        "blocks": of.blocks,
        "registers": per_partition * of.partitions // warps if fits and warps else 0,
        "shared memory": 0 if shared > of.shared_block else of.shared // taken if taken else of.blocks,
    }
    limit = min(limits, key=lambda name: limits[name])
    return Occupancy(limits[limit], limits[limit] * warps, of.warps, limit)


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


@dataclass(frozen=True)
class Memory:
    """The rate of the memory in bytes per second, and the conditions of the run that measured it."""

    rate: float
    source: str
    floor: float = 0.0  # seconds that an empty kernel takes
    clock: float | None = None  # of the SMs, in Hz


@dataclass(frozen=True)
class Bounds:
    """Least seconds by resource: memory, issue, a unit of the SM, start of blocks, latency of blocks."""

    seconds: Mapping[str, float]
    memory: Memory

    @property
    def name(self) -> str:
        """The resource that takes longest."""
        return max(self.seconds, key=lambda name: self.seconds[name])

    @property
    def predicted(self) -> float:
        return self.seconds[self.name]

    @property
    def computing(self) -> str:
        """The resource other than memory that takes longest."""
        return max((n for n in self.seconds if n != "memory"), key=lambda name: self.seconds[name])


def bounds(on: Card, of: Architecture, memory: Memory, launch: TracedLaunch, mix: Mix, resident: Occupancy) -> Bounds:
    """For a launch each of whose threads executes `mix`.

    Memory: every byte of the arrays moves once, at the memory's rate. Issue: one instruction per cycle and partition.
    Units: the lanes that the busiest SM executes, at the unit's rate. Latency: each wave of resident blocks takes at
    least the card's `life`. Start: blocks start one after another, each after the card's `start`.
    """
    cycles = {"issue": mix.total / of.issue, **_units(of, mix)}
    lanes = 32 * launch.warps * ceil(launch.blocks / on.sms)
    clock = memory.clock or on.clock
    found = {"memory": launch.nbytes / memory.rate}
    found |= {name: memory.floor + lanes * c / clock for name, c in cycles.items() if c}
    if on.start:
        found["start"] = memory.floor + launch.blocks * on.start
    if on.life and resident.blocks and mix.moved("LDG"):
        found["latency"] = memory.floor + max(launch.blocks / (on.sms * resident.blocks), 1) * on.life
    return Bounds(found, memory)


def _units(of: Architecture, mix: Mix) -> dict[str, float]:
    """Cycles of an SM for one lane, by unit. Half of the float32 units also execute the integer multiplications."""
    n = mix.pipes
    fp32, multiply = n.get("fp32", 0), n.get("multiply", 0)
    moved = mix.moved("LDG", "STG", "LD", "ST", "LDS", "STS", "LDL", "STL", "LDGSTS")
    return {
        "fp32": max((fp32 + multiply) / of.fp32, multiply / of.multiply),
        "alu": n.get("alu", 0) / of.alu,
        "special": n.get("special", 0) / of.special,
        "fp16x2": n.get("fp16x2", 0) / of.fp16x2,
        "fp64": n.get("fp64", 0) / of.fp64,
        "shuffle": n.get("shuffle", 0) / of.shuffle,
        "load/store": max(n.get("load/store", 0) / of.load_store, moved / L1),
    }
