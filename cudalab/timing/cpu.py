"""Times on the CPU, by the wall clock."""

from __future__ import annotations

from collections.abc import Collection
from time import perf_counter

from cudalab.device.operands import Bound, Written
from cudalab.device.protocol import Device
from cudalab.timing.clock import Clock
from cudalab.timing.proof import Proof

SAMPLES = 5  # a round
SLOWER = 3.0  # see `Proof.meet`: a busy CPU makes any sample slower
SPAN = 100e-6  # seconds that a sample lasts at least, so that reading the clock does not count


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
    device: Device, bound: Bound, modes: Collection[str], notes: list[str], proof: Proof | None = None
) -> dict[str, Clock]:
    """Wall time; a short call is repeated until a sample lasts SPAN.

    With a proof each sample has other contents and a poisoned result. One sample of a round is verified, which one is
    drawn: a digest on the CPU takes longer than most calls.
    """
    own = isinstance(bound.output(), Written)
    repeat = 1 if own and bound.output().spent else min(1000, int(SPAN / _fastest(bound)) + 1)
    if proof:
        proof.slower = SLOWER

    def wall() -> list[float]:
        samples, met, verified = [], [], int(proof.contents.rng.integers(SAMPLES)) if proof else -1
        for i in range(SAMPLES):
            contents = 0
            if proof:
                device.poison(bound.output(), proof.contents.word() & 0xFF)
                contents = proof.change()
                met.append(contents)
            start = perf_counter()
            for _ in range(repeat):
                bound.run()
            samples.append((perf_counter() - start) / repeat)
            if proof and i == verified:
                proof.judge(contents, bound.output(), device.fingerprint(bound.output()))
        if proof:
            proof.meet(met, samples)
        return samples

    return {"wall": Clock(wall)} if "launch" in modes else {}


def calibrate(device: Device, modes: Collection[str]) -> dict[str, list[float]]:
    return {}


def _fastest(bound: Bound) -> float:
    """Seconds of the fastest of a few runs: the first run has cold caches and is many times slower."""
    found: list[float] = []
    while len(found) < 5 and sum(found) < 100 * SPAN:
        start = perf_counter()
        bound.run()
        found.append(max(perf_counter() - start, 1e-9))
    return min(found)
