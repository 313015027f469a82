"""Studies: experiments that are more than one kernel, measured by the lab's own engine.

A study is one file in `cudalab/studies/` that defines `study = Study(file=__file__, ...)`; it is found by its name. It
says what is measured (`variants`) on which work (`sizes`), and the engine does the rest: each variant in the lab's
worker, its result compared with the baseline's, its times taken in shuffled rounds beside the others', its memory and
what else it counts kept in the results file, which is of the same kind as that of `cudalab bench`.

    cudalab study list
    cudalab study graphs --sizes small -o graphs.json
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cudalab.results.record import Results
    from cudalab.study.lab import Lab

DEVICES = ("cuda", "cpu")
Setting = bool | int | float | str
Parameters = Mapping[str, Any]


@dataclass
class Work:
    """A variant made ready: what is run over and over, and what is known of it.

    One call of `run` is what is timed: a call, a step, an epoch; it may only enqueue the work. `result` gives what the
    last run computed, as tensors, arrays or numbers (or a tuple, list or dict of them); None: there is nothing to
    compare. `clocks` are functions that return samples (seconds) by kind of time, in the place of those that the
    study's `kinds` name: for what has to be timed in a way of its own. `quantities` are asked for once, after the
    check: numbers in SI units whose names end in their unit (`_bytes`, `_s`, `_per_s`), or counts.
    """

    run: Callable[[], object]
    result: Callable[[], Any] | None = None
    clocks: Mapping[str, Callable[[], list[float]]] | None = None
    quantities: Callable[[], Mapping[str, float]] = dict
    afterwards: Callable[[], Mapping[str, float]] = dict  # quantities too, but of the timed runs: asked for after them
    items: float = 0.0  # samples, tokens or the like that one run gets through, for the throughput; 0: no such thing
    notes: list[str] = field(default_factory=list)
    close: Callable[[], object] = lambda: None  # gives back what it holds: processes, files, hooks


@dataclass(frozen=True)
class Variant:
    """One way to do the work. `make(lab)` prepares it, and raises Unavailable where it cannot be had."""

    label: str
    make: Callable[[Lab], Work]
    devices: tuple[str, ...] = DEVICES
    why: str = ""  # it has no meaning on the other device, for a variant that runs on one alone
    sizes: tuple[str, ...] = ()  # the only ones that it is for; (): all
    tolerance: float = 0.0  # of its own, for one that computes in another precision; 0: the study's


@dataclass(frozen=True)
class Published:
    """What an article measured: seconds by (size, label), with its machine, and what differs here."""

    source: str
    machine: str  # the card, and the versions of what ran on it
    seconds: Mapping[tuple[str, str], float]
    differs: str


@dataclass(frozen=True)
class Study:
    """One experiment. `sizes` are its workloads by name: parameters that `make` finds in the lab.

    `defaults` names the sizes that a run without --sizes takes, by device; a device that is missing there cannot run
    the study, for the reason in `why`. `settings` are what --set may change, with their defaults, which also give
    their types. Ratios refer to `baseline`; every result must be as near to the baseline's as `tolerance`, relative to
    its largest value. `kinds` of time: "wall" (a run, of as many as last a while, until all is done), and on a GPU
    "cold", "hot", "call", "graph" of bench/METHOD.md; the first is what ratios and findings are about.
    """

    file: str
    summary: str  # one line: what it asks
    sizes: Mapping[str, Parameters]
    variants: tuple[Variant, ...]
    defaults: Mapping[str, tuple[str, ...]]
    baseline: str
    finding: Callable[[Results], str]  # what a run says, in one line, from its numbers
    settings: Mapping[str, Setting] = field(default_factory=dict)
    kinds: tuple[str, ...] = ("wall",)
    tolerance: float = 1e-5
    memory: bool = False  # the peak of a run is measured too
    rounds: int = 10  # at least: fewer for work that takes seconds
    why: str = ""
    published: tuple[Published, ...] = ()
    about: str = ""  # a few lines more: what to look at, and what the numbers do not say

    @property
    def name(self) -> str:
        return self.file.replace("\\", "/").rpartition("/")[2].removesuffix(".py").replace("_", "-")
