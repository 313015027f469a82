"""What the parent of a run and its worker process send each other: JSON objects, one a line.

The parent sends `Setup` once, then one `Task` at a time. The worker answers `Ready`, then `Done` for each task; or
`Failed`; or `Lost`, after which it exits. A task names the function that does it, so the worker knows no tool. A run
may have several workers; each of them gets a `Setup` with its own number, and says `Prepared` before it times anything:
then it waits for `Go`, so that no two of them take times at once.

The worker writes its present `Step` to the *board*, a piece of memory that both processes map. So the parent knows
which variant was at work when the worker crashed or hung, and the worker never waits for the parent between samples.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import msgspec

from cudalab.results.record import Machine, Parity

BOARD = 4096  # bytes of the step; the glimpses come after it
GLIMPSES = 1 << 18
TIMING = "timing, "  # the phase of a step that takes times; the kind of time follows
WORKER = "worker"  # in place of a group: the worker gets ready
END = BOARD + GLIMPSES

PROCESSES = {"cuda": 3, "cpu": 1}  # of a run that times something, by the kind of device, if no number was given
UP_TO = {"cuda": 8, "cpu": 1}  # processes, then, of a group whose rows need them (`cudalab.engine.enough`)
SAMPLING = {"cuda": 0.3, "cpu": 1.0}  # seconds for each variant, in all processes of a run, if none were given
MOST_PROCESSES = 16  # each holds a context on the GPU, of half a gigabyte or more


class Step(msgspec.Struct, frozen=True):
    """Where a run is: what is done (`phase`), in which group, and for which variant ("": for all of them)."""

    group: str
    phase: str
    label: str = ""

    @property
    def opens(self) -> bool:
        """Whether a worker gets ready, which may fail before any group is begun."""
        return self.group == WORKER

    def __str__(self) -> str:
        return f"{self.group}: {self.label} ({self.phase})" if self.label else f"{self.group}: {self.phase}"


class Glimpse(msgspec.Struct, frozen=True):
    """Preliminary numbers of a variant while its group runs; the rows have the final ones."""

    status: str = ""  # as a case's
    max_ulp: float | None = None  # None: NaN or infinity
    seconds: float = 0.0  # the first sample of its main time; 0: not timed yet


class Setup(msgspec.Struct, tag=True):
    """What all groups of a run share. `sources` are digests by file name, as `Results.sources`."""

    device: str
    only: str
    skip: str
    modes: tuple[str, ...]
    seed: int
    budget: float | None  # seconds of sampling for each variant; None: SAMPLING
    order: str
    sources: dict[str, str]
    calibrate: bool = True  # False for a worker that takes another's place
    processes: int = 0  # of the run; 0: PROCESSES
    process: int = 0  # the number of this one, from 0
    flush: str = "clean"  # lines in L2 before a cold run: clean or dirty
    key: int = 0  # of digests of device memory, by which the processes of a run share verdicts
    named: tuple[str, ...] = ()  # backends whose failure is an error, since the user names them
    left_out: dict[str, str] = {}  # backends that have no rows on the CPU, and why
    backends: tuple[str, ...] = ()  # whose libraries a worker loads while it opens, if another works meanwhile

    def __post_init__(self) -> None:
        if self.budget is not None:
            self.budget = min(self.budget, 1e12)  # JSON has no infinity

    def count(self, kind: str) -> int:
        """Processes of the run on this kind of device: one if nothing is timed."""
        return (self.processes or PROCESSES[kind]) if self.modes else 1

    def most(self, kind: str) -> int:
        """Processes that a group may have at most."""
        return self.count(kind) if self.processes or not self.modes else UP_TO[kind]

    def share(self, kind: str) -> float:
        """Seconds for which one process samples each variant on this kind of device."""
        return (SAMPLING[kind] if self.budget is None else self.budget) / self.count(kind)


class Place(msgspec.Struct, frozen=True):
    """Where an array lies in memory that processes share: bytes from its start, shape, and the name of the dtype."""

    offset: int
    shape: tuple[int, ...]
    dtype: str


class Places(msgspec.Struct, frozen=True):
    """The inputs of one of the contents, and the right results, by name."""

    inputs: dict[str, Place]
    right: dict[str, Place]


class Made(msgspec.Struct, frozen=True):
    """The contents of a group that were made ahead (`cudalab.engine.ahead`), each in one of the files at `paths`."""

    paths: list[str]
    contents: list[Places]


class Task(msgspec.Struct, tag=True):
    """One thing for the worker to do: call `handler`, "module:function", with its `Job` and the payload.

    The handler decodes the payload, and returns what msgspec can encode. `files` are the files that the task reads, by
    their names in `Setup.sources`: the worker refuses a task whose files have changed since the run began. `known` are
    verdicts of other processes on the same task, see `Done`.
    `unloaded`: variants that are not measured under load, and why: a worker has died there. `made`: its inputs.
    """

    handler: str
    payload: msgspec.Raw
    files: dict[str, str]
    known: dict[str, Parity] = {}
    unloaded: dict[str, str] = {}
    made: Made | None = None

    @classmethod
    def of(cls, handler: str, payload: msgspec.Struct, files: Mapping[str, Path]) -> Task:
        data = msgspec.Raw(msgspec.json.encode(payload))
        return cls(handler, data, {name: str(path) for name, path in files.items()})


class Sent(msgspec.Struct):
    """A group of cases on its way to another process: there `maker`, "module:function", makes it of the payload."""

    maker: str
    payload: msgspec.Raw

    @classmethod
    def of(cls, maker: str, payload: msgspec.Struct) -> Sent:
        return cls(maker, msgspec.Raw(msgspec.json.encode(payload)))


class Ready(msgspec.Struct, tag=True):
    """The device is open. `wall`: seconds by phase since the last message, here and in `Done`.

    `free`: bytes of its memory that no one takes.
    """

    machine: Machine
    no_gpu: str
    calibration: dict[str, list[float]]
    wall: dict[str, float]
    free: int = 0


class Done(msgspec.Struct, tag=True):
    """The result of a task's handler.

    `known` are the outputs that were compared with the reference and are right, by a text that names the inputs'
    contents, the output's contents and the budget: another process of the run need not compare the same bits again.
    """

    result: msgspec.Raw
    wall: dict[str, float]
    known: dict[str, Parity] = {}


class Prepared(msgspec.Struct, tag=True):
    """All of a task is ready to be timed, which waits for `Go`. `known`: as of `Done`; `bad`: rows without times."""

    known: dict[str, Parity]
    bad: tuple[str, ...] = ()


class Go(msgspec.Struct, tag=True):
    """Time what is ready, but the variants in `omit`. `known`, `unloaded`: as of `Task`, as they are by now."""

    known: dict[str, Parity] = {}
    omit: tuple[str, ...] = ()
    unloaded: dict[str, str] = {}


class Failed(msgspec.Struct, tag=True):
    """The task was not done; the worker lives. `kind` names a class of `cudalab.base.errors`."""

    kind: str
    message: str


class Lost(msgspec.Struct, tag=True):
    """A CUDA error after which every call in this process fails; the worker exits."""

    step: Step
    reason: str


Order = Setup | Task | Go
Report = Ready | Prepared | Done | Failed | Lost


def named(text: str) -> Callable[..., Any]:
    """The function that a message names, as "module:function"."""
    module, _, function = text.partition(":")
    return cast("Callable[..., Any]", getattr(import_module(module), function))


def write_board(board: int, beat: int, step: Step) -> None:
    """`beat` differs from that of the last step, so that every step is a sign of life."""
    os.pwrite(board, b"%d %s\n" % (beat, msgspec.json.encode(step)), 0)


def write_glimpses(board: int, found: Mapping[str, Glimpse]) -> None:
    """Write preliminary numbers by label: once for each variant after its check, once after its first sample."""
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
