"""Finding studies by name or path, and planning a run: workloads and settings.

The lab's studies are the modules of the package that PACKAGE names.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from cudalab.base.errors import InputError, SpecError, short, unknown, why
from cudalab.base.globs import split
from cudalab.engine.messages import Sent, Task
from cudalab.spec import find
from cudalab.spec.dtype import DType, dtype
from cudalab.study import fields, sources
from cudalab.study.record import Setting, Study, Variant

if TYPE_CHECKING:
    from cudalab.results.record import Results


PACKAGE = "cudalab.studies"  # by name: its modules import this package
MOST = 2**53  # above every setting: JSON readers tell smaller whole numbers apart, and it excludes infinity and NaN
_users: dict[str, Study] = {}  # studies of users' files, by the path as it was given


@cache
def studies() -> dict[str, Study]:
    """Every study of the lab. Its name is its file's, with dashes for underscores."""
    folder = importlib.import_module(PACKAGE).__path__
    names = sorted(m.name for m in pkgutil.iter_modules(folder) if not m.name.startswith("_"))
    found = (importlib.import_module(f"{PACKAGE}.{name}").study for name in names)
    return {study.name: study for study in found}


def study(name: str) -> Study:
    """The study of this name, or in the file at this path. Raises NotFound with the closest name, or SpecError."""
    if find.is_path(name):
        _users[name] = _in_file(name)
        return _users[name]
    if name not in studies():
        raise unknown("study", name, studies())
    return studies()[name]


def _in_file(name: str) -> Study:
    try:
        path = Path(name).resolve()
        there = path.is_file()
        str(path).encode()
    except (OSError, ValueError, RuntimeError) as error:  # a zero byte, undecodable bytes, too long; a ring of links
        raise SpecError(
            f"{short(name)} cannot be the path of a study: {why(error)}; give one such as ./mine.py"
        ) from None
    if not there:
        raise SpecError(f"no study at {path}; the lab's own are named without a path: {', '.join(studies())}")
    held = [v for v in vars(find.loaded(path)).values() if isinstance(v, Study) and v.file == str(path)]
    if len(held) != 1:
        raise SpecError(f"{path} must define one `study = Study(file=__file__, ...)`, found {len(held)}")
    return fields.checked(held[0])


def study_of(run: Results) -> Study:
    """The study of a run. If it is unknown here, a stand-in with what the run tells.

    A file that a results file names is never run.
    """
    name = str(run.options["study"])
    return _users.get(name) or studies().get(name) or _told(run, name)


def _told(run: Results, name: str) -> Study:
    labels = dict.fromkeys(case.label for case in run.cases)
    sizes: dict[str, Mapping[str, Any]] = {case.size: {} for case in run.cases}
    return Study(
        file=name, summary="a study that this cudalab does not have", sizes=sizes, variants=(), defaults={},
        baseline=str(run.options.get("baseline") or next(iter(labels), "")), finding=lambda run: "",
    )  # fmt: skip


@dataclass(frozen=True)
class Workload:
    """Variants of a study that share a size and their rounds, as a `plan.Group` of a kernel."""

    study: Study
    size: str
    settings: Mapping[str, Setting] = field(default_factory=dict)  # all of the study's

    path: str = ""  # of the file of a user's study

    parts = 1  # for the same use as in plan.Group
    timed = True

    @property
    def name(self) -> str:
        return self.study.name

    @property
    def file(self) -> str:
        return self.study.file

    @property
    def files(self) -> dict[str, Path]:
        return sources.files(self.study)

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of the size, and the settings that the size does not override."""
        return {**self.settings, **self.study.sizes[self.size]}

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.parameters.get("shape", ()))

    @property
    def dtype(self) -> DType:
        return dtype(str(self.parameters.get("dtype", "float32")))

    def variants(self) -> list[Variant]:
        """The variants of this size, the baseline first: the others are compared with it."""
        here = [v for v in self.study.variants if not v.sizes or self.size in v.sizes]
        return sorted(here, key=lambda v: v.label != self.study.baseline)

    def task(self, omit: tuple[str, ...] = (), timed: bool = True) -> Task:
        """Implements `cudalab.engine.selection.Rows.task`."""
        return Task.of("cudalab.study.engine:ordered", self._work(omit, timed), self.files)

    def sent(self) -> Sent:
        """Implements `cudalab.engine.selection.Rows.sent`."""
        return Sent.of("cudalab.study.found:received", self._work())

    def _work(self, omit: tuple[str, ...] = (), timed: bool = True) -> StudyWork:
        return StudyWork(self.path or self.name, self.size, dict(self.settings), omit, timed)

    def __str__(self) -> str:
        return f"{self.name} {self.size}"


class StudyWork(msgspec.Struct):
    """A workload as JSON, for the worker. `omit`: labels of variants to leave out; `timed` False: check only."""

    study: str  # its name, or the path of its file
    size: str
    settings: dict[str, Setting]
    omit: tuple[str, ...] = ()
    timed: bool = True

    def workload(self) -> Workload:
        found = study(self.study)
        return Workload(found, self.size, self.settings, self.study if self.study != found.name else "")


def received(payload: msgspec.Raw) -> Workload:
    """The workload of `Workload.sent`."""
    return msgspec.json.decode(payload, type=StudyWork).workload()


def workloads(
    study: Study, size_text: str, settings: Mapping[str, Setting], device: str, path: str = ""
) -> list[Workload]:
    """The workloads of a run on a kind of device. Raises InputError or NotFound for sizes that the study does not have.

    `size_text`: a comma-separated list, "all", or empty for the study's defaults on that device.
    """
    if not size_text and device not in study.defaults:
        here, there = ("GPU", "the CPU; add --device cpu") if device == "cuda" else ("CPU", "a GPU")
        raise InputError(f"{study.name} does not run on a {here}: {study.why or f'it is for {there}'}")
    names = tuple(study.sizes) if size_text == "all" else split(size_text) if size_text else study.defaults[device]
    if not names:
        known = ", ".join(study.sizes)
        raise InputError(f"--size is {short(size_text)}, which names nothing; {study.name} has {known}")
    for name in names:
        if name not in study.sizes:
            raise unknown(f"size of {study.name}", name, study.sizes)
    return [Workload(study, name, settings, path) for name in dict.fromkeys(names)]


def chosen(study: Study, given: Mapping[str, str]) -> dict[str, Setting]:
    """All settings of a study, with the values in `given` (texts) read. Raises NotFound or InputError."""
    found = dict(study.settings)
    for key, text in given.items():
        if key not in found:
            raise unknown(f"setting of {study.name}", key, found)
        found[key] = _read(key, text, found[key])
    return found


def _read(key: str, text: str, default: Setting) -> Setting:
    if isinstance(default, bool):
        words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
        if text.lower() not in words:
            raise InputError(f"{key} is {short(text)}; give yes or no")
        return words[text.lower()]
    try:
        value = type(default)(text)
        if isinstance(value, str) or abs(value) < MOST:
            return value
        raise ValueError("no results file can hold it")
    except ValueError:
        kind = {int: "a whole number", float: "a number"}.get(type(default), "a text")
        raise InputError(f"{key} is {short(text)}; give {kind}, such as --set {key}={default}") from None
