"""The records that define a study: Study, Variant, Published, and Work, which a variant returns."""

# ruff: noqa: RUF009 -- optional() makes a dataclass field

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cudalab.spec.validate import about, optional, or_none, text, tuple_of
from cudalab.study import values
from cudalab.study.values import DEVICES

if TYPE_CHECKING:
    from cudalab.results.record import Results

Setting = bool | int | float | str
Parameters = Mapping[str, Any]

_LINE = (text, "a line of text")
_LINES = (values.lines, "text")
_COUNTS = (callable, "a function that returns numbers by name")
_VARIANTS = "a tuple of Variants, such as (Variant('loop', make),)"
_SIZES = "parameters by the size's name, such as {'small': {'shape': (64, 256)}}; no name is 'all'"


@dataclass
class Work:
    """A variant made ready: the function that is run again and again, and how to judge and count it."""

    run: Callable[[], object] = field(
        metadata=about("a call, a step or an epoch: what is timed; it may return before the work is done", callable,
                       "a function without arguments")
    )  # fmt: skip
    result: Callable[[], Any] | None = optional(
        "returns what the last run computed: tensors, arrays or numbers, nested as you like",
        or_none(callable), "a function without arguments, or None", without="nothing is compared",
    )  # fmt: skip
    clocks: Mapping[str, Callable[[], list[float]]] | None = optional(
        "functions that return samples, in seconds per run, by kind of time: for work that needs its own way of timing",
        or_none(values.functions), "functions by kind of time, such as {'step': sample}, or None",
        without="the study's `kinds`",
    )  # fmt: skip
    quantities: Callable[[], Mapping[str, float]] = field(
        default=dict,
        metadata=about("counts something once, after the check: numbers in SI units by name; a name ends in its unit "
                       "(`_bytes`, `_s`, `_per_s`), or it is a count", *_COUNTS, "none"),
    )  # fmt: skip
    afterwards: Callable[[], Mapping[str, float]] = field(
        default=dict, metadata=about("quantities of the timed runs, counted after them", *_COUNTS, "none")
    )
    items: float = optional(
        "samples, tokens or the like that one run processes, for the throughput",
        values.not_negative, "a number: how many one run processes", default=0.0, without="no throughput",
    )  # fmt: skip
    notes: list[str] = field(
        default_factory=list, metadata=about("lines below the table", values.notes, "a list of texts", "none")
    )
    tolerance: float = optional(
        "how far its result may be off, where that is measured while it is prepared",
        values.not_negative, "a number such as 1e-2, or 0 for the variant's or the study's", default=0.0,
        without="the variant's or the study's",
    )  # fmt: skip
    close: Callable[[], object] = optional(
        "releases what the variant holds: processes, files, hooks",
        callable, "a function without arguments", default=lambda: None, without="nothing",
    )  # fmt: skip


@dataclass(frozen=True)
class Variant:
    """One way to do the work."""

    label: str = field(metadata=about("its name", values.name, "a name without a comma"))
    make: Callable[[Any], Work] = field(
        metadata=about("prepares it, or raises Unavailable with the reason why it cannot run here", callable,
                       "a function that takes the lab and returns a Work")
    )  # fmt: skip
    devices: tuple[str, ...] = optional(
        "the devices that it runs on",
        values.devices, f"a tuple of devices, of {DEVICES}", default=DEVICES, without="all",
    )  # fmt: skip
    why: str = optional("why it does not run on the other device", *_LINES, default="", without="no reason")
    sizes: tuple[str, ...] = optional(
        "the only sizes that it is for", values.names, "a tuple of sizes, or () for all", default=(), without="all"
    )
    tolerance: float = optional(
        "its own tolerance, if it computes in another precision",
        values.not_negative, "a number such as 1e-2, or 0 for the study's", default=0.0, without="the study's",
    )  # fmt: skip


@dataclass(frozen=True)
class Published:
    """What an article measured."""

    source: str = field(metadata=about("the article", *_LINE))
    machine: str = field(metadata=about("the card, and the versions of what ran on it", *_LINE))
    seconds: Mapping[tuple[str, str], float] = field(
        metadata=about("its times by (size, label)", values.seconds,
                       "seconds by size and label, such as {('small', 'loop'): 2e-3}")
    )  # fmt: skip
    differs: str = field(metadata=about("what was measured differently from here", *_LINE))


@dataclass(frozen=True)
class Study:
    """One experiment."""

    file: str = field(metadata=about("`__file__` of the study: gives the name"))
    summary: str = field(metadata=about("the question that it answers, in one line", *_LINE))
    sizes: Mapping[str, Parameters] = field(
        metadata=about("its workloads by name: parameters that `make` reads from the lab", values.sizes, _SIZES)
    )
    variants: tuple[Variant, ...] = field(
        metadata=about("the ways to do the work",
                       lambda value: tuple_of(lambda of: isinstance(of, Variant))(value) and len(value) > 0, _VARIANTS)
    )  # fmt: skip
    defaults: Mapping[str, tuple[str, ...]] = field(
        metadata=about("the sizes that a run without --size takes, by device; the study does not run on a device "
                       "that is missing", values.defaults,
                       "a tuple of sizes by device, such as {'cuda': ('large',), 'cpu': ('small',)}")
    )  # fmt: skip
    baseline: str = field(
        metadata=about("the variant that ratios and comparisons refer to", values.name, "the label of a variant")
    )
    finding: Callable[[Results], str] = field(
        metadata=about("what a run says, in one line, from its numbers", callable,
                       "a function of the run that returns a sentence")
    )  # fmt: skip
    settings: Mapping[str, Setting] = optional(
        "what --set may change, with default values, whose types the settings have",
        values.settings, "numbers, texts, True or False by name, such as {'steps': 10}", default=dict, without="none",
    )  # fmt: skip
    kinds: tuple[str, ...] = optional(
        "kinds of time: `wall` (many runs back to back until the last has ended, divided by their number), and on a "
        "GPU "
        "`cold`, `hot`, `call`, `graph` as for kernels; ratios and findings are about the first",
        values.some_names, "a tuple of kinds of time, such as ('wall',)", default=("wall",), without="`wall`",
    )  # fmt: skip
    tolerance: float = optional(
        "how far a result may be from the baseline's, relative to its largest value",
        values.not_negative, "a number such as 1e-5, the share of the largest value that a result may be off",
        default=1e-5, without="1e-5",
    )  # fmt: skip
    memory: bool = optional(
        "whether the peak memory of a run is measured",
        values.yes_or_no, "True or False", default=False, without="no",
    )  # fmt: skip
    rounds: int = optional(
        "the least number of rounds: fewer for work that takes seconds",
        values.count, "a number of rounds, at least 1", default=10, without="10",
    )  # fmt: skip
    kernels: tuple[str, ...] = optional(
        "the kernels of the lab that it calls; the results keep their digests",
        values.names, "a tuple of kernels' names, such as ('gelu',)", default=(), without="none",
    )  # fmt: skip
    why: str = optional("why it does not run on a device", *_LINES, default="", without="no reason")
    published: tuple[Published, ...] = optional(
        "what articles measured",
        tuple_of(lambda of: isinstance(of, Published)), "a tuple of Published, such as (Published(...),)",
        default=(), without="none",
    )  # fmt: skip
    about: str = optional(
        "a few more lines: what to look at, and what the numbers do not say", *_LINES, default="", without="none"
    )

    @property
    def name(self) -> str:
        return self.file.replace("\\", "/").rpartition("/")[2].removesuffix(".py").replace("_", "-")
