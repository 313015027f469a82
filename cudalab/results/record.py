"""The records of a run: every raw sample is kept, statistics are computed when they are asked for.

Times are seconds, energies joules, sizes bytes. Each field is described here and nowhere else: validation, the JSON
Schema and docs/results-file.md are made from these records (`cudalab.results.schema`). `cudalab.results.file` loads and
saves them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec

from cudalab.base import load, scatter
from cudalab.base.errors import short
from cudalab.base.memo import kept

if TYPE_CHECKING:
    from cudalab.base import stats  # loads NumPy, which the start of a worker does not wait for

FORMAT = "cudalab-results"
VERSION = 9  # of the files that are written; `cudalab.results.json_file` also reads the older ones

RUNS = ("bench", "check", "study")  # the kinds of a run
ENERGY: Final = "energy"  # the one kind whose samples are joules
LOADED = ("burst", "sustained", ENERGY)  # kinds of rounds that load the card for seconds
TIMES = ("cold", "hot", "graph", "graph_cold", "call", "api", "wall")
KINDS = (*TIMES, *LOADED)
GPU_KINDS = ("cold", "hot", "graph", "graph_cold", *LOADED)  # all other times depend on the host too
HOST_KINDS = ("call", "api")  # times of the host alone, beside work of a GPU
UNDER_LOAD = "throttled under load"  # of a row's condition
BESIDE_LOADED = (
    "energy_w",
    "idle_w",
    "burst_sm_hz",
    "sustained_sm_hz",
    "sustained_w",
    "sustained_load_s",
)  # quantities
IDENTITY = ("kernel", "size", "dtype", "backend", "variant", "status", "reason")

# The status of a case:
OK: Final = "ok"  # right, and timed if its device and backend can be
WRONG: Final = "WRONG"  # differs from the reference, or wrote out of bounds: no time
ERROR: Final = "error"  # did not compile, or failed while it ran
SKIPPED: Final = "skipped"  # cannot run here; the reason says what to install
IMPOSSIBLE: Final = "IMPOSSIBLE"  # right, but its time is below what physics allows: no time
CEILING: Final = "ceiling"  # not a variant: a copy of the case's bytes
BROKEN: Final = (WRONG, IMPOSSIBLE, ERROR)  # there is no time that holds

COPY = "copy"  # the backend of a ceiling row

MANY: Final = 1000  # ULP: an error that large is one of an element near 0
FAR: Final = 0.01  # relative error of a whole output; a formula that is nearly right makes a smaller one
ENTRIES: Final = ("host", "pycuda", "cupy_raw")  # the backends that run the `.cu`
OLD = " @ old"  # behind an entry's name in `variant`: it is that of the earlier `.cu` of `bench --against`


# Bounds far beyond what can be measured, so that no statistic of a file's numbers overflows.
Seconds = Annotated[float, msgspec.Meta(ge=1e-15, le=1e12)]
Quantity = Annotated[float, msgspec.Meta(ge=-1e30, le=1e30)]
Integer = Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Magnitude = Annotated[float, msgspec.Meta(ge=0)]
Samples = Annotated[list[Seconds], msgspec.Meta(min_length=1)]
Rounds = Annotated[list[Samples], msgspec.Meta(min_length=1)]
Status = Literal["ok", "WRONG", "error", "skipped", "IMPOSSIBLE", "ceiling"]


def _says(description: str) -> msgspec.Meta:
    """Attach the description of a field, for docs/results-file.md and the JSON Schema."""
    return msgspec.Meta(description=description)


class ErrorCurve(msgspec.Struct, forbid_unknown_fields=True):
    """The error against the input, where every 16-bit value was tried.

    The sorted finite inputs are cut into bins of equally many, and the largest error of each is a point.
    """

    x: Annotated[list[float], _says("the input with the bin's largest error, to five digits")]
    ulp: Annotated[list[Magnitude | None], _says("that error, in ULP; null where NaN or infinity was wrong")]


class Parity(msgspec.Struct, forbid_unknown_fields=True):
    """How an output compares with the float64 reference.

    ULP is a unit in the last place of the output dtype at the reference's value.
    """

    ok: Annotated[bool, _says("whether every element is within the budget of the kernel's spec")]
    n: Annotated[Count, _says("elements compared")] = 0
    wrong: Annotated[Count, _says("elements whose error exceeds the budget")] = 0
    max_ulp: Annotated[
        Magnitude | None,
        _says("largest error, in ULP; null where NaN or infinity took a number's place, or the other way round"),
    ] = 0.0
    worst: Annotated[str, _says("the element of the largest error in ULP: index, got, wanted, input")] = ""
    worst_at: Annotated[Integer, _says("its index in the flattened output; -1: none")] = -1
    rounded: Annotated[Share, _says("share of elements within half a ULP, that is, correctly rounded; 0 to 1")] = 1.0
    rel_l2: Annotated[
        Magnitude,
        _says("Euclidean norm of got - want over that of want, over the finite elements; the largest of the outputs"),
    ] = 0.0
    norm: Annotated[Magnitude, _says("Euclidean norm of want, over the same elements")] = 0.0
    allowed: Annotated[
        Magnitude | None,
        _says("error that is allowed at the element `worst`, in ULP: `ulp` of the budget, and its `atol` there; null: "
              "not recorded"),
    ] = None  # fmt: skip
    needed: Annotated[
        Magnitude | None,
        _says("of a wrong output, the least `ulp` of a budget with this `atol` by which it would be right; null: none"),
    ] = None
    close: Annotated[
        bool,
        _says("whether rounding and special values alone are wrong: each output as a whole is off by at most 1 %, "
              "and wrong in half of its elements at most if NaN or infinity is; integers are off by 1, and their "
              "reference gives floating-point numbers"),
    ] = False  # fmt: skip
    message: Annotated[str, _says("what is wrong, with the first elements; empty where nothing is")] = ""
    curve: Annotated[ErrorCurve | None, _says("the error against the input; of a check of all 16-bit values only")] = (
        None
    )

    @property
    def largest(self) -> float:
        """`max_ulp`, infinite where NaN or infinity was wrong."""
        return inf if self.max_ulp is None else self.max_ulp

    @property
    def cancels(self) -> bool:
        """Whether elements are off by many ULP and the output as a whole is not: terms of a sum cancel there."""
        return MANY <= self.largest < inf and self.rel_l2 < 1e-4


class Prediction(msgspec.Struct, forbid_unknown_fields=True):
    """What bounds an entry on a GPU, predicted from its machine code; or why that is not known."""

    card: Annotated[str, _says("the card whose data sheet gives the rates, such as `H200`")] = ""
    bound: Annotated[
        str, _says("the resource that takes longest, such as `memory`; of several launches, that of the longest")
    ] = ""
    least: Annotated[Seconds | None, _says("least seconds of the entry on that card; null: not predicted")] = None
    reason: Annotated[str, _says("why nothing is predicted")] = ""


class Case(msgspec.Struct, forbid_unknown_fields=True):
    """One variant of one kernel at one size and dtype, with a verdict and times, or with a reason why not."""

    kernel: Annotated[str, _says("the kernel's name, or the study's")]
    size: Annotated[str, _says("the size's name in the spec, or the shape as text; in a check what was looked at")]
    shape: Annotated[tuple[Count, ...], _says("of the first input")]
    dtype: Annotated[str, _says("of inputs and output")]
    backend: Annotated[str, _says("the backend that ran it; in a study, the variant's name; `copy` for the ceiling")]
    variant: Annotated[
        str,
        _says("an entry's name, where the backend has several; with ` @ old` behind it, of the `.cu` of `--against`"),
    ] = ""
    status: Annotated[
        Status,
        _says(
            "`ok`: right, and timed if its device and backend can be; `WRONG`: differs from the reference, or wrote "
            "where it may not, and has no time; `error`: did not compile, or failed while it ran; `skipped`: cannot "
            "run here; `IMPOSSIBLE`: right, but measured faster than physics allows, and has no time; `ceiling`: not a "
            "variant, but a copy of the case's bytes"
        ),
    ] = OK
    reason: Annotated[str, _says("why it is WRONG, failed or was skipped")] = ""
    parity: Annotated[Parity | None, _says("how its output compares; null: it has not been compared")] = None
    composed: Annotated[
        bool, _says("judged by the spec's `composed`, the budget for variants that round at each step")
    ] = False
    nbytes: Annotated[
        Count, _says("bytes: each input read once, the output written once; or what the spec's `bytes` says")
    ] = 0
    written: Annotated[Count | None, _says("of `nbytes`, those of the output; null: not recorded")] = None
    flops: Annotated[
        Count, _says("floating-point operations of the task, as the spec's `flops` says; 0: not counted")
    ] = 0
    times: Annotated[
        dict[str, Rounds],
        _says(
            "seconds by kind (`cold`, `hot`, `graph`, `graph_cold`, `call`, `api`, `wall`, `burst`, `sustained`, or a "
            "study's own; see bench/METHOD.md), of the kind `energy` joules: a list of rounds, each a list of raw "
            "samples; round i of one case was taken beside "
            "round i of the others of its kernel, size and dtype"
        ),
    ] = {}
    processes: Annotated[
        dict[str, list[Count]],
        _says(
            "by kind of time, how many of the rounds each worker process took, in the order of `times`; a kind that is "
            "not named was taken by one process"
        ),
    ] = {}
    costs: Annotated[
        dict[str, Quantity],
        _says(
            "one-time seconds. Of the first process: `bind` (compilation), `first run`, `check`, `clocks` (what is "
            "made and judged before the first sample), `graph build`, a part of it. Of all processes: `timing`. "
            "`nvcc`: compile time of what the CPU cannot run (0: no nvcc)"
        ),
    ] = {}
    cross: Annotated[
        dict[str, Quantity],
        _says(
            "seconds by another clock: `nvbench cold`, `nvbench batch`, `cupti cold`; by the lab's events: `cupti "
            "events`, of the samples that CUPTI recorded, and `cupti before`, of samples before the recording; time "
            "that the cross-check took: `nvbench wall`, `cupti wall`"
        ),
    ] = {}
    condition: Annotated[
        dict[str, Quantity | str],
        _says(
            "`throttled`: what held the clocks down while the row was timed; `throttled under load`: during energy and "
            "sustained samples; of the ceiling's row also `sm_hz`, `memory_hz`, `power_w`"
        ),
    ] = {}
    parameters: Annotated[
        dict[str, Integer], _says("launch parameters of the entry, where its spec declares tunables")
    ] = {}
    quantities: Annotated[
        dict[str, Quantity],
        _says(
            "what was counted beside the times, by name: in SI units where the name ends in one (`peak_bytes`), else "
            "counts. Of a study what it says, and `items`: samples that one run processes. Of a bench `energy_w` and "
            "`idle_w`, power of the card in the energy windows and without work; `burst_sm_hz`, `sustained_sm_hz`, "
            "`sustained_w`, and `sustained_load_s`, the load until clock and power were steady"
        ),
    ] = {}
    notes: Annotated[list[str], _says("what a reader of the times must know")] = []
    allocates: Annotated[
        bool | None,
        _says("whether each timed run allocates its result; others write into an array that exists. null: not known"),
    ] = None
    predicted: Annotated[
        Prediction | None, _says("what bounds the entry on a GPU, of a bench on the CPU; null: not asked")
    ] = None

    @property
    def label(self) -> str:
        return f"{self.backend}:{self.variant}" if self.variant else self.backend

    @property
    def old(self) -> bool:
        """Whether it is an entry of the earlier `.cu` of `bench --against`."""
        return self.variant.endswith(OLD) and self.backend in ENTRIES

    @property
    def close(self) -> bool:
        """Whether a WRONG answer is off by roundings and special values alone."""
        return self.status == WRONG and self.parity is not None and self.parity.close

    @property
    def not_on_cpu(self) -> bool:
        """Whether it was skipped because the CPU cannot run what is in the `.cu`."""
        return self.status == SKIPPED and "nvcc" in self.costs

    @property
    def compiled(self) -> bool:
        """Whether nvcc compiled it in place of a run on the CPU."""
        return self.not_on_cpu and self.costs["nvcc"] > 0

    def lose_times(self) -> None:
        """Drop all times, and what was read of the card while those of LOADED were taken."""
        self.times, self.processes = {}, {}
        self.quantities = {name: n for name, n in self.quantities.items() if name not in BESIDE_LOADED}

    @property
    def group(self) -> tuple[str, str, str]:
        """Cases of one group worked on the same arrays and were timed in the same rounds."""
        return self.kernel, self.size, self.dtype

    @kept
    def timing(self, kind: str, known: str = "", states: float = 0.0) -> stats.Timing | None:
        """The times of a kind with what differs between processes, or None. `known`, `states`: see `stats.Timing`."""
        from cudalab.base import stats

        rounds = self.times.get(kind)
        return stats.Timing(rounds, self.processes.get(kind, ()), known=known, states=states) if rounds else None

    @kept
    def median(self, kind: str) -> float | None:
        """Median seconds of a kind of time, or None."""
        from cudalab.base import stats

        return stats.median(self.times[kind]) if self.times.get(kind) else None

    def bandwidth(self, kind: str) -> float | None:
        """Bytes per second; None for an api time, which is the host's alone, and where no bytes are counted."""
        time = self.median(kind) if kind != "api" else None
        return self.nbytes / time if time and self.nbytes else None


