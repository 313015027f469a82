"""Tests of your own kernels for pytest: one for each variant, dtype and shape that `cudalab check` looks at.

from cudalab.testing import parity
test_softmax = parity("softmax.py")

The cases of a run are checked in a worker process, as on the command line: a kernel that crashes or hangs fails its
own tests only. `cudalab.tools.pytest.plugin`, which pytest finds by itself, is the other half.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from cudalab.base import packages
from cudalab.base.bounded import guarded
from cudalab.base.errors import CudalabError, InputError, unknown
from cudalab.checks import hard_inputs, many_blocks
from cudalab.device import cuda
from cudalab.engine.check_plan import checks
from cudalab.engine.groups import Group, Variant
from cudalab.engine.options import setup_of
from cudalab.engine.rows import failed
from cudalab.engine.selection import Selection
from cudalab.engine.session import Session
from cudalab.results import record

DEVICES = ("auto", "cpu", "cuda")
Test = TypeVar("Test", bound=Callable[..., object])
Key = tuple[str, str, tuple[int, ...], str, bool, str]


def cases(
    *specs: str | os.PathLike[str],
    dtypes: str = "all",
    only: str = "",
    skip: str = "",
    device: str = "auto",
    sample: int = hard_inputs.SAMPLE_SIZE,
) -> Callable[[Test], Test]:
    """Decorator: run a test once for each case of these kernels. The test gets a `Case` as its argument `case`.

    `specs` are paths, relative to the test's own folder, or names of the lab's kernels (none: all of those); `dtypes`,
    `only` and `skip` are those of `cudalab.check`. `device` is where to run: cpu and cuda leave out what runs elsewhere
    only; auto has everything, on the GPU where there is one. `sample` is the number of values on which a float32
    function of one array is tried. A spec that cannot be used is an error of the collection.
    """

    def decorated(test: Test) -> Test:
        test.__dict__["cudalab"] = Wanted(specs, dtypes, only, skip, device, sample)  # read by the plugin
        return test

    return decorated


def parity(*specs: str | os.PathLike[str], **options: Any) -> Callable[[Case], None]:
    """A test that checks every case of these kernels; the arguments are those of `cases`."""

    @cases(*specs, **options)
    def test(case: Case) -> None:
        case.check()

    return test


def need_gpu(advice: str = "") -> None:
    """Skip the running test with the reason where no GPU can be used; fail it under CUDALAB_REQUIRE=cuda."""
    __tracebackhide__ = True
    if reason := cuda.missing():
        if gpu_required():
            pytest.fail(f"CUDALAB_REQUIRE=cuda, but {reason}", pytrace=False)
        pytest.skip(f"needs a GPU, and {reason}{advice and '; '}{advice}")


def absent(reason: str) -> BaseException:
    """A skip of the running test; a failure under CUDALAB_REQUIRE=cuda, where nothing may be left out."""
    if gpu_required():
        return pytest.fail.Exception(f"CUDALAB_REQUIRE=cuda, but {reason}", pytrace=False)
    return pytest.skip.Exception(reason)


def gpu_required() -> bool:
    """Whether a GPU that is missing is a failure."""
    return "cuda" in os.environ.get("CUDALAB_REQUIRE", "").split(",")


def located(spec: str | os.PathLike[str], folder: Path) -> str:
    """The name of one of the lab's kernels as it is, or the path of a spec, which may be relative to `folder`."""
    name = os.fspath(spec)
    return str(folder / name) if os.sep in name or Path(name).suffix else name


@dataclass(frozen=True)
class Wanted:
    """The arguments of `cases`."""

    specs: tuple[str | os.PathLike[str], ...]
    dtypes: str = "all"
    only: str = ""
    skip: str = ""
    device: str = "auto"
    sample: int = hard_inputs.SAMPLE_SIZE

    @guarded()
    def cases(self, bench: Bench, folder: Path, fit: bool = True) -> list[Case]:
        """The cases to test, kernel by kernel; relative paths start at `folder`.

        Raises CudalabError for a spec that cannot be used and, if `fit`, for globs that leave nothing of these kernels.
        """
        if self.device not in DEVICES:
            raise unknown("device", self.device, DEVICES)
        if self.sample < hard_inputs.LEAST_SAMPLE:
            raise InputError(
                f"sample is {self.sample}; give at least {hard_inputs.LEAST_SAMPLE}, which covers every exponent"
            )
        names = [located(spec, folder) for spec in self.specs]
        selection = Selection.parse(self.only, self.skip)
        groups = checks(names, self.dtypes, sample=self.sample)
        if fit:
            selection.check(groups)
        chosen = [(g, v) for g in groups for v in selection.variants(g, self.device.replace("auto", ""))]
        rows = [(g, v) for g, v in chosen if not g.why or v.name in dict(g.why)]
        return [Case(g, v, self._device(v), bench) for g, v in rows]

    def _device(self, variant: Variant) -> str:
        if self.device != "auto":
            return self.device
        usable = gpu_required() or not cuda.missing() or "cpu" not in variant.devices
        return "cuda" if usable and "cuda" in variant.devices else "cpu"


