"""The least time that physics allows a case, and the verdict on a time below it.

Four limits hold on a GPU; the largest counts. bench/METHOD.md explains them.

- Bytes: what must cross the memory bus, at the bus's rate. All of the inputs must in a cold run; of the output as many
  bytes as the L2 cache holds may stay there. A hot run may find as many bytes in L2 as L2 holds.
- L2: the larger of what is read and what is written passes between L2 and the multiprocessors, so many bytes a cycle.
- Operations: `flops` of the spec, at the rate of the card's fastest unit for the dtype.
- Start: a run takes at least as long as an empty kernel, or an empty node of a graph, took in the same session.

A host time (call, api, wall) has no limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cudalab.base import numbers, stats
from cudalab.results import record
from cudalab.results.record import Case, Machine
from cudalab.spec.architecture import ARCHITECTURES, Architecture

COLD = ("cold", "graph_cold")
_NODE = "empty graph node"
EMPTY = {"cold": "empty kernel", "hot": _NODE, "graph": _NODE, "graph_cold": _NODE}  # of the calibration, by kind
KINDS = tuple(EMPTY)  # of the times that have a limit
NEARER = 4  # times that data in L2 may be nearer than in memory: the ratio of the latencies, with room
OVERLAP = 0.7  # share of a cold run that one takes at least in a graph, where its start and end overlap with others
MEMORY = 0.5  # share of the bus's rate that every kernel is thought to miss by no more
L2_RATE = 64  # bytes a cycle that an SM gets from L2 at most, and as many that it writes; up to sm_90 and of sm_120
L2_RATES = {"sm_100": 128}  # not published; a higher rate refuses less
BALANCE = 16  # operations a byte: an H200 does 14 in float32 outside its tensor cores in the time of a byte
RESOLVED = 1e-10  # seconds: samples nearer to one another are equal

Calibration = Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Limit:
    """A least time, and the formula behind it with its numbers."""

    seconds: float
    why: str


def limit(case: Case, kind: str, machine: Machine, calibration: Calibration) -> Limit | None:
    """The largest of the limits of a kind of time; None where none is known."""
    if machine.device != "cuda" or kind not in KINDS:
        return None
    found = [
        _bytes(case, kind, machine), _cache(case, machine), _operations(case, machine), _start(kind, calibration)
    ]  # fmt: skip
    return max((one for one in found if one), key=lambda one: one.seconds, default=None)


def computes(case: Case, machine: Machine) -> bool:
    """Whether operations and not bytes are what the task asks of a card: a copy of its bytes is then no yardstick.

    Where the card's rates are not known, from BALANCE operations a byte on.
    """
    operations, rate = _operations(case, machine), bus(machine)
    if operations and rate:
        return operations.seconds > case.nbytes / rate
    return case.flops > BALANCE * case.nbytes > 0


def share(case: Case, kind: str, machine: Machine, calibration: Calibration) -> float | None:
    """The limit divided by the median of this kind: 1 is as fast as physics allows. None where either is missing."""
    time, least = case.median(kind), limit(case, kind, machine, calibration)
    return least.seconds / time if time and least else None


def refuse(case: Case, machine: Machine, calibration: Calibration) -> None:
    """Make a case IMPOSSIBLE whose median of some kind is below its limit: it loses all its times.

    Single samples below the limit beside a median above it are a note: a clock was disturbed, and the median stands.
    """
    for kind in KINDS:
        least, rounds = limit(case, kind, machine, calibration), case.times.get(kind)
        if not least or not rounds:
            continue
        if (median := stats.median(rounds)) < least.seconds:
            case.lose_times()
            case.status = record.IMPOSSIBLE
            case.reason = (
                f"{_said(kind)} {_us(median)}, below the {_us(least.seconds)} that physics allows: {least.why}"
            )
            return
        samples = stats.flat(rounds)
        if below := int((samples < least.seconds).sum()):
            case.notes.append(
                f"{below} of {len(samples)} {_said(kind)} samples are below the {_us(least.seconds)} that physics "
                "allows; their median is not"
            )
    if why := found_answers(case, machine, calibration):
        case.lose_times()
        case.status, case.reason = record.IMPOSSIBLE, why
        return
    case.notes += [note for note in _unknown(case, machine) if case.times and note not in case.notes]


def _bytes(case: Case, kind: str, machine: Machine) -> Limit | None:
    rate = bus(machine)
    if not rate or not case.nbytes:
        return None
    cache = number(machine, "l2_bytes")
    kept = min(case.nbytes if case.written is None or kind not in COLD else case.written, cache)
    must = case.nbytes - kept
    what = "output" if kind in COLD else "data"
    stays = f" ({numbers.amount(kept)}B of the {what} may stay in L2)" if kept else ""
    clock, width = number(machine, "memory_clock_hz"), number(machine, "memory_bus_bits")
    return Limit(
        must / rate,
        f"{numbers.amount(must)}B must cross the memory bus{stays} at {numbers.amount(rate)}B/s, the memory's "
        f"{numbers.significant(clock / 1e6, 4)} MHz x {width:.0f} bits x 2 / 8. Is the work done in each run? If "
        "the kernel need not move all bytes, give bytes= in its spec",
    )


def _cache(case: Case, machine: Machine) -> Limit | None:
    of, sms, clock = _architecture(machine), number(machine, "multiprocessors"), number(machine, "sm_clock_hz")
    if not (of and sms and clock):
        return None
    written = case.nbytes // 2 if case.written is None else case.written  # unknown: the division that forgives most
    must, a_cycle = max(case.nbytes - written, written), L2_RATES.get(of.name, L2_RATE)
    return Limit(
        must / (a_cycle * sms * clock),
        f"{numbers.amount(must)}B must pass between L2 and {sms:.0f} multiprocessors at {a_cycle} B x "
        f"{numbers.significant(clock / 1e6, 4)} MHz each. Is the work done in each run?",
    )


def found_answers(case: Case, machine: Machine, calibration: Calibration) -> str:
    """Why the times of runs that share contents cannot stand beside the cold time; an empty text if they can.

    The runs of one batch or graph cannot be kept from each other's results. A run that finds its answer there, and
    copies it, saves all but the copy. What warm caches save is limited: the launch (an empty kernel), the bytes' way
    from memory, and a factor of NEARER for what waits for data. A time below that is refused, so that no more can be
    gained by finding answers. Both times are known to within their intervals; the ends that are nearest count, so that
    noise in the cold time refuses nothing.
    """
    empty, rate = calibration.get(EMPTY["cold"]), bus(machine)
    timed = case.timing("cold")
    if not (timed and empty and rate):
        return ""
    cold = timed.interval[0]
    launch = stats.median([empty])
    warm = (cold - launch - case.nbytes / (MEMORY * rate)) / NEARER
    for kind, least in (("hot", warm), ("graph", warm), ("graph_cold", OVERLAP * (cold - launch))):
        other = case.timing(kind)
        if other and other.interval[1] < least:
            return (
                f"a run takes {_us(other.median)} {_said(kind)} and {_us(timed.median)} cold; caches explain a time of "
                f"{_us(least)} or more. Do runs reuse earlier results?"
            )
    return ""


def bus(machine: Machine) -> float:
    """Bytes per second of the memory bus, by the attributes of the device: two transfers a clock. 0: not told."""
    return 2 * number(machine, "memory_clock_hz") * number(machine, "memory_bus_bits") / 8


def _operations(case: Case, machine: Machine) -> Limit | None:
    found = rate(machine, case.dtype) if case.flops else None
    if not found:
        return None
    a_cycle, unit, sms, clock = found
    peak = a_cycle * sms * clock
    return Limit(
        case.flops / peak,
        f"{numbers.amount(case.flops)}FLOP (flops= of the spec) at {numbers.three(peak / 1e12)} TFLOP/s, {unit} of "
        f"{sms:.0f} multiprocessors x {a_cycle:,} a cycle x {numbers.significant(clock / 1e6, 4)} MHz",
    )


def rate(machine: Machine, dtype: str) -> tuple[int, str, float, float] | None:
    """(operations a cycle and SM, unit, SMs, highest clock) of the fastest unit for a dtype; None where unknown."""
    of = _architecture(machine)
    found = of.fastest(dtype) if of else None
    sms, clock = number(machine, "multiprocessors"), number(machine, "sm_clock_hz")
    return (*found, sms, clock) if found and sms and clock else None


def _architecture(machine: Machine) -> Architecture | None:
    return ARCHITECTURES.get(f"sm_{str(machine.details.get('compute_capability', '')).replace('.', '')}")


def _start(kind: str, calibration: Calibration) -> Limit | None:
    samples = calibration.get(EMPTY[kind])
    if not samples:
        return None
    least = min(samples) - step(samples)
    return Limit(
        least,
        f"an {EMPTY[kind]} took at least {_us(min(samples))} here, in steps of {_us(step(samples))}. "
        "Is a clock wrong, or was the work left out?",
    )


def step(samples: Sequence[float]) -> float:
    """The clock's resolution as its samples show it: the smallest difference between two of them, or 0."""
    apart = np.diff(np.unique(np.asarray(samples, np.float64)))
    return float(min(apart[apart > RESOLVED], default=0.0))


def _unknown(case: Case, machine: Machine) -> Iterator[str]:
    """Limits that a GPU should have and that are not known."""
    if machine.device != "cuda":
        return
    if case.nbytes and not bus(machine):
        yield "no limit by bytes: the driver does not report the memory's clock and bus width"
    if case.flops and not rate(machine, case.dtype):
        known = _architecture(machine)
        why = f"compute capability {machine.details.get('compute_capability', '?')} is not known here"
        yield f"no limit by operations: {f'no peak rate is known for {case.dtype}' if known else why}"


def number(machine: Machine, name: str) -> float:
    """A detail of the machine, 0 if it is not told."""
    value = machine.details.get(name, 0)
    return float(value) if isinstance(value, (int, float)) else 0.0


def _said(kind: str) -> str:
    return kind.replace("_", " ")


def _us(seconds: float) -> str:
    return f"{numbers.three(1e6 * seconds)} \u00b5s"