class Place(msgspec.Struct, forbid_unknown_fields=True):
    """Which GPU did a group, in a run over several (`bench --gpus`)."""

    kernel: Annotated[str, _says("the group's: that of its cases")]
    size: Annotated[str, _says("the group's")]
    dtype: Annotated[str, _says("the group's")]
    gpu: Annotated[str, _says("the GPU's UUID; without one, such as `cpu 0`: the number of the actor on a CPU")]
    name: Annotated[str, _says("of that GPU or CPU")]
    host: Annotated[str, _says("the name of the machine that it is in")]
    condition: Annotated[
        dict[str, Quantity | str],
        _says(
            "of the GPU under load, at the end of the group: `sm_hz`, `memory_hz`, `power_w`, `power_limit_w`, "
            "`temperature_c`, `throttled`; empty without NVML"
        ),
    ] = {}
    seconds: Annotated[Quantity, _says("that the group took there")] = 0.0
    lost: Annotated[list[str], _says("earlier tries of the group, each with the GPU and how it ended")] = []
    medians: Annotated[
        dict[str, Seconds],
        _says("where every GPU did the group (`--every-gpu`): median seconds of the main kind, by variant, here"),
    ] = {}


class Machine(msgspec.Struct, forbid_unknown_fields=True):
    """What the numbers depend on."""

    device: Annotated[str, _says("`cuda` or `cpu`")]
    name: Annotated[str, _says("of the GPU or CPU that ran the cases")]
    details: Annotated[
        dict[str, str | Integer | float],
        _says("for a GPU: `l2_bytes`, `memory_bytes`, `driver` and more; `system`, `cpu`; sizes are bytes, rates Hz"),
    ] = {}
    versions: Annotated[dict[str, str], _says("of Python and of each library that is installed and takes part")] = {}


