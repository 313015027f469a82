"""Times: `clocks` and `calibrate` measure what runs on a device; `rounds` takes the samples.

`gpu.py` measures by events on the device's stream (`events.py`) and by graphs (`graph.py`), `cpu.py` by the wall clock.
`load.py` keeps a GPU busy, for `energy.py` and `sustained.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from cudalab.device.operands import Bound
from cudalab.device.protocol import Device
from cudalab.timing.clock import Clock
from cudalab.timing.proof import Proof

CLEAN, DIRTY = "clean", "dirty"
FLUSHES = (
    CLEAN,
    DIRTY,
)  # what L2 is full of before a cold run: lines as in memory, or lines that are yet to be written


def prepare(device: Device, flush: str = CLEAN) -> None:
    """Allocate what the clocks of a device need: a lack of memory then shows here, and not at some variant.

    `flush` says what L2 is full of before a cold run: "clean" or "dirty" lines.
    """
    _of(device).prepare(device, flush)


def warm_up(device: Device, bound: Bound) -> float:
    """Run until lazy loading and compilation are over; returns the seconds of the first run."""
    return float(_of(device).warm_up(device, bound))


def again(device: Device, bound: Bound) -> Bound:
    """The same, for runs one after another: where a run uses up what it finds, the next one makes it new before."""
    if device.kind != "cuda":
        return bound
    from cudalab.timing.work import repeatable

    return replace(bound, run=repeatable(device, bound))  # type: ignore[arg-type]


def clocks(
    device: Device, bound: Bound, modes: Collection[str], notes: list[str], proof: Proof | None = None,
    alive: Callable[[], object] = lambda: None,
) -> dict[str, Clock]:  # fmt: skip
    """The clocks of these modes, by what they measure; appends to `notes` what a reader of the times must know.

    With a `proof` no timed run can know its inputs, and each result is verified. `alive` is called several times a
    second in samples that last seconds.
    """
    found: dict[str, Clock] = _of(device).clocks(device, bound, modes, notes, proof, alive)
    return found


def calibrate(device: Device, modes: Collection[str]) -> dict[str, list[float]]:
    """Seconds that the clocks themselves cost, by name: what they measure around an empty piece of work."""
    found: dict[str, list[float]] = _of(device).calibrate(device, modes)
    return found


def _of(device: Device) -> Any:
    """The module that measures on this kind of device."""
    if device.kind == "cuda":
        from cudalab.timing import gpu

        return gpu
    from cudalab.timing import cpu

    return cpu