@dataclass(frozen=True, eq=False, repr=False)
class Case:
    """One variant of a kernel at one shape and dtype, to be tested on one kind of device."""

    group: Group
    variant: Variant
    device: str  # "cpu" or "cuda"
    bench: Bench

    def check(self, entry_due: bool = False) -> record.Case:
        """The case's row if it is right. Else fails the running test as `cudalab check` says it, or skips it.

        An entry that could run on the CPU and does not, as where g++ is missing, fails unless a GPU runs entries of its
        kernel; if `entry_due`, so does one that needs a GPU, where no entry of its kernel is tested on the CPU. A `.cu`
        with what the CPU cannot run is skipped; where there is an nvcc, it has compiled it.
        """
        __tracebackhide__ = True
        if self.device == "cuda":
            if entry_due and (why := cuda.missing()) and self.variant.name and not self.bench.has_entry(self, "cpu"):
                pytest.fail(f"no entry of {self.group.kernel.cu.name} ran: {why}", pytrace=False)
            need_gpu(self.bench.left_out(self))
        try:
            row = self.bench.row(self)
        except CudalabError as error:
            raise pytest.fail.Exception(str(error), pytrace=False) from None
        if row.status == record.SKIPPED:
            on_gpu = self.device == "cuda" or (not cuda.missing() and self.bench.has_entry(self, "cuda"))
            too_large = self.group.why or row.reason.startswith(many_blocks.COSTLY)  # the entry runs at other sizes
            if self.variant.name and not on_gpu and not row.not_on_cpu and not too_large:
                pytest.fail(f"no entry of {self.group.kernel.cu.name} ran: {row.reason}", pytrace=False)
            again = self.bench.again if self.bench.told(self, row.reason) else ""
            more = self.bench.left_out(self)
            pytest.skip(f"{again}{row.reason}{more and '; '}{more}")
        if row.status == record.ERROR and (first := self.bench.seen_in(self, row.reason)):
            pytest.fail(f"{row.status} {row.label}: the same error as {first}", pytrace=False)
        if row.status != record.OK:
            again = f" (to repeat: --cudalab-seed {self.bench.seed})" if self.bench.seed else ""
            pytest.fail(f"{row.status} {row.label}: {row.reason}{again}", pytrace=False)
        return row

    @property
    def at(self) -> str:
        """Dtype and shape, as in a test's id."""
        return f"{self.group.dtype.name}-{re.sub('[, ]+', '-', self.group.size)}"

    @property
    def key(self) -> Key:
        """The same for cases that share their arrays and are checked together."""
        group = self.group
        return group.kernel.file, group.size, group.shape, group.dtype.name, group.awkward, self.device

    def __repr__(self) -> str:
        return f"{self.group.name}-{self.variant.label}-{self.at}"


