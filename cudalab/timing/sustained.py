"""Times in a burst and under load: right after a rest, and once clock and power have settled under the same work."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from statistics import fmean, median
from time import perf_counter, sleep

from cudalab.device.gpu import Gpu
from cudalab.timing.clock import LOADED, Clock
from cudalab.timing.load import REUSED, Beside, Load
from cudalab.timing.work import Repeated

REST = 0.5  # seconds without work before a burst
BURST = 0.01  # seconds of load before the samples of a burst
READ = 0.1  # seconds between two readings of clock and power
SPAN = 1.0  # seconds; two such spans in a row are compared
CLOCK, POWER = 0.01, 0.02  # steady: their means differ by no more than these shares
LIMIT = 8.0  # seconds after which a load ends, steady or not
WIDTH = 0.02  # relative width at which the median of a process is known
BUDGET = LOADED["sustained"]  # seconds of both for each variant, in all processes of a run
UNSTEADY = (
    f"sustained: after {LIMIT:g} s of load the SM clock or the power still moved by more than {100 * CLOCK:g} % and "
    f"{100 * POWER:g} % from second to second"
)
UNSEEN = f"sustained: measured after {LIMIT:g} s of load; neither the SM clock nor the power is seen: {{}}"
HALF = "sustained: the {} is not seen: {}"
SHARES = {"sm_hz": CLOCK, "power_w": POWER}
WHERE = {"burst": "in a burst", "sustained": "under load"}
NAMES = {"sm_hz": "SM clock", "power_w": "power"}

Reading = tuple[float, dict[str, float]]  # seconds, and of SHARES what is told


def steady(readings: list[Reading], now: float) -> bool:
    """Whether clock and power of the last SPAN seconds, or what is told of them, are those of the SPAN before."""
    last = [found for at, found in readings if now - SPAN <= at]
    before = [found for at, found in readings if now - 2 * SPAN <= at < now - SPAN]
    if not last or not before or readings[0][0] > now - 2 * SPAN:
        return False
    told = [name for name in SHARES if all(name in found for found in (*last, *before))]
    means = {name: (fmean(r[name] for r in last), fmean(r[name] for r in before)) for name in told}
    return bool(told) and all(abs(mean - was) <= SHARES[name] * was for name, (mean, was) in means.items())


def settle(
    read: Callable[[], dict[str, float]], advance: Callable[[], object], now: Callable[[], float] = perf_counter
) -> tuple[bool, list[Reading]]:
    """Load until clock and power, or what `read` tells of them, are `steady`, or for LIMIT seconds.

    Returns whether they are, and what was read.
    """
    start, readings = now(), list[Reading]()
    due = start
    while (at := now()) - start < LIMIT:
        advance()
        if at < due:
            continue
        due = at + READ
        if found := {name: value for name, value in read().items() if name in SHARES}:
            readings.append((at, found))
            if steady(readings, at):
                return True, readings
    return False, readings


def remarks(settled: bool, readings: list[Reading], why: Callable[..., str]) -> list[str]:
    """What a reader must know of a load; `why` gives the reason why values of such names are not told."""
    if not readings:
        return [UNSEEN.format(why(*SHARES) or "NVML tells neither")]
    told = {name for _, found in readings for name in found}
    unseen = [HALF.format(NAMES[name], why(name) or "NVML does not tell it") for name in SHARES if name not in told]
    return unseen + ([] if settled else [UNSTEADY])


def sustained_clocks(
    device: Gpu, work: Repeated, hot: Callable[[], float], once: float, notes: list[str], reused: float = REUSED,
    alive: Callable[[], object] = lambda: None,
) -> dict[str, Clock]:  # fmt: skip
    """Clocks of `burst` and `sustained`: seconds a run, of runs of `work` back to back, whose results are verified.

    `once` is the time of one run, roughly. `hot` and `reused`: as `Beside`'s. `alive`: as `Load`'s.
    """
    # Apart: looks at NVML let the host run further ahead, and a burst's samples begin after what it has enqueued.
    short, long = (Load(device.stream, work.repeat, once * work.runs, work.runs, alive) for _ in WHERE)
    seen: dict[str, list[float]] = {}
    beside = {kind: Beside(hot, where, notes, reused) for kind, where in WHERE.items()}

    def see(**values: float) -> None:
        for name, value in values.items():
            seen.setdefault(name, []).append(value)

    def end(load: Load) -> None:
        load.stop()
        work.run()
        work.verify()

    def clock_now(name: str) -> None:
        if (hertz := device.nvml.under_load().get("sm_hz")) is not None:
            see(**{name: hertz})

    def burst() -> list[float]:
        beside["burst"].begin()
        work.before()
        device.stream.synchronize()
        sleep(REST)
        short.keep(BURST)
        taken = short.samples(lambda: clock_now("burst_sm_hz"))
        beside["burst"].end(median(taken))
        end(short)
        return taken

    def sustained() -> list[float]:
        beside["sustained"].begin()
        work.before()
        start = perf_counter()
        settled, readings = settle(lambda: long.look(device.nvml.under_load), long.advance)
        see(sustained_load_s=perf_counter() - start)
        notes.extend(note for note in remarks(settled, readings, device.nvml.why_untold) if note not in notes)
        taken = long.samples(lambda: clock_now("sustained_sm_hz"))
        beside["sustained"].end(median(taken))
        watts = [found["power_w"] for at, found in readings if at >= readings[-1][0] - SPAN and "power_w" in found]
        if watts:
            see(sustained_w=fmean(watts))
        end(long)
        return taken

    def quantities(kind: str) -> dict[str, float]:
        """What NVML showed in this kind's samples. Raises LaunchError where runs under load skip work."""
        beside[kind].judge()
        return {name: median(values) for name, values in seen.items() if name.startswith(kind)}

    return {
        kind: Clock(sample, width=WIDTH, mode="sustained", budget=BUDGET / 2, quantities=partial(quantities, kind))
        for kind, sample in {"burst": burst, "sustained": sustained}.items()
    }
