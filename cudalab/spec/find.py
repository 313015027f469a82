"""Find kernels by their files. Nothing registers itself."""

from __future__ import annotations

import fnmatch
import importlib
import importlib.util
import os
import pkgutil
import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from functools import cache
from importlib.machinery import SourceFileLoader
from math import prod
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import numpy as np

from cudalab.base import genuine
from cudalab.base.bounded import Interrupted, Stopped, bounded, guarded
from cudalab.base.errors import CudalabError, InputError, SpecError, at_line, message_of, short, unknown, why
from cudalab.base.globs import names_of
from cudalab.base.text import visible
from cudalab.spec import cuda_source, entry_names, imported, plain, python_source, validate
from cudalab.spec.dtype import DTYPES
from cudalab.spec.kernel import Kernel

Bad = Callable[[SpecError], object]  # is told of a spec that cannot be used
LAB = "cudalab.kernels"  # the package with the lab's own kernels


@cache
def lab_names() -> tuple[str, ...]:
    """The names of the lab's own kernels, which need not be imported for that."""
    package = importlib.import_module(LAB)
    return tuple(info.name for info in pkgutil.iter_modules(package.__path__) if not info.name.startswith("_"))


@cache
def kernels() -> dict[str, Kernel]:
    """The lab's own kernels, by name."""
    return {name: _of_lab(name) for name in lab_names()}


@cache
def _of_lab(name: str) -> Kernel:
    return _spec_of(importlib.import_module(f"{LAB}.{name}"))


def of_lab(kernel: Kernel) -> bool:
    """Whether a kernel is one of the lab's own."""
    return Path(kernel.file).resolve().parent in _folders()


@cache
def _folders() -> frozenset[Path]:
    return frozenset(Path(folder).resolve() for folder in importlib.import_module(LAB).__path__)


def kernel(name: str) -> Kernel:
    """A kernel by its name in the lab, or by the path of its spec (`./mine/softmax.py`) or `.cu`."""
    if is_path(name):
        return _load(_path(name))
    if name not in (known := lab_names()):
        beside = _beside(Path())
        hint = unknown("kernel", name, known, beside)
        if not any(repr(path) in str(hint) for path in beside.values()):
            own = f"./{name}" if _is_folder(Path(name)) else f"./{Path(name).stem}.py"
            hint.args = (f"{hint}; a kernel of your own is named by its path, such as {own}",)
        raise hint
    return _of_lab(name)


def chosen(names: Iterable[str], bad: Bad | None = None) -> list[Kernel]:
    """The kernels of these names: each a name, a glob on the lab's names, the path of a spec or `.cu`, or a folder.

    A folder stands for its own specs, without those of its subfolders. One of them that cannot be used is told to `bad`
    and left out; without `bad` it raises SpecError, as a spec that is named itself does.
    """
    found: list[Kernel] = []
    for name in names:
        if not is_path(name) and any(c in name for c in "*?["):
            fitting = fnmatch.filter(lab_names(), name)
            if not fitting:
                raise unknown("kernel", name, lab_names())
            found += [_of_lab(fit) for fit in fitting]
        elif is_path(name) and (path := _path(name)).is_dir():
            for spec in _specs(path):
                try:
                    found.append(_load(spec))
                except SpecError as error:
                    if bad is None:
                        raise
                    bad(error)
        else:
            found.append(kernel(name))
    return found


def specs(name: str) -> list[Path]:
    """The specs of the kernels that `chosen` gives for a name, which are not loaded. Raises as it does."""
    if is_path(name):
        path = _path(name)
        return _specs(path) if path.is_dir() else [_there(path)]
    fitting = fnmatch.filter(lab_names(), name)
    if not fitting:
        chosen([name])
    folder = next(iter(importlib.import_module(LAB).__path__))
    return [Path(folder).resolve() / f"{fit}.py" for fit in fitting]


