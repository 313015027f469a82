"""What a run leaves behind: typed records with every raw sample; statistics are derived when asked for.

Times are seconds, sizes bytes. The file is JSON; `Results.save` writes it in one step, `load` refuses what it
cannot read and says why.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import tempfile
from math import inf
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec

from cudalab import stats
from cudalab.errors import InputError, why
from cudalab.text import encodable, visible

if TYPE_CHECKING:
    import pandas

FORMAT = "cudalab-results"
VERSION = 1

KINDS = ("cold", "hot", "graph", "graph_cold", "call", "wall")
IDENTITY = ("kernel", "size", "dtype", "backend", "variant", "status", "reason")

# A case's status:
OK: Final = "ok"  # right, and timed if its device and backend can be
WRONG: Final = "WRONG"  # differs from the reference, or wrote where it may not: no time
ERROR: Final = "error"  # did not compile, or failed while it ran
SKIPPED: Final = "skipped"  # cannot run here; the reason says what to install
CEILING: Final = "ceiling"  # not a variant: a plain copy of the case's bytes


# Bounds far beyond what can be measured, so that nothing derived from what was read overflows.
Seconds = Annotated[float, msgspec.Meta(ge=1e-15, le=1e12)]
Quantity = Annotated[float, msgspec.Meta(ge=-1e30, le=1e30)]
Integer = Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Magnitude = Annotated[float, msgspec.Meta(ge=0)]
Samples = Annotated[list[Seconds], msgspec.Meta(min_length=1)]
Rounds = Annotated[list[Samples], msgspec.Meta(min_length=1)]
Status = Literal["ok", "WRONG", "error", "skipped", "ceiling"]


class Parity(msgspec.Struct):
    """How an output compares with the float64 reference.

    ULP is a unit in the last place of the output dtype at the reference's value. `max_ulp` is None where a
    number was due and NaN or infinity came, or the other way round. `rel_l2` is |got - want| / |want| over the
    finite elements, in the Euclidean norm.
    """

    ok: bool
    n: Count = 0  # elements compared
    wrong: Count = 0  # elements out of the budget
    max_ulp: Magnitude | None = 0.0
    worst: str = ""  # the element of the largest error in ULP
    worst_at: Integer = -1  # its place in the flattened output
    rounded: Share = 1.0  # share of elements within half a ULP, that is, correctly rounded
    rel_l2: Magnitude = 0.0
    norm: Magnitude = 0.0  # |want|, over the same elements
    message: str = ""


class Case(msgspec.Struct):
    """One variant of one kernel at one size and dtype, with a verdict and times, or with a reason why not."""

    kernel: str
    size: str
    shape: tuple[Count, ...]
    dtype: str
    backend: str
    variant: str = ""  # an entry's name, where the backend has several
    status: Status = OK
    reason: str = ""
    parity: Parity | None = None
    composed: bool = False  # judged by the spec's budget for forms that round at each step
    nbytes: Count = 0  # each input read once, the output written once
    times: dict[str, Rounds] = {}  # seconds by kind: rounds of samples; see bench/METHOD.md
    costs: dict[str, Quantity] = {}  # seconds spent once: "bind" (compilation), "first run", "graph build", "timing"
    cross: dict[str, Quantity] = {}  # seconds by another tool's clocks; see cudalab.crosscheck
    condition: dict[str, Quantity | str] = {}  # of the ceiling's row: clocks, power and what slowed the GPU down
    notes: list[str] = []  # what a reader of the times must know

    @property
    def label(self) -> str:
        return f"{self.backend}:{self.variant}" if self.variant else self.backend

    @property
    def group(self) -> tuple[str, str, str]:
        """Cases with the same group worked on the same arrays and were timed in the same rounds."""
        return self.kernel, self.size, self.dtype

    def median(self, kind: str) -> float | None:
        """Median seconds of one kind of time, or None."""
        return stats.median(self.times[kind]) if self.times.get(kind) else None

    def bandwidth(self, kind: str) -> float | None:
        """Bytes a second."""
        time = self.median(kind)
        return self.nbytes / time if time else None


class Machine(msgspec.Struct):
    """What the numbers depend on."""

    device: str  # "cuda" or "cpu"
    name: str  # of the GPU or CPU that ran the cases
    details: dict[str, str | Integer | float] = {}
    versions: dict[str, str] = {}


class Results(msgspec.Struct):
    """A run: its cases, and everything needed to judge them."""

    format: str
    version: int
    created: str  # ISO 8601, UTC
    options: dict[str, Any]  # as the run was asked for
    machine: Machine
    no_gpu: str = ""  # why the CPU was used
    sources: dict[str, str] = {}  # file name -> SHA-256, of every .cu and spec
    calibration: dict[str, Samples] = {}  # seconds: what an empty event pair, kernel and graph node cost
    cases: list[Case] = []
    wall: dict[str, Quantity] = {}  # seconds of the whole run by phase
    complete: bool = True  # False while groups are missing: the run is on, or was interrupted

    @property
    def rows(self) -> list[Case]:
        return self.cases

    @property
    def timed(self) -> bool:
        """False for a run that only checked."""
        return "modes" in self.options

    def groups(self) -> dict[tuple[str, str, str], list[Case]]:
        """Cases by (kernel, size, dtype), in the order of the run."""
        found: dict[tuple[str, str, str], list[Case]] = {}
        for case in self.cases:
            found.setdefault(case.group, []).append(case)
        return found

    def baseline(self, case: Case, backend: str = "torch_eager") -> Case | None:
        """The case of the same group that speed-ups refer to."""
        return next((c for c in self.cases if c.group == case.group and c.backend == backend), None)

    def speedup(self, case: Case, kind: str, backend: str = "torch_eager") -> stats.Ratio | None:
        """How many times faster than the baseline `case` is, paired by rounds; None without both times."""
        base = self.baseline(case, backend)
        if base is None or not base.times.get(kind) or not case.times.get(kind):
            return None
        paired = self.options.get("order") != "blocked"  # else round i of one was not taken beside round i of another
        return stats.speedup(base.times[kind], case.times[kind], paired=paired)

    def to_json(self) -> bytes:
        """The whole run with every sample, a case a line."""
        stored = msgspec.structs.replace(self, options=_endless(self.options, inf, "inf"))
        try:
            data = msgspec.json.encode(stored)
        except UnicodeEncodeError:  # in a reason, as a library gave it: no ground to lose the run
            data = msgspec.json.encode(encodable(msgspec.to_builtins(stored)))
        return data.replace(b'{"kernel":', b'\n{"kernel":')

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file whole or not at all."""
        data, target = self.to_json(), Path(path).resolve()  # a link stays a link
        scratch = _beside(target)
        try:
            with scratch:
                scratch.write(data)
                scratch.flush()
                os.fsync(scratch.fileno())  # else a machine that stops may keep the new name and not what is in it
            os.chmod(scratch.name, 0o644)
            os.replace(scratch.name, target)
        except BaseException:  # a full disk, or Ctrl-C
            with contextlib.suppress(OSError):
                os.unlink(scratch.name)
            raise

    def to_dicts(self) -> list[dict[str, Any]]:
        """One flat dict a case: medians in seconds, bytes a second, no raw samples."""
        return [self._flat(case) for case in self.cases]

    def to_frame(self) -> pandas.DataFrame:
        """`to_dicts` as a pandas DataFrame; pandas must be installed."""
        try:
            import pandas
        except ImportError:
            raise InputError("to_frame needs pandas; pip install pandas, or use to_dicts()") from None
        return pandas.DataFrame(self.to_dicts())

    @property
    def main_kind(self) -> str:
        """The kind of time that bandwidth and speed-up are taken from."""
        present = {kind for case in self.cases for kind in case.times}
        return next((k for k in ("cold", "wall", *KINDS) if k in present), "")

    def _flat(self, case: Case) -> dict[str, Any]:
        parity, kind = case.parity, self.main_kind
        return {
            **{name: getattr(case, name) for name in IDENTITY},
            "shape": "x".join(map(str, case.shape)),
            "max_ulp": parity.max_ulp if parity else None,
            "rel_l2": parity.rel_l2 if parity else None,
            "nbytes": case.nbytes,
            **{kind: case.median(kind) for kind in KINDS},
            "bytes_per_second": case.bandwidth(kind),
            **self._flat_speedup(case, kind),
        }

    def _flat_speedup(self, case: Case, kind: str) -> dict[str, Any]:
        ratio = self.speedup(case, kind)
        names = ("speedup_over_eager", "speedup_low", "speedup_high", "verdict")
        values = (ratio.value, ratio.low, ratio.high, ratio.verdict()) if ratio else (None,) * 4
        return dict(zip(names, values, strict=True))


