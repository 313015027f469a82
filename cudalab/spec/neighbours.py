"""Modules beside a spec, which its files import by name, as those beside a script.

What is installed comes first. Each folder has modules of its own: an import in one of its files gets these, whatever a
file of another folder has imported by the same name. `sys.modules` has those of the folder that asked last.
"""

from __future__ import annotations

import builtins
import importlib.util
import site
import sys
import sysconfig
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, partial
from importlib.abc import MetaPathFinder
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
)
from pathlib import Path
from threading import RLock
from types import CodeType, ModuleType
from typing import Any

LAB = __package__.partition(".")[0]
_lock = RLock()
_shown: dict[str, _Folder] = {}  # by first name: the folder whose modules `sys.modules` has
_known: set[str] = set()  # first names of modules that are installed


def loader(name: str, file: Path) -> SourceFileLoader:
    """What loads a user's file as the module `name`, which can import the modules of its folder."""
    return _Loader(_folder(file.resolve().parent), name, str(file))


def module(name: str, spec: Path) -> ModuleType | None:
    """The loaded module that a spec knows by this name; None if there is none."""
    return _folder(spec.resolve().parent).module(name) or sys.modules.get(name)


def of_user(file: Path) -> bool:
    """Whether a file is none of the lab's, of Python's, and none installed."""
    return not any(where.is_relative_to(place) for where in (file.absolute(), file.resolve()) for place in _installed())


@cache
def _folder(path: Path) -> _Folder:
    return _Folder(path)


class _Folder:
    """A folder with the user's files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._aside: dict[str, dict[str, ModuleType]] = {}  # by first name: modules that `sys.modules` lacks now

    def module(self, name: str) -> ModuleType | None:
        """The module of this folder that has been imported by this name."""
        head = name.partition(".")[0]
        there = sys.modules if _shown.get(head) is self else self._aside.get(head, {})
        return there.get(name)

    def found(self, name: str, places: Iterable[str]) -> ModuleSpec | None:
        """Find a module of this folder, or of a package in it, in these places."""
        kinds: Any = (ExtensionFileLoader, EXTENSION_SUFFIXES), (partial(_Loader, self), SOURCE_SUFFIXES)
        specs = (FileFinder(place, *kinds).find_spec(name) for place in places)
        return next(filter(None, specs), None)

    def imported(
        self, name: str, globals: Mapping[str, Any] | None = None, locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] = (), level: int = 0,
    ) -> ModuleType:  # fmt: skip
        """Do what `builtins.__import__` does, which calls this for each import in a file of the folder."""
        within = str((globals or {}).get("__package__") or "")
        head = (within if level else name).partition(".")[0]
        with _lock:
            if self._has(head):
                others = self._show(head)
                try:
                    return builtins.__import__(name, globals, locals, fromlist, level)
                finally:
                    self._restore(head, others)
        return builtins.__import__(name, globals, locals, fromlist, level)

    def _has(self, head: str) -> bool:
        """Whether this name is one of the folder's modules, and of none that is installed."""
        if head in _known:
            return False
        if _shown.get(head) is self or head in self._aside:
            return True
        ours = self.found(head, [str(self.path)])
        if not ours:
            return False
        theirs = None if head in _shown else _elsewhere(head)
        if theirs and theirs.origin and not (theirs.has_location and of_user(Path(theirs.origin))):
            _known.add(head)
            return False
        # A folder without __init__.py comes after a module, and `sys.path` may lead to the same file.
        same = theirs and theirs.origin and ours.origin and Path(theirs.origin).resolve() == Path(ours.origin).resolve()
        return not theirs or bool(ours.origin and not same)

    def _show(self, head: str) -> dict[str, ModuleType]:
        """Put the modules of this name into `sys.modules`; return those that are no folder's and had the name."""
        other = _shown.get(head)
        if other is self:
            return {}
        taken = _taken(head)
        if other:
            other._aside[head], taken = taken, {}
        sys.modules.update(self._aside.pop(head, {}))
        _shown[head] = self
        return taken

    def _restore(self, head: str, others: dict[str, ModuleType]) -> None:
        """Undo `_show` where another module had the name, or the import has failed."""
        if others:
            self._aside[head] = _taken(head)
            sys.modules.update(others)
        if others or head not in sys.modules:
            del _shown[head]
            self._aside = {name: modules for name, modules in self._aside.items() if modules}


def _taken(head: str) -> dict[str, ModuleType]:
    """Take a module and those below it out of `sys.modules`."""
    return {name: sys.modules.pop(name) for name in [*sys.modules] if name == head or name.startswith(f"{head}.")}


def _elsewhere(head: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(head)
    except ValueError:  # such as __main__, which has none
        return ModuleSpec(head, None, origin="built-in")


class _Finder(MetaPathFinder):
    """Finds the modules of the folders that are shown."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        folder = _shown.get(fullname.partition(".")[0])
        return folder.found(fullname, path or [str(folder.path)]) if folder else None


class _Loader(SourceFileLoader):
    """Compiles a file as it is now, and lets it import the modules of its folder.

    Python's cache compares length and seconds, which an edit may keep.
    """

    def __init__(self, folder: _Folder, fullname: str, path: str) -> None:
        super().__init__(fullname, path)
        self._folder = folder

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__builtins__"] = {**vars(builtins), "__import__": self._folder.imported}
        super().exec_module(module)


@cache
def _installed() -> tuple[Path, ...]:
    """Folders of installed modules, as they are named and where links lead."""
    known = sysconfig.get_paths()
    places = [known[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    places += [
        site.getusersitepackages(),
        str(LAB),
        *(p for p in sys.path if Path(p).name in ("site-packages", "dist-packages")),
    ]
    return tuple({form for place in places for form in (Path(place).absolute(), Path(place).resolve())})


sys.meta_path.insert(0, _Finder())