def words(given: Iterable[Any]) -> list[str]:
    """Kernels as Python code gives them, as the command line names them: texts, paths, kernels, and lists of those."""
    found: list[str] = []
    for one in given:
        if isinstance(one, Kernel):
            found.append(one.name if of_lab(one) else one.file)
        elif isinstance(one, str):
            found += names_of(one)
        elif isinstance(one, os.PathLike):
            path = os.fsdecode(one)
            found.append(path if is_path(path) else f"./{path}")
        elif isinstance(one, (list, tuple, set, frozenset)):
            found += words(one)
        else:
            raise InputError(
                f"got {short(one)} of type {type(one).__name__} for a kernel; give a name such as 'gelu', a path, a "
                "Kernel, or a list of these"
            )
    return found


def is_path(name: str) -> bool:
    """Whether a name is the path of a file, not the name of one of the lab's kernels."""
    return "/" in name or name.endswith((".py", ".cu")) or name in (".", "..")


def of_results(names: Sequence[str], path: str, command: str, option: str) -> tuple[str, ...]:
    """The kernels that the results in `path` name, for a `command` that has an `option` for such a file.

    Raises InputError if one is a file: what only a results file names is never run.
    """
    if specs := [name for name in names if is_path(name)]:
        again = f"{command} {shlex.join(names)} {option} {shlex.quote(path)}"
        raise InputError(
            f"{path} names the spec {short(specs[0])}. A spec that only a results file names is not run. "
            f"If you trust it, name it yourself: {again}"
        )
    return tuple(names)


def _path(name: str) -> Path:
    """The path of a spec. It must be UTF-8, as the results file that will hold it is."""
    try:
        path, stem = Path(name).resolve(), name.removesuffix(".py").removesuffix(".cu")
        if not path.is_dir() or Path(f"{stem}.py").is_file():
            path = Path(f"{stem}.py").resolve()
        str(path).encode()
        path.is_file()  # raises for a name that is too long
    except (OSError, ValueError, RuntimeError) as error:  # a zero byte, no name, undecodable bytes, a loop of links
        message = f"{short(name)} cannot be the path of a spec: {why(error)}; give one such as ./softmax.py"
        raise SpecError(message) from None
    return path


def _load(path: Path) -> Kernel:
    if path.is_dir():
        first, *more = _specs(path)
        if more:
            listed = " ".join(shlex.quote(str(s)) for s in (first, *more))
            raise SpecError(f"{path} is a folder with several specs, and one is needed here; give one of: {listed}")
        path = first
    with guarded():
        return _spec_of(loaded(_there(path)))


def _there(path: Path) -> Path:
    """The path of a spec. Raises SpecError where there is none."""
    if not path.is_file():
        if path.exists():
            raise SpecError(f"{path} is not a regular file; put the spec itself there")
        code = path.with_suffix(".cu")
        close = get_close_matches(path.stem, others := _beside(path.parent), n=1)
        advice = f"; did you mean {others[close[0]]}?" if close else ""
        advice = f"; write one: cudalab new {shlex.quote(str(code))}" if code.is_file() else advice
        raise SpecError(f"no spec at {path}; a kernel is a pair of files, name.cu and name.py{advice}")
    if not path.with_suffix(".cu").exists() and python_source.has_code(path, of_another=True):
        raise SpecError(_no_spec(path))
    return path


def _no_spec(path: Path) -> str:
    """What is said of a Python file with CUDA code that is no spec."""
    return f"{path} has CUDA code in a string and no .cu beside it; write both: cudalab new {shlex.quote(str(path))}"


def _specs(folder: Path) -> list[Path]:
    """The specs of a folder that have a `.cu` beside them. Raises SpecError if there are none."""
    pairs = sorted(f.with_suffix(".py") for f in folder.glob("*.cu") if f.with_suffix(".py").is_file())
    if not pairs:
        below = sorted({f.parent for f in folder.glob("*/*.cu") if f.with_suffix(".py").is_file()})
        advice = " ".join(shlex.quote(str(f)) for f in below) or "a spec, such as ./softmax.py"
        raise SpecError(f"{folder} is a folder without a pair of .cu and .py; give {advice}")
    return pairs


