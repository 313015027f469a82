"""The checks on a machine without a GPU: the wall clock against a loop of known length."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import numpy as np

from cudalab.base.errors import Unavailable
from cudalab.device.operands import Bound
from cudalab.device.protocol import Device
from cudalab.tools.selftest.check import Check, Outcome
from cudalab.tools.selftest.comparison import Comparison, clocks, medians

TOLERANCE = 0.03
LENGTHS = {"short": 50e-6, "long": 1e-3}  # seconds: one is repeated within a sample, one is not
FOOTPRINTS = {"small": 1 << 14, "large": 1 << 21}  # elements of float32
GPU_ONLY = (
    "known cycles",
    "host's clock",
    "known bytes",
    "wrong stream",
    "empty capture",
    "naive timing",
    "throttling",
    "A/A processes",
)


def checks(device: Device, compared: Comparison, no_gpu: str) -> Iterator[Check]:
    """The checks of the CPU, then those that need a GPU, which are skipped."""
    for name, seconds in LENGTHS.items():
        yield Check(
            f"known length, {name}",
            f"doubling the loop adds {seconds:g} s, within {100 * TOLERANCE:g} %",
            "the wall-clock engine divides, repeats and takes medians: each could be wrong",
            partial(known_length, device, seconds),
        )
    for name, elements in FOOTPRINTS.items():
        yield compared.check(name, partial(_addition, elements), 1 / len(FOOTPRINTS))
    yield compared.verdict()
    for name in GPU_ONLY:
        yield Check(name, "a GPU", "it shows whether a GPU's times can be trusted", partial(_no_gpu, no_gpu))


def known_length(device: Device, seconds: float) -> Outcome:
    """Time loops of one and of two lengths: a cost of both cancels in the difference."""
    loops = {n: Bound(partial(busy, n * seconds), lambda: None) for n in (1, 2)}
    found = medians({str(n): clocks(device, loop) for n, loop in loops.items()})
    measured = found["2"]["wall"] - found["1"]["wall"]
    off = measured / seconds - 1
    return Outcome(
        abs(off) <= TOLERANCE,
        f"measured {1e6 * measured:.2f} \u00b5s for {1e6 * seconds:g} \u00b5s, off by {100 * off:+.2f} %",
    )


def busy(seconds: float) -> None:
    """Keep the processor busy for `seconds` of another clock than the engine's."""
    clock, source = time.clock_gettime_ns, time.CLOCK_MONOTONIC_RAW
    end = clock(source) + round(1e9 * seconds)
    while clock(source) < end:
        pass


def _addition(elements: int) -> Bound:
    rng = np.random.default_rng(0)
    x, y, out = (rng.standard_normal(elements, dtype=np.float32) for _ in range(3))
    return Bound(lambda: np.add(x, y, out=out), lambda: out)


def _no_gpu(reason: str) -> Outcome:
    raise Unavailable(f"no GPU here: {reason}" if reason else "no GPU here")
