"""Times on the CPU, by the wall clock."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from cudalab.base import stats
from cudalab.base.errors import LaunchError
from cudalab.device.arrays import as_plain
from cudalab.device.operands import Bound, Written, pieces
from cudalab.device.protocol import Device
from cudalab.timing.clock import Clock
from cudalab.timing.proof import CPU, NOT_CONFIRMED, Proof

SAMPLES = 5  # a round
SPAN = 100e-6  # seconds that a sample lasts at least, so that reading the clock does not count
WARM, WARM_SPAN = 20, 5e-3  # runs, and seconds, before a single run: on a busy CPU a library's other threads wake late
SEEN = 64  # elements of each result that are looked at as soon as the clock stops
LATE = "its result was still being written after it had returned: a thread, or another process, goes on with the work"


def prepare(device: Device, flush: str = "") -> None:
    """The wall clock needs nothing, and flushes nothing."""


def warm_up(device: Device, bound: Bound) -> float:
    start = perf_counter()
    bound.run()
    first = perf_counter() - start
    for _ in range(2):
        bound.run()
    return first


def clocks(
    device: Device, bound: Bound, modes: Collection[str], notes: list[str], proof: Proof | None = None,
    alive: Callable[[], object] = lambda: None,
) -> dict[str, Clock]:  # fmt: skip
    """Wall time; a short call is repeated until a sample lasts SPAN.

    With a proof each sample has other contents and a poisoned result. One sample of a round is verified, which one is
    drawn: a digest on the CPU takes longer than most calls.
    """
    output = bound.output()
    spent = isinstance(output, Written) and output.spent
    repeat = 1 if spent else min(1000, int(SPAN / _fastest(bound)) + 1)
    if proof:
        proof.limits = CPU

    def renew() -> int:
        """Poison the result and change the contents; returns their number."""
        assert proof
        device.poison(bound.output(), proof.contents.word() & 0xFF)
        return proof.change()

    def verifier(contents: int) -> Callable[[Any], None]:
        assert proof
        where, judge = proof.contents.rng.random(SEEN), proof.judge

        def verify(result: Any) -> None:
            seen = _seen(result, where)  # at once: a thread may be ahead of a digest
            judge(contents, result, device.fingerprint(result), "wall")
            if _seen(result, where) != seen:
                raise LaunchError(LATE)

        return verify

    def wall() -> list[float]:
        if not proof:
            return [_timed(bound, repeat) / repeat for _ in range(SAMPLES)]
        samples, met, verified = [], [], int(proof.contents.rng.integers(SAMPLES))
        for i in range(SAMPLES):
            met.append(renew())
            verify = verifier(met[-1]) if i == verified else _unseen
            samples.append(_timed(bound, repeat, verify) / repeat)
        proof.meet(met, samples)
        return samples

    def fresh() -> float:
        assert proof
        proof.contents.load(0)
        end = perf_counter() + WARM_SPAN
        for _ in range(1 if spent else WARM):
            bound.run()
            if perf_counter() > end:
                break
        return _timed(bound, 1, verifier(renew()))

    def usual() -> float:
        renew()
        return _timed(bound, repeat) / repeat

    def confirm(rounds: Sequence[Sequence[float]]) -> None:
        if proof and not proof.confirm(fresh, stats.median(rounds), usual):
            notes.append(NOT_CONFIRMED)

    return {"wall": Clock(wall, confirm=confirm)} if "launch" in modes else {}


def calibrate(device: Device, modes: Collection[str]) -> dict[str, list[float]]:
    return {}


def _unseen(result: Any) -> None:
    """Verifies nothing."""


def _timed(bound: Bound, repeat: int, verify: Callable[[Any], None] = _unseen) -> float:
    """Seconds of so many runs, and of asking for the last result, which `verify` gets."""
    start = perf_counter()
    for _ in range(repeat):
        bound.run()
    result = bound.output()
    taken = perf_counter() - start
    verify(result)
    return taken


def _seen(result: Any, where: np.ndarray) -> list[bytes]:
    """The bytes of some elements of each result, at these places from 0 to 1."""
    flat = [as_plain(piece).reshape(-1) for piece in pieces(result)]  # type: ignore[union-attr]
    return [array[(where * array.size).astype(np.intp)].tobytes() if array.size else b"" for array in flat]


def _fastest(bound: Bound) -> float:
    """Seconds of the fastest of a few runs: the first run has cold caches and is many times slower."""
    found: list[float] = []
    while len(found) < 5 and sum(found) < 100 * SPAN:
        start = perf_counter()
        bound.run()
        found.append(max(perf_counter() - start, 1e-9))
    return min(found)