def _beside(folder: Path) -> dict[str, str]:
    """The user's files in a folder that may be kernels: by name, what to type. A spec comes before its `.cu`."""
    try:
        files = sorted(f for f in folder.iterdir() if f.suffix in (".cu", ".py"))
    except OSError:
        return {}
    return {file.stem: str(file) if file.is_absolute() else f"./{file}" for file in files}  # .py replaces .cu


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # too long, or a zero byte
        return False


def loaded(path: Path) -> ModuleType:
    """The module in a user's file.

    Raises SpecError if it cannot be imported, ends the process, takes too long, or replaces what others use.
    """
    # A file that has changed since it was loaded becomes another module, so that no stale kernel is measured.
    module_name = f"cudalab_user_{path.stem}_{cuda_source.digest(path)[:16]}_{abs(hash(path)):x}"
    if module_name not in sys.modules:
        found = importlib.util.spec_from_file_location(module_name, path, loader=_Fresh(module_name, str(path)))
        assert found is not None and found.loader is not None
        imported.add_folder(path)
        genuine.watch()
        before = {*genuine.replaced(), *genuine.configured()}
        module = sys.modules[module_name] = importlib.util.module_from_spec(found)
        try:
            with bounded():
                found.loader.exec_module(module)
        except BaseException as error:  # also SystemExit, from a file that calls exit()
            del sys.modules[module_name]
            if isinstance(error, (KeyboardInterrupt, Interrupted)) or (
                isinstance(error, CudalabError) and str(path) in str(error)
            ):
                raise
            raise SpecError(f"{path}: {at_line(_said(error), error, path)}") from error
        if names := sorted({*genuine.replaced(), *genuine.configured()} - before):
            del sys.modules[module_name]
            raise SpecError(f"{path}: {genuine.refusal(names)}")
    return sys.modules[module_name]


class _Fresh(SourceFileLoader):
    """Compiles the file as it is now. Python's cache compares length and seconds, which an edit may keep."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def _said(error: BaseException) -> str:
    if isinstance(error, Stopped):
        return f"{error}; a spec must only define its kernel"
    try:
        with bounded():  # its __str__ may be the author's
            return visible(message_of(error).rstrip(": "), keep="\n")
    except Stopped:
        return type(error).__name__


def _spec_of(module: ModuleType) -> Kernel:
    specs = [v for v in vars(module).values() if isinstance(v, Kernel) and v.file == module.__file__]
    if len(specs) != 1:
        path = Path(str(module.__file__))
        if not specs and not path.with_suffix(".cu").exists() and python_source.has_code(path):
            raise SpecError(_no_spec(path))
        raise SpecError(f"{path} must define one `{path.stem} = Kernel(file=__file__, ...)`, found {len(specs)}")
    if wrong := plain.wrong(specs[0]):
        raise SpecError(f"{module.__file__}: {wrong}")
    text = cuda_source.read(specs[0].cu)
    for entry in specs[0].entries:
        if (wrong := entry_names.wrong(text, entry)) and not _launches_others(specs[0], entry):
            raise SpecError(f"{specs[0].cu}: {wrong}")
    return specs[0]


def _launches_others(kernel: Kernel, entry: str) -> bool:
    """Whether the launches of an entry name their `__global__` functions, so that its own name is free."""
    try:
        size = min((*kernel.edges, *kernel.sizes.values()), key=prod)
        arrays: dict[str, Any] = dict(kernel.make(size, DTYPES[kernel.dtypes[0]]))
        shapes = {name: array.shape for name, array in arrays.items()}
        own = {name: np.empty(kernel.shape_of(name, shapes)) for name in kernel.array_names if name not in arrays}
        scalars = kernel.scalars_of(arrays)
        taken = kernel.taken(entry, {**kernel.parameters, **scalars})
        given = validate.called(kernel.entries[entry], **arrays, **own, **taken)
    except Exception:  # from the spec's own functions; the error about the name comes first
        return False
    every = given if isinstance(given, tuple) else (given,)
    return bool(every) and all(getattr(one, "entry", "") for one in every)
