"""How often the lab's intervals hold the truth, by simulation.

    python bench/intervals.py [--trials N] [--processes P] [--rounds R]

Every row is a kind of noise whose truth is known. Times are made as the lab takes them: three processes, seven rounds
in each, 8 samples in a round. The statistics are those of `cudalab.base.stats`, nothing else. Prints a Markdown table:

- median, ratio: share of 95 % intervals that hold the truth.
- A/A: verdicts on two variants that are equal, bound apart.
- 3 %: share of FASTER where a variant is 3 % faster. The threshold of a verdict is 2 %.
- width: the median width of the ratio's interval.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from cudalab.base import stats
from cudalab.base.stats import FASTER, SAME, SLOWER, UNCLEAR, Timing

ROUNDS, SAMPLES = 7, 8  # of one process
PROCESSES = 3
TRIALS = 1000
BESIDE = 8  # other rows of a variant in the same run, for states


def independent(rng: np.random.Generator, sd: float = 0.02) -> np.ndarray:
    return np.exp(sd * rng.standard_normal((ROUNDS, SAMPLES)))


def autocorrelated(rng: np.random.Generator, r: float, sd: float = 0.01) -> np.ndarray:
    """A level that the variant's own rounds move through: AR(1) with a stationary deviation of `sd`."""
    levels = [sd * rng.standard_normal()]
    for _ in range(ROUNDS - 1):
        levels.append(r * levels[-1] + sd * np.sqrt(1 - r**2) * rng.standard_normal())
    return np.exp(levels)[:, None] * independent(rng, 0.005)


def with_rounds(rng: np.random.Generator) -> np.ndarray:
    return np.exp(0.01 * rng.standard_normal((ROUNDS, 1))) * independent(rng, 0.005)


def with_spikes(rng: np.random.Generator) -> np.ndarray:
    spikes = np.where(rng.random((ROUNDS, SAMPLES)) < 0.05, rng.uniform(1.5, 4, (ROUNDS, SAMPLES)), 1)
    return independent(rng, 0.01) * spikes


def in_two_modes(rng: np.random.Generator) -> np.ndarray:
    """Samples of which 30 % are 10 % longer."""
    return independent(rng, 0.005) * np.where(rng.random((ROUNDS, SAMPLES)) < 0.3, 1.1, 1)


def placed(rng: np.random.Generator, sd: float = 0.005) -> np.ndarray:
    """An effect of where the arrays of this process lie, or of how it was bound."""
    return np.exp(sd * rng.standard_normal()) * independent(rng, 0.01)


@dataclass(frozen=True)
class Row:
    """One kind of noise. `own` makes the factors of one variant in one process.

    Drifts are relative changes over the run, of the machine (`shared`) or of the second variant alone. Processes are
    interleaved, so each of them sees all of a drift.
    """

    name: str
    own: Callable[[np.random.Generator], np.ndarray] = independent
    shared: float = 0.0
    drift: float = 0.0
    seconds: float = 10e-6
    step: float = 0.0
    states: float = 0.0  # half of the processes take so much longer
    centre: float = 1.0  # the median of all samples of many processes, relative to the time without noise


BIMODAL = float(np.median(np.concatenate([in_two_modes(np.random.default_rng(i)).ravel() for i in range(500)])))
TORCH_COMPILE = 13.05 / 10.98  # gelu, bfloat16, large, in six processes: 12.99, 11.01, 13.09, 11.04, 10.98, 13.02 us