def load(path: str | os.PathLike[str]) -> Results:
    """Read a results file. Raises InputError that names the file and says what is wrong with it."""
    try:
        data = Path(path).read_bytes()
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {visible(os.fspath(path))}: {why(error)}") from None
    try:
        head = msgspec.json.decode(data)
        if not isinstance(head, dict) or head.get("format") != FORMAT:
            raise InputError(f'{path} is JSON, but not a cudalab results file (no "format": "{FORMAT}")')
        if head.get("version") != VERSION:
            raise InputError(f"{path} has results version {head.get('version')}; this cudalab reads {VERSION}")
        run = msgspec.json.decode(data, type=Results)
        run.options = _endless(run.options, "inf", inf)
        return run
    except msgspec.ValidationError as error:
        raise InputError(f"{path} is not a valid results file: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path} is not a results file: {error}; write one with `cudalab bench -o {path}`") from None


def _endless(options: dict[str, Any], was: object, becomes: object) -> dict[str, Any]:
    """`options` with an infinite timeout or budget as a text, or back: JSON has no infinity."""
    patient = ("timeout", "budget")
    return {name: becomes if name in patient and value == was else value for name, value in options.items()}


def writable(path: str | os.PathLike[str]) -> None:
    """Raise InputError now if `save(path)` would fail later, or would replace a file that is not a run's."""
    try:
        target = Path(path).resolve()
        target.exists()  # raises for a name that is too long
        str(target).encode()
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: a ring of links
        raise InputError(
            f"cannot write {visible(os.fspath(path))}: {why(error)}; choose another place with -o"
        ) from None
    folder = target.parent
    if target.exists() and not target.is_file() and not target.is_dir():
        raise InputError(f"{target} is no regular file; give another, such as -o results.json")
    if target.is_dir():
        raise InputError(f"{target} is a folder; give a file, such as -o {target / 'results.json'}")
    if not folder.is_dir():
        raise InputError(f"no folder {folder}; make it first: mkdir -p {shlex.quote(str(folder))}")
    try:
        with _beside(target) as scratch:
            os.unlink(scratch.name)
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror}; choose another place with -o") from None
    if target.exists() and target.stat().st_size:
        try:
            load(target)
        except InputError as error:
            raise InputError(f"will not replace {target}, which is not a run's: {error}") from None


def _beside(target: Path) -> IO[bytes]:
    """A new file in the target's folder, to be renamed to it."""
    return tempfile.NamedTemporaryFile(dir=target.absolute().parent, prefix=f".{target.name}.", delete=False)