class Results(msgspec.Struct, forbid_unknown_fields=True):
    """A run: its cases, and everything needed to judge them."""

    format: Annotated[str, _says("always `cudalab-results`")]
    version: Annotated[int, _says("of this format")]
    created: Annotated[str, _says("when the run began: ISO 8601, UTC")]
    options: Annotated[
        dict[str, Any],
        _says("those of the run, with a study's name and baseline; an endless timeout or budget is `inf`"),
    ]
    machine: Annotated[Machine, _says("what the numbers depend on")]
    no_gpu: Annotated[str, _says("why the CPU was used")] = ""
    sources: Annotated[
        dict[str, str],
        _says(
            "SHA-256, in hex, by file name: of every .cu and spec, and of the user's modules that a spec imports "
            "(`NAME.import.MODULE.py`); of the earlier .cu of `--against` (`NAME.old.cu`); of a study's file, the "
            "lab's modules that it measures with, and its kernels' .cu and specs"
        ),
    ] = {}
    calibration: Annotated[
        dict[str, Samples], _says("seconds: samples of an `empty event pair`, `empty kernel` and `empty graph node`")
    ] = {}
    cases: Annotated[list[Case], _says("one per variant, kernel, size and dtype, in the order of the run")] = []
    wall: Annotated[
        dict[str, Quantity],
        _says(
            "seconds of the whole run, `total` and by phase; two are not durations but load x seconds: `load of "
            "others`, the load of other programs, and `cores`, the number of processors that the run could use"
        ),
    ] = {}
    complete: Annotated[bool, _says("false while cases are missing: the run is still going, or was interrupted")] = True
    kind: Annotated[str, _says("of the run: `bench`, `check` or `study`")] = ""
    places: Annotated[
        list[Place], _says("of a run over several GPUs, the GPU of each group; `machine` is that of the first GPU")
    ] = []
    commit: Annotated[
        str, _says("of the lab's source, with a `+` where a file of it was changed; empty where it is not known")
    ] = ""

    def __post_init__(self) -> None:
        if not self.kind:  # an older file
            self.kind = "study" if "study" in self.options else "bench" if "modes" in self.options else "check"
        if self.kind not in RUNS:
            raise ValueError(f"kind is {short(self.kind)}, not one of {', '.join(RUNS)}")

    @property
    def broken(self) -> list[Case]:
        """Rows with a wrong answer, an impossible time or an error. A copy that failed is not one, but a copy with an
        impossible time is: a clock lies. A study may call a variant `copy`."""
        bad = (case for case in self.cases if case.status in BROKEN)
        return [case for case in bad if self.of_study or case.backend != COPY or case.status == IMPOSSIBLE]

    @property
    def failed(self) -> list[Case]:
        """The broken rows that speak against the run: a library that is `close` only where no entry ran."""
        ran = {c.kernel for c in self.cases if c.backend in ENTRIES and c.status != SKIPPED}
        judged = set() if self.of_study else ran
        return [c for c in self.broken if not (c.kernel in judged and c.backend not in ENTRIES and c.close)]

    @property
    def timed(self) -> bool:
        """False for a run that only checked."""
        return self.kind != "check"

    @kept
    def groups(self) -> dict[tuple[str, str, str], list[Case]]:
        """Cases by (kernel, size, dtype), in the order of the run."""
        found: dict[tuple[str, str, str], list[Case]] = {}
        for case in self.cases:
            found.setdefault(case.group, []).append(case)
        return found

    @property
    def others(self) -> tuple[float, float] | None:
        """The mean load of other programs over the run, and the number of cores; None where they are not recorded."""
        total, others, cores = (self.wall.get(name, 0.0) for name in ("total", load.OTHERS, load.CORES))
        return (others / total, cores / total) if total > 0 and cores > 0 else None

    @property
    def busy(self) -> tuple[float, float] | None:
        """`others`, if that load disturbs times of the host."""
        return self.others if self.others and load.is_busy(*self.others) else None

    def disturbed(self, kind: str) -> bool:
        """Whether times of this kind depend on the host, and other programs kept it busy."""
        return bool(self.busy) and kind not in GPU_KINDS

    @property
    def of_study(self) -> bool:
        """Whether this is a run of `cudalab study`."""
        return self.kind == "study"

    @property
    def reference(self) -> str:
        """What speed-ups refer to if nothing else is asked for: a backend, or the label of a study's baseline."""
        return str(self.options.get("baseline", "")) if self.of_study else "torch_eager"

    @property
    def reference_name(self) -> str:
        """`reference` as the tables call it."""
        return self.reference if self.of_study else "eager"

    def baseline(self, case: Case, backend: str = "") -> Case | None:
        """The case of the same group that speed-ups refer to: that of `backend` (or of this label), or `reference`."""
        return self._labelled(case.group, backend or self.reference)

    @kept
    def _labelled(self, group: tuple[str, str, str], wanted: str) -> Case | None:
        """Return the first case of a group with this backend or label."""
        return next((c for c in self.groups().get(group, ()) if wanted in (c.backend, c.label)), None)

    @kept
    def speedup(self, case: Case, kind: str, backend: str = "") -> stats.Ratio | None:
        """How many times faster than the baseline `case` is, paired by rounds; None if either has no such time."""
        base = self.baseline(case, backend)
        if base is None or not base.times.get(kind) or not case.times.get(kind):
            return None
        return self.ratio(base, case, kind)

    def timing(self, case: Case, kind: str) -> stats.Timing | None:
        """The times of a case, with what committed runs show of how times of kernels differ between processes (of
        studies they show too little), and what the variant's other rows show of states: not for times of the host,
        which changes its speed for all variants.
        """
        from cudalab.base import stats

        taken = case.timing(kind)
        if taken is None:
            return None
        if kind in HOST_KINDS and not self.of_study:
            return case.timing(kind, scatter.HOST)
        shown = kind in GPU_KINDS and kind != ENERGY and not self.of_study
        torn = (timing for row, timing in self._torn(case.kernel, case.label, kind) if row is not case)
        return case.timing(kind, scatter.family(case.label) if shown else "", stats.states_of(taken, torn))

    @kept
    def _torn(self, kernel: str, label: str, kind: str) -> list[tuple[Case, stats.Timing]]:
        """The rows of a variant whose processes disagree."""
        timings = ((case, case.timing(kind)) for case in self._rows().get((kernel, label), ()))
        return [(case, taken) for case, taken in timings if taken and taken.disagree]

    @kept
    def _rows(self) -> dict[tuple[str, str], list[Case]]:
        """Cases by kernel and label."""
        found: dict[tuple[str, str], list[Case]] = {}
        for case in self.cases:
            found.setdefault((case.kernel, case.label), []).append(case)
        return found

    def fastest(self, cases: Iterable[Case], kind: str) -> Case:
        """The fastest of these, which have times of this kind, in the first process of the run. To judge it by the same
        times would favour the luckiest of several that are equally fast: `ratio` with `chosen` does not.
        """
        timed = ((taken.first, case) for case in cases if (taken := case.timing(kind)))
        return min(timed, key=lambda one: one[0])[1]

    def ratio(self, base: Case, case: Case, kind: str, chosen: bool = False) -> stats.Ratio:
        """How many times faster `case` is than `base`; both are of one group and have times of this kind.

        `chosen`: one of them is there because it was the `fastest`. Then the processes after the first judge, if there
        are any; how far processes differ is known from all of them.
        """
        from cudalab.base import stats

        one, other = self.timing(base, kind), self.timing(case, kind)
        if one is None or other is None:
            raise ValueError(f"{(case if one else base).label} has no {kind} times")
        blocked = self.options.get("order") == "blocked"  # rounds were not measured side by side
        found = stats.speedup(one, other, paired=not blocked)
        if chosen and any(a and b for a, b in zip(one.by_process[1:], other.by_process[1:], strict=False)):
            found = stats.judged_by_later(found, one, other, paired=not blocked)
        return replace(found, disturbed=self.disturbed(kind))

    @property
    @kept
    def main_kind(self) -> str:
        """The kind of time that speed-ups and bandwidth are computed from."""
        present = dict.fromkeys(kind for case in self.cases for kind in case.times)
        if self.of_study:  # its variants may have clocks, and so kinds of time, of their own
            return next((k for k in (*str(self.options.get("kinds", "")).split(","), *present) if k in present), "")
        return next((k for k in ("cold", "wall", *KINDS) if k in present), "")
