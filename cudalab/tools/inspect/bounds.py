"""How long a launch takes at least, by each thing that can be used up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from cudalab.tools.inspect.machine import Architecture, Card
from cudalab.tools.inspect.mix import Mix
from cudalab.tools.inspect.occupancy import Occupancy

L1 = 128  # bytes a cycle that an SM's L1 cache and shared memory deliver


@dataclass(frozen=True)
class Memory:
    """Bytes a second and where that number is from; `floor`: seconds of an empty kernel, if they were measured."""

    rate: float
    source: str
    floor: float = 0.0
    clock: float | None = None  # Hz at which the SMs ran


@dataclass(frozen=True)
class Bounds:
    """Seconds by the name of what bounds: memory, issue, one of the units, start or latency of blocks."""

    seconds: Mapping[str, float]
    memory: Memory

    @property
    def name(self) -> str:
        """What takes longest."""
        return max(self.seconds, key=lambda name: self.seconds[name])

    @property
    def predicted(self) -> float:
        return self.seconds[self.name]

    @property
    def computing(self) -> str:
        """What takes longest beside memory."""
        return max((n for n in self.seconds if n != "memory"), key=lambda name: self.seconds[name])


def bounds(
    on: Card, of: Architecture, memory: Memory, nbytes: int, mix: Mix, blocks: int, warps: int, resident: Occupancy
) -> Bounds:
    """Of a grid of `blocks` blocks of `warps` warps, all of whose threads execute `mix`, and move `nbytes` in all.

    Memory: every byte of the arrays once, at the rate of a copy. Units: the lanes that the busiest SM executes, at the
    unit's rate; `issue` is all instructions at one a cycle and partition. Blocks: those that are resident live for at
    least the card's `life`, and no more start than one every `start`.
    """
    cycles = {"issue": mix.total / of.issue, **_units(of, mix)}
    lanes = 32 * warps * ceil(blocks / on.sms)
    clock = memory.clock or on.clock
    found = {"memory": nbytes / memory.rate}
    found |= {name: memory.floor + lanes * c / clock for name, c in cycles.items() if c}
    if on.start:
        found["start"] = memory.floor + blocks * on.start
    if on.life and resident.blocks and mix.moved("LDG"):
        found["latency"] = memory.floor + max(blocks / (on.sms * resident.blocks), 1) * on.life
    return Bounds(found, memory)


def _units(of: Architecture, mix: Mix) -> dict[str, float]:
    """Cycles of an SM for one lane, by unit. Integer multiplications share the float32 units, of which half can."""
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
