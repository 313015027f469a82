"""What `cudalab history` finds of planted steps, and its false alarms: python bench/steps.py [--histories 300]

Simulates the times of runs on one card. Their standard deviation is that between processes, of bench/results/h200/
engine/spread.json (of one time, so its `s0` over the root of two), and what compare adds between runs. Noise has three
forms:

- normal;
- tails: Student's t with three degrees of freedom, of the same deviation;
- slow runs: normal, and 3 % of the runs are 3 to 20 % slower.

Of 100 unchanged runs each history that reports a step is a false alarm. A step of 3 % is planted after 20 runs: it is
found if the 5 runs from it on suffice, and if it is placed within 2 runs of where it is.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from math import hypot, log, sqrt
from pathlib import Path

import numpy as np

from cudalab.base.stats import MIN_EFFECT
from cudalab.results.compare import RUN
from cudalab.tools.history import steps

SPREAD = Path(__file__).parent / "results" / "h200" / "engine" / "spread.json"
FAMILY = "kernel"
FORMS = ("normal", "tails", "slow runs")
PLANTED, BEFORE, WITHIN, OFF = 0.03, 20, 5, 2
RUNS = 100  # of an unchanged history
SLOW, SLOWER = 0.03, (0.03, 0.2)  # the share of slow runs, and by how much they are slower


@dataclass(frozen=True)
class Found:
    """What was found in histories of one class of time and one form of noise."""

    time: str
    deviation: float
    form: str
    histories: int
    alarms: int
    hits: int


def noise(form: str, deviation: float, count: int, random: np.random.Generator) -> np.ndarray:
    """The logarithms of so many times of unchanged code, relative to their middle."""
    if form == "tails":
        return deviation / sqrt(3) * random.standard_t(3, count)
    values = random.normal(0, deviation, count)
    if form == "slow runs":
        values += (random.random(count) < SLOW) * random.uniform(*SLOWER, count)
    return values


def classes() -> Iterator[tuple[str, float]]:
    """The classes of time, and the deviation between runs of each."""
    for row in json.loads(SPREAD.read_text())["classes"]:
        if row["family"] == FAMILY:
            yield row["time"], hypot(RUN, row["s0"] / sqrt(2))


def tried(time: str, deviation: float, form: str, histories: int, seed: int = 0) -> Found:
    """Simulate unchanged histories, and as many with a planted step."""
    random = np.random.default_rng(seed)
    alarms = hits = 0
    for _ in range(histories):
        alarms += bool(steps.steps(np.exp(noise(form, deviation, RUNS, random)), deviation, MIN_EFFECT))
        times = noise(form, deviation, BEFORE + WITHIN, random)
        times[BEFORE:] += log(1 + PLANTED)
        found = steps.steps(np.exp(times), deviation, MIN_EFFECT)
        hits += any(abs(step.at - BEFORE) <= OFF and step.ratio > 1 for step in found)
    return Found(time, deviation, form, histories, alarms, hits)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--histories", type=int, default=300)
    given = parser.parse_args()
    print("| time | deviation | noise | false alarms | 3 % found within 5 runs |\n| --- | --: | --- | --: | --: |")
    for time, deviation in classes():
        for form in FORMS:
            one = tried(time, deviation, form, given.histories)
            print(
                f"| {time} | {deviation:.2%} | {form} | {one.alarms} of {one.histories} | "
                f"{one.hits / one.histories:.1%} |"
            )


if __name__ == "__main__":
    main()
