"""Energy of a run, by the card's own counter: windows of load that begin and end at a step of the counter.

bench/METHOD.md, "Energy", says what the counter is and what it does not show.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from time import perf_counter, sleep
from weakref import WeakKeyDictionary

from cudalab.base.errors import LaunchError
from cudalab.device.gpu import Gpu
from cudalab.timing.clock import LOADED, Clock
from cudalab.timing.load import REUSED, Beside, Load
from cudalab.timing.work import Repeated

WINDOW = 2.0  # seconds at least, beside a counter that steps about every 0.1 s
LEAD = 0.2  # seconds of load before a window
REST, IDLE = 0.5, 1.0  # seconds without work before idle power is measured, and of its window at least
READ = 5e-3  # seconds between two readings of the counter
EARLY = 0.2  # seconds before the end of a window in which the counter is read again: two of its steps
STILL = 1.0  # seconds after which a counter that does not move is no counter
WIDTH = 0.01  # relative width at which the median of a process's windows is known: SAME asks for 2 % of a ratio
BUDGET = LOADED["energy"]  # seconds of windows for each variant at most, in all processes of a run
WHERE = "in an energy window"


@dataclass(frozen=True)
class Window:
    """What the counter and the host saw between two steps of the counter."""

    joules: float
    seconds: float
    runs: int


def window(
    read: Callable[[], float], seconds: float, go_on: Callable[[float], int], now: Callable[[], float] = perf_counter
) -> Window:
    """The first window of at least `seconds`.

    `read` gives the counter in joules; `go_on` lets so many seconds pass and returns how many runs have ended so far.
    The counter is read before the first step and again shortly before the last: a reading may leave gaps in the load.
    Raises LaunchError where the counter stands still.
    """
    counted, seen = read(), now()
    begin: tuple[float, float, int] | None = None
    while True:
        runs = go_on(max(READ, begin[1] + seconds - EARLY - seen) if begin else READ)
        joules, at = read(), now()
        if joules == counted:
            if at - seen > STILL:
                raise LaunchError(f"the energy counter of NVML has not moved for {STILL:g} s")
            continue
        counted, seen = joules, at
        if begin is None:
            begin = joules, at, runs
        elif at - begin[1] >= seconds:
            return Window(joules - begin[0], at - begin[1], runs - begin[2])


_idle: WeakKeyDictionary[Gpu, float] = WeakKeyDictionary()


def idle_power(device: Gpu, alive: Callable[[], object]) -> float:
    """Watts that the card draws with a context and without work; measured once for each device that is open.

    `alive` is called meanwhile.
    """
    if device not in _idle:
        device.stream.synchronize()
        sleep(REST)

        def rest(seconds: float) -> int:
            end = perf_counter() + seconds
            while perf_counter() < end:
                sleep(READ)
                alive()
            return 0

        found = window(device.nvml.energy, IDLE, rest)
        _idle[device] = found.joules / found.seconds
    return _idle[device]


def energy_clock(
    device: Gpu, work: Repeated, hot: Callable[[], float], once: float, notes: list[str], reused: float = REUSED,
    alive: Callable[[], object] = lambda: None,
) -> Clock:  # fmt: skip
    """A clock whose samples are joules a run, of the runs of `work` back to back, each sample from one window.

    `once` is the time of one run, roughly. What a window leaves in the outputs is verified. `hot` and `reused`:
    as `Beside`'s. `alive`: as `Load`'s.
    """
    load = Load(device.stream, work.repeat, once * work.runs, work.runs, alive)
    watts: list[float] = []
    beside = Beside(hot, WHERE, notes, reused)

    def read() -> float:
        return load.look(device.nvml.energy)

    def lead() -> None:
        """Load, with looks at the counter as in a window: the first of them may leave gaps."""
        end = perf_counter() + LEAD
        while perf_counter() < end:
            load.keep(READ)
            read()

    def sample() -> list[float]:
        idle_power(device, load.alive)
        beside.begin()
        work.before()
        lead()
        found = window(read, WINDOW, load.keep)
        load.stop()
        work.run()
        work.verify()
        if not found.runs:
            raise LaunchError(f"a run takes more than the {found.seconds:.1f} s of an energy window")
        watts.append(found.joules / found.seconds)
        beside.end(found.seconds / found.runs)
        return [found.joules / found.runs]

    def quantities() -> dict[str, float]:
        """Power in the windows and without work. Raises LaunchError where runs in a window skip work."""
        beside.judge()
        return {"energy_w": median(watts), "idle_w": idle_power(device, load.alive)}

    return Clock(sample, width=WIDTH, mode="energy", budget=BUDGET, quantities=quantities)
