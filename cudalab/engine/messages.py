"""What the parent of a run and its worker process say to each other: JSON objects, one a line.

The parent sends `Setup` once, then `Work` or `StudyWork` for one group at a time, or `Search`. The worker answers
`Ready`, then `Finished` for each of these and `Searched` for each `Search`; or `Failed`, or `Lost` before it ends
itself. Where it is at the moment it writes as a `Step` on the *board*: a piece of memory that both processes see. So
the label of what crashed or hangs is always known, and nobody is woken up between two samples to be told.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec

from cudalab.engine.plan import Form, Group
from cudalab.results.record import Case, Machine
from cudalab.spec import find
from cudalab.spec.dtype import dtype
from cudalab.study import found
from cudalab.study.found import Workload

BOARD = 4096  # bytes of the step; the glimpses come after it
GLIMPSES = 1 << 18


class Step(msgspec.Struct, frozen=True):
    """Where a run is: what is done (`phase`), in which group, and for which variant ("": for all of them)."""

    group: str
    phase: str
    label: str = ""

    def __str__(self) -> str:
        return f"{self.group}: {self.label} ({self.phase})" if self.label else f"{self.group}: {self.phase}"


class Glimpse(msgspec.Struct, frozen=True):
    """What is known of a variant while its group is still at work; the rows have the real thing."""

    status: str = ""  # as a case's
    max_ulp: float | None = None  # None: NaN or infinity
    seconds: float = 0.0  # the first sample of its main time; 0: not timed yet


class Setup(msgspec.Struct, tag=True):
    """What all groups have in common. `sources` are digests by file name, as `Results.sources`."""

    device: str
    only: str
    skip: str
    modes: tuple[str, ...]
    seed: int
    budget: float
    order: str
    sources: dict[str, str]
    calibrate: bool = True  # False for a worker that takes another's place

    def __post_init__(self) -> None:
        self.budget = min(self.budget, 1e12)  # JSON has no infinity


class Work(msgspec.Struct, tag=True):
    """One group. `omit`: labels of variants to leave out; `timed` False: check only."""

    kernel: str  # path of the spec
    size: str
    shape: tuple[int, ...]
    dtype: str
    values: str
    awkward: bool
    offsets: tuple[int, ...]
    alias: str = ""
    forms: tuple[Form, ...] = ()
    omit: tuple[str, ...] = ()
    timed: bool = True

    @classmethod
    def on(cls, group: Group, omit: tuple[str, ...], timed: bool) -> Work:
        return cls(
            group.kernel.file, group.size, group.shape, group.dtype.name, group.values, group.awkward, group.offsets,
            group.name, group.forms, omit, timed,
        )  # fmt: skip

    def group(self) -> Group:
        return Group(
            find.kernel(self.kernel), self.size, self.shape, dtype(self.dtype), self.values, self.awkward,
            self.offsets, self.alias, self.forms,
        )  # fmt: skip


class StudyWork(msgspec.Struct, tag=True):
    """One workload of a study; the rest as in `Work`."""

    study: str
    size: str
    settings: dict[str, bool | int | float | str]
    omit: tuple[str, ...] = ()
    timed: bool = True

    @classmethod
    def on(cls, workload: Workload, omit: tuple[str, ...], timed: bool) -> StudyWork:
        return cls(workload.path or workload.name, workload.size, dict(workload.settings), omit, timed)

    def group(self) -> Workload:
        study = found.study(self.study)
        return Workload(study, self.size, self.settings, self.study if self.study != study.name else "")


def work_on(group: Group | Workload, omit: tuple[str, ...], timed: bool) -> Work | StudyWork:
    """The order to do `group`."""
    return StudyWork.on(group, omit, timed) if isinstance(group, Workload) else Work.on(group, omit, timed)


class Search(msgspec.Struct, tag=True):
    """Let Kernel Tuner time configurations of an entry on the arrays of `work`."""

    work: Work
    entry: str
    strategy: str
    most: int  # configurations to try; 0: as many as the strategy does
    seed: int
    among: tuple[str, ...]  # labels of the configurations that it may try
    checked: bool = False  # they are known to be right


class Tried(msgspec.Struct):
    """What a search found about one configuration: a median, or why there is none."""

    parameters: dict[str, int]
    seconds: float = 0.0
    reason: str = ""


class Ready(msgspec.Struct, tag=True):
    """The device is open. `wall`: seconds by phase since the last message, here and in `Finished`."""

    machine: Machine
    no_gpu: str
    calibration: dict[str, list[float]]
    wall: dict[str, float]


class Finished(msgspec.Struct, tag=True):
    """The rows of a group."""

    cases: list[Case]
    wall: dict[str, float]


class Searched(msgspec.Struct, tag=True):
    """What a search tried, in the order of its turns."""

    tried: list[Tried]
    wall: dict[str, float]


class Failed(msgspec.Struct, tag=True):
    """The worker lives, but cannot do what was asked. `kind` names a class of `cudalab.base.errors`."""

    kind: str
    message: str


class Lost(msgspec.Struct, tag=True):
    """A CUDA error after which nothing works any more in this process; the worker ends."""

    step: Step
    reason: str


Order = Setup | Work | StudyWork | Search
Report = Ready | Finished | Searched | Failed | Lost


def write_board(board: int, beat: int, step: Step) -> None:
    """`beat` differs from that of the last step, so that every step is a sign of life."""
    os.pwrite(board, b"%d %s\n" % (beat, msgspec.json.encode(step)), 0)


def write_glimpses(board: int, found: Mapping[str, Glimpse]) -> None:
    """What is known of the group's variants, by label: once a variant after its check, once after its first sample."""
    os.pwrite(board, (msgspec.json.encode(found) + b"\n")[:GLIMPSES], BOARD)


def read_glimpses(board: int) -> dict[str, Glimpse]:
    """As last written; nothing where another process is just writing."""
    try:
        return msgspec.json.decode(os.pread(board, GLIMPSES, BOARD).partition(b"\n")[0], type=dict[str, Glimpse])
    except msgspec.DecodeError:
        return {}


def read_board(board: int) -> tuple[int, Step]:
    """(beat, step) as last written. (-1, a blank) where another process is just writing."""
    beat, _, text = os.pread(board, BOARD, 0).partition(b"\n")[0].partition(b" ")
    try:
        return int(beat), msgspec.json.decode(text, type=Step)
    except (ValueError, msgspec.DecodeError):
        return -1, Step("", "")