class Bench:
    """Rows of the cases of one pytest session, from one worker process for each kind of device.

    All expected variants of a group are checked when the first of its tests runs: inputs and reference are made once.
    """

    def __init__(self, timeout: float, seed: int = 0, again: str = "") -> None:
        self.timeout = timeout  # seconds of silence after which a variant is stopped
        self.seed = seed  # of the inputs
        self.again = again  # begins the reason of a skip that another test has given
        self._expected: dict[Key, list[Case]] = {}
        self._rows: dict[Key, dict[str, record.Case]] = {}
        self._sessions: dict[str, Session] = {}
        self._unusable: dict[str, CudalabError] = {}
        self._errors: dict[tuple[str, str], str] = {}  # the test that has shown an error, by kernel and reason
        self._left_out = Counter[str]()  # cases that cannot run here, by backend
        self._told: set[tuple[str, str, str]] = set()  # kernel, backend and reason of the tests that were skipped

    def repeated(self, cases: Sequence[tuple[Case, bool]]) -> set[Case]:
        """The cases that cannot run here, without the first of each backend, whose test gives the reason.

        Each is with whether it fails where no entry of its kernel runs (`entry_due`); the first of those is kept by
        kernel too.
        """
        no_gpu, there = not gpu_required() and bool(cuda.missing()), packages.versions()
        on_cpu = {case.group.kernel.file for case, _ in cases if case.variant.name and case.device == "cpu"}
        first: dict[tuple[str, str], Case] = {}
        found = set()
        for case, entry_due in cases:
            library = getattr(case.variant.backend, "library", "")
            absent = library in packages.PACKAGES and library not in there
            if absent or (no_gpu and case.device == "cuda"):
                file = case.group.kernel.file
                fails = entry_due and case.variant.name and file not in on_cpu
                if first.setdefault((case.variant.backend_name, file if fails else ""), case) is not case:
                    found.add(case)
        self._left_out = Counter(case.variant.backend_name for case in found)
        return found

    def left_out(self, case: Case) -> str:
        """What the test of a case that cannot run says of others like it, which `repeated` names."""
        count, name = self._left_out[case.variant.backend_name], case.variant.backend_name
        return f"{count} more case{'s' if count > 1 else ''} of {name} left out" if count else ""

    def told(self, case: Case, reason: str) -> bool:
        """Whether a test of this kernel and backend was skipped for the same reason before."""
        skip = case.group.kernel.file, case.variant.backend_name, reason
        before = skip in self._told
        self._told.add(skip)
        return before

    def expect(self, cases: Iterable[Case]) -> None:
        """Tell once, after the collection, which cases will be run."""
        for case in cases:
            self._expected.setdefault(case.key, []).append(case)

    def has_entry(self, case: Case, device: str) -> bool:
        """Whether an entry of the kernel of `case` is expected to be tested on this kind of device."""
        file = case.group.kernel.file
        expected = (other for key, cases in self._expected.items() if key[0] == file for other in cases)
        return any(other.variant.name and other.device == device for other in expected)

    def seen_in(self, case: Case, reason: str) -> str:
        """The earlier test that has shown this error of several lines; "" if the running test is to show it.

        A `.cu` that does not compile fails in each of its cases: what the compiler says is shown once.
        """
        if "\n" not in reason:
            return ""
        test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]  # set by pytest: "ID (call)"
        first = self._errors.setdefault((case.group.kernel.file, reason), test)
        return first if first != test else ""

    def row(self, case: Case) -> record.Case:
        """The row of an expected case. Raises CudalabError where its device cannot be used."""
        if case.key not in self._rows:
            self._rows[case.key] = self._checked(case)
            if all(key in self._rows for key in self._expected if key[-1] == case.device):
                self.close(case.device)  # later tests need the GPU's memory
        return self._rows[case.key][case.variant.label]

    def close(self, *devices: str) -> None:
        """End the workers of these kinds of devices; none given: of all."""
        for device in devices or list(self._sessions):
            if session := self._sessions.pop(device, None):
                session.__exit__(None, None, None)

    def _checked(self, case: Case) -> dict[str, record.Case]:
        group = _named_by_path(case.group)
        session = self._session(case.device)
        try:
            return {row.label: row for row in session.cases(group)}
        except CudalabError as error:
            self._unusable[case.device] = error
            raise
        except BaseException as stop:  # Ctrl-C, or a limit on a test's time: the worker is in the middle of something
            self._sessions.pop(case.device).__exit__(type(stop), stop, stop.__traceback__)
            step = session.step
            at = f"{step.label} ({step.phase})" if step.label else step.phase
            reason = f"not checked: the test that ran it together with others was stopped at {at}"
            labels = [other.variant.label for other in self._expected[case.key]]
            self._rows[case.key] = {label: failed(group, label, reason) for label in labels}
            raise

    def _session(self, device: str) -> Session:
        if device in self._unusable:
            raise self._unusable[device]
        if device not in self._sessions:
            every = [case for key in self._expected if key[-1] == device for case in self._expected[key]]
            only = ",".join(dict.fromkeys(case.variant.label for case in every))
            options = {"device": device, "only": only, "skip": "", "seed": self.seed}
            setup = setup_of(options, (), [_named_by_path(case.group) for case in every])
            setup.named = ()  # the labels are those of the tests
            session = Session("check", options, setup, Selection.parse(only, ""), self.timeout)
            try:
                self._sessions[device] = session.__enter__()
            except CudalabError as error:
                self._unusable[device] = error
                raise
        return self._sessions[device]


def _named_by_path(group: Group) -> Group:
    """Name the group by its path: kernels of one name in several folders stay apart within a session."""
    return replace(group, alias=group.kernel.file)
