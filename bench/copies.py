"""Times every form of copy that the lab tries for its ceiling: python bench/copies.py FILE.json [SECONDS]

The forms of cudalab/device/copies.cu and the driver's copy, cold, at three sizes: as many bytes as gelu moves in
float32 at small, large and xlarge. All forms of a size are timed in the same shuffled rounds (SECONDS of samples each,
default 1), as `cudalab bench` does; then the short trial of `cudalab.timing.ceiling` chooses among them, TRIALS times.
It prints a table and writes all samples to FILE.json. A form that fails, or copies wrongly, costs its row and is named.
Needs a GPU and nvcc.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import Any

from cudalab.base import numbers, stats
from cudalab.base.errors import message_of
from cudalab.device import copy, machine
from cudalab.device.gpu import Gpu
from cudalab.device.open import open_device
from cudalab.device.operands import Bound
from cudalab.timing import ceiling, rounds
from cudalab.timing.clock import Clock
from cudalab.timing.events import COLD, affordable
from cudalab.timing.gpu import timer_of
from cudalab.timing.work import Unproven

SIZES = {"small": 1204224, "large": 38535168, "xlarge": 1233125376}  # bytes: half read, half written
TRIALS = 10


def right_ones(device: Gpu, nbytes: int) -> tuple[dict[str, Bound], dict[str, str]]:
    """The forms that copy what they should, and why the others do not."""
    right: dict[str, Bound] = {}
    failed: dict[str, str] = {}
    for form, bound in device.copies(nbytes).items():
        try:
            if ceiling.copies(device, bound):
                right[form] = bound
            else:
                failed[form] = "does not run here, or copies wrongly"
        except Exception as error:
            failed[form] = message_of(error)
    return right, failed


def measured(device: Gpu, bounds: dict[str, Bound], seconds: float) -> dict[str, rounds.Samples]:
    """Cold samples of each form, in shuffled rounds."""
    timer = timer_of(device)

    def clock(bound: Bound) -> Clock:
        n = affordable(COLD, timer.once(bound.run, timer.blocking))
        return Clock(lambda: timer.cold(Unproven(bound.run), n, timer.blocking), width=0.001)

    return rounds.take({form: {"cold": clock(bound)} for form, bound in bounds.items()}, seed=0, budget=seconds)


def chosen(device: Gpu, bounds: dict[str, Bound]) -> dict[str, int]:
    """How often the short trial takes each form."""
    return dict(Counter(ceiling.fastest(ceiling.trial(device, bounds)) for _ in range(TRIALS)))


def table(name: str, nbytes: int, taken: dict[str, list[list[float]]], peak: float) -> list[str]:
    """Lines for people: the fastest form first, each beside the usual one."""
    usual = taken.get(copy.USUAL)
    lines = [f"{name}: {nbytes / 1e6:,.1f} MB", f"  {'form':24}{'cold us':>10}{'95 % interval':>20}{'GB/s':>8}"
             f"{'% bus':>8}  usual / this"]  # fmt: skip
    for form in sorted(taken, key=lambda form: stats.median(taken[form])):
        median, (low, high) = stats.median(taken[form]), stats.median_interval(taken[form])
        ratio = stats.speedup(stats.Timing(usual), stats.Timing(taken[form]), elsewhere=False) if usual else None
        over = numbers.with_ends(ratio) if ratio else "-"
        lines.append(
            f"  {form:24}{1e6 * median:10.3f}{f'{1e6 * low:.3f} to {1e6 * high:.3f}':>20}{nbytes / median / 1e9:8.0f}"
            f"{100 * nbytes / median / peak if peak else 0:8.1f}  {over}"
        )
    return lines


def main() -> None:
    path, seconds = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 1.0
    device, _ = open_device("cuda")
    assert isinstance(device, Gpu)
    found: dict[str, Any] = {
        "machine": {},
        "forms": {name: form.says for name, form in copy.FORMS.items()},
        "sizes": {},
    }
    try:
        here = machine.describe(device)
        found["machine"] = {"name": here.name, "details": here.details, "versions": here.versions}
        peak = 2 * float(here.details["memory_clock_hz"]) * float(here.details["memory_bus_bits"]) / 8
        for name, nbytes in SIZES.items():
            one: dict[str, Any] = {"nbytes": nbytes}
            found["sizes"][name] = one
            try:
                bounds, one["failed"] = right_ones(device, nbytes)
                taken = measured(device, bounds, seconds)
                one["failed"] |= {form: t.error for form, t in taken.items() if t.error}
                one["cold"] = {form: t.rounds["cold"] for form, t in taken.items() if not t.error}
                one["chosen"] = chosen(device, {form: bounds[form] for form in one["cold"]})
                one["condition"] = device.condition()
                print(*table(name, nbytes, one["cold"], peak), sep="\n")
                print(f"  the short trial takes: {one['chosen']}")
            except Exception as error:
                one["error"] = message_of(error)
                print(f"{name}: {message_of(error)}")
            for form, why in one.get("failed", {}).items():
                print(f"  {form}: {why}")
            bounds = {}
            device.release()
    finally:
        with open(path, "w") as out:
            json.dump(found, out, indent=1)
        device.close()


if __name__ == "__main__":
    main()