ROWS = (
    Row("independent, 2 %"),
    Row("drift of the machine, 5 %", shared=0.05, centre=1.025),
    Row("spikes: 5 % of samples 1.5 to 4 times as long", with_spikes),
    Row("samples in two modes 10 % apart", in_two_modes, centre=BIMODAL),
    Row("rounds differ by 1 %", with_rounds),
    Row("own AR(1) 0.5, 1 %", lambda rng: autocorrelated(rng, 0.5)),
    Row("own AR(1) 0.9, 1 %", lambda rng: autocorrelated(rng, 0.9)),
    Row("placement, 0.5 %", placed),
    Row("placement, 2 %", lambda rng: placed(rng, 0.02)),
    Row("steps of 32 ns at 4 \u00b5s, noise 5 %", lambda rng: independent(rng, 0.05), seconds=4e-6, step=32e-9),
    Row("steps of 160 ns at 4 \u00b5s, noise 5 %", lambda rng: independent(rng, 0.05), seconds=4e-6, step=160e-9),
    Row("steps of 160 ns at 4 \u00b5s, noise 2 %", seconds=4e-6, step=160e-9),
    Row("steps of 160 ns at 4 \u00b5s, noise 1 %", lambda rng: independent(rng, 0.01), seconds=4e-6, step=160e-9),
    Row("states: 10.98 or 13.05 \u00b5s", states=TORCH_COMPILE, seconds=10.98e-6, centre=TORCH_COMPILE**0.5),
    Row("drift of one variant, 5 %", drift=0.05),
)


def timing(row: Row, rng: np.random.Generator, seconds: float, processes: int, second: bool = False) -> Timing:
    """The times of one variant, as a run takes them."""
    rounds: list[list[float]] = []
    over = np.linspace(0, 1, ROUNDS)[:, None]
    for _ in range(processes):
        level = seconds * (row.states if row.states and rng.random() < 0.5 else 1)
        times = level * row.own(rng) * (1 + row.shared * over) * (1 + second * row.drift * over)
        rounds += (np.round(times / row.step) * row.step if row.step else times).tolist()
    return Timing(rounds, [ROUNDS] * processes)


def measured(row: Row, rng: np.random.Generator, seconds: float, processes: int, second: bool = False) -> Timing:
    """`timing`, with what the other rows of the same variant say about its states."""
    taken = timing(row, rng, seconds, processes, second)
    beside = (timing(row, rng, seconds, processes, second) for _ in range(BESIDE if row.states else 0))
    return replace(taken, states=stats.states_of(taken, beside))


@dataclass
class Found:
    """What the trials of one row found: numbers of trials, widths."""

    trials: int
    median: int = 0
    ratio: int = 0
    power: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    widths: list[float] = field(default_factory=list)


def simulate(row: Row, trials: int = TRIALS, processes: int = PROCESSES) -> Found:
    """The row's trials; the same numbers whenever it is called."""
    found = Found(trials)
    for trial in range(trials):
        rng = np.random.default_rng([trial, ROWS.index(row)])
        seconds = row.seconds * (1 + 0.04 * rng.random())  # anywhere between two steps of the clock
        one, other = (measured(row, rng, seconds, processes, second) for second in (False, True))
        faster = measured(row, rng, seconds / 1.03, processes, True)
        low, high = one.interval
        found.median += low <= row.centre * seconds <= high
        same = stats.speedup(one, other)
        found.ratio += same.low <= 1 <= same.high
        found.verdicts[same.verdict()] += 1
        found.widths.append(same.high / same.low - 1)
        found.power += stats.speedup(one, faster).verdict() == FASTER
    return found


def line(row: Row, found: Found) -> str:
    """The row of the table."""
    verdicts = (found.verdicts[v] for v in (SAME, UNCLEAR, FASTER, SLOWER))
    shares = (found.median, found.ratio, *verdicts, found.power)
    cells = [f"{100 * share / found.trials:.1f}" for share in shares]
    return f"| {row.name} | {' | '.join(cells)} | {100 * float(np.median(found.widths)):.1f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--processes", type=int, default=PROCESSES)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    globals()["ROUNDS"] = given.rounds
    print("| noise, all in % | median | ratio | A/A: SAME | UNCLEAR | FASTER | SLOWER | 3 % found | width |")
    print("| --- | --: | --: | --: | --: | --: | --: | --: | --: |")
    for row in ROWS:
        print(line(row, simulate(row, given.trials, given.processes)), flush=True)


if __name__ == "__main__":
    main()
