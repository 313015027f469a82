"""Times in a burst and under load: right after a rest, and once clock and power have settled under the same work."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean, median
from time import perf_counter, sleep

from cudalab.device.gpu import Gpu
from cudalab.timing.clock import Clock
from cudalab.timing.load import Load
from cudalab.timing.work import Repeated

REST = 0.5  # seconds without work before a burst
BURST = 0.01  # seconds of load before the samples of a burst
READ = 0.1  # seconds between two readings of clock and power
SPAN = 1.0  # seconds; two such spans in a row are compared
CLOCK, POWER = 0.01, 0.02  # steady: their means differ by no more than these shares
LIMIT = 8.0  # seconds after which a load ends, steady or not
WIDTH = 0.02  # relative width at which the median of a process is known
BUDGET = 20.0  # seconds of both for each variant, in all processes of a run
UNSTEADY = (
    f"sustained: after {LIMIT:g} s of load the SM clock or the power still moved by more than {100 * CLOCK:g} % and "
    f"{100 * POWER:g} % from second to second"
)
UNSEEN = f"sustained: measured after {LIMIT:g} s of load; the SM clocks are not seen: {{}}"

Reading = tuple[float, float, float]  # seconds, hertz of the SMs, watts


def steady(readings: list[Reading], now: float) -> bool:
    """Whether clock and power of the last SPAN seconds are those of the SPAN before."""
    last = [r for r in readings if now - SPAN <= r[0]]
    before = [r for r in readings if now - 2 * SPAN <= r[0] < now - SPAN]
    if not last or not before or readings[0][0] > now - 2 * SPAN:
        return False
    (hz, was_hz), (watts, was_watts) = ((fmean(r[i] for r in last), fmean(r[i] for r in before)) for i in (1, 2))
    return abs(hz - was_hz) <= CLOCK * was_hz and abs(watts - was_watts) <= POWER * was_watts


def settle(
    read: Callable[[], dict[str, float]], advance: Callable[[], object], now: Callable[[], float] = perf_counter
) -> tuple[bool, list[Reading]]:
    """Load until clock and power are `steady`, or for LIMIT seconds; returns whether they are, and what was read."""
    start, readings = now(), list[Reading]()
    due = start
    while (at := now()) - start < LIMIT:
        advance()
        if at < due:
            continue
        due = at + READ
        if found := read():
            readings.append((at, found["sm_hz"], found["power_w"]))
            if steady(readings, at):
                return True, readings
    return False, readings


def sustained_clocks(
    device: Gpu, work: Repeated, once: float, notes: list[str], alive: Callable[[], object] = lambda: None
) -> dict[str, Clock]:
    """Clocks of `burst` and `sustained`: seconds a run, of runs of `work` back to back, whose results are verified.

    `alive`: as `Load`'s.
    """
    load = Load(device.stream, work.repeat, once * work.runs, work.runs, alive)
    seen: dict[str, list[float]] = {}

    def see(**values: float) -> None:
        for name, value in values.items():
            seen.setdefault(name, []).append(value)

    def end() -> None:
        load.stop()
        work.run()
        work.verify()

    def clock_now(name: str) -> None:
        if found := device.nvml.under_load():
            see(**{name: found["sm_hz"]})

    def burst() -> list[float]:
        work.before()
        device.stream.synchronize()
        sleep(REST)
        load.keep(BURST)
        taken = load.samples(lambda: clock_now("burst_sm_hz"))
        end()
        return taken

    def sustained() -> list[float]:
        work.before()
        start = perf_counter()
        settled, readings = settle(device.nvml.under_load, load.advance)
        see(sustained_load_s=perf_counter() - start)
        taken = load.samples(lambda: clock_now("sustained_sm_hz"))
        if last := [watts for at, _, watts in readings if at >= readings[-1][0] - SPAN]:
            see(sustained_w=fmean(last))
        if readings and not settled and UNSTEADY not in notes:
            notes.append(UNSTEADY)
        end()
        return taken

    if device.nvml.missing:
        notes.append(UNSEEN.format(device.nvml.missing))
    return {
        "burst": Clock(burst, width=WIDTH, mode="sustained", budget=BUDGET / 2),
        "sustained": Clock(
            sustained, width=WIDTH, mode="sustained", budget=BUDGET / 2,
            quantities=lambda: {name: median(values) for name, values in seen.items()},
        ),
    }  # fmt: skip
