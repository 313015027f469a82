"""The user's files that a spec imports: what it says depends on them as on its own text.

A spec imports the modules beside it as a script does, but those that are installed come first.
"""

from __future__ import annotations

import ast
import importlib.util
import site
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache
from importlib.machinery import (
    BYTECODE_SUFFIXES,
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
    SourcelessFileLoader,
)
from pathlib import Path
from types import ModuleType

from cudalab.base.errors import SpecError

LAB = __package__.partition(".")[0]
added: set[str] = set()  # folders that are on sys.path by `add_folder`: each process that loads these specs adds them


def add_folder(spec: Path) -> None:
    """Let a spec import the modules of its folder.

    Raises SpecError where it would get a module of the same name from another folder of the user.
    """
    folder = spec.resolve().parent
    left, seen = [spec], {spec}
    while left:
        file = left.pop()
        for head in {name.partition(".")[0] for name in _names(file)}:
            ours = next(filter(Path.is_file, (folder / f"{head}.py", folder / head / "__init__.py")), None)
            if ours is None or ours in seen:
                continue
            theirs = _file_of(head)
            if theirs and theirs.resolve() != ours.resolve():
                if not _of_user(theirs):
                    continue
                raise SpecError(f"{file}: `import {head}` gives {theirs}, not {ours}; rename one of the two modules")
            seen.add(ours)
            left.append(ours)
    finder = sys.path_importer_cache.get(str(folder))
    if not isinstance(finder, _Folder):
        finder = sys.path_importer_cache[str(folder)] = _Folder(folder)
    finder.specs.add(spec)
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
        added.add(str(folder))
        importlib.invalidate_caches()


class _Folder(FileFinder):
    """Finds modules in the folder of specs. A folder there without `__init__.py` is one where they import what it has.

    Libraries try to import others: PyTorch's compiler would take any folder triton/ for Triton, where that is absent.
    """

    def __init__(self, place: Path) -> None:
        self.specs, self.place = set[Path](), place
        super().__init__(
            str(place),
            (ExtensionFileLoader, EXTENSION_SUFFIXES),
            (SourceFileLoader, SOURCE_SUFFIXES),
            (SourcelessFileLoader, BYTECODE_SUFFIXES),
        )

    def find_spec(self, fullname: str, target: ModuleType | None = None) -> ModuleSpec | None:
        found = super().find_spec(fullname, target)
        if found is None or found.loader or "." in fullname or self._is_used(fullname):  # "." : of a package
            return found
        return None

    def _is_used(self, name: str) -> bool:
        """Whether a spec, or a file that it imports, imports something that is in the folder `name`."""
        try:
            there = {f"{name}.{path.name.partition('.')[0]}" for path in (self.place / name).iterdir()}
        except OSError:
            return False
        return any(not there.isdisjoint(_names(file)) for spec in self.specs for file in (spec, *on_disk(spec)))


def _file_of(module: str) -> Path | None:
    """The file that an import of a module gives now; None where none would be found."""
    try:
        found = importlib.util.find_spec(module)
    except ValueError:  # such as __main__
        return None
    return Path(found.origin) if found and found.has_location and found.origin else None


def files(spec: Path) -> dict[str, Path]:
    """The Python files of loaded modules, by their names: none of the lab's, of Python's, and none installed."""
    found: dict[str, Path] = {}
    left = [spec]
    while left:
        for name in _names(left.pop()):
            file = Path(getattr(sys.modules.get(name), "__file__", None) or "")
            if (
                name not in found
                and name.partition(".")[0] != LAB
                and file.suffix == ".py"
                and file.is_file()
                and _of_user(file)
            ):
                found[name] = file
                left.append(file)
    return dict(sorted(found.items()))


def on_disk(spec: Path) -> list[Path]:
    """The user's Python files that a spec imports, directly or not, found without running any of them."""
    found: list[Path] = []
    left = [spec]
    while left:
        for name in _names(left.pop()):
            head, *rest = name.split(".")
            for place in (Path(entry or ".", head) for entry in (*sys.path, str(spec.parent))):
                whole = place.joinpath(*rest)
                for file in (whole.with_suffix(".py"), whole / "__init__.py"):
                    if file not in found and head != LAB and file.is_file() and _of_user(file):
                        found.append(file)
                        left.append(file)
    return found


def _names(file: Path) -> Iterator[str]:
    """The modules that a file may import, with the packages that they are in."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, ValueError, SyntaxError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            whole = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            whole = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in whole:
            parts = name.split(".")
            yield from (".".join(parts[: i + 1]) for i in range(len(parts)))


def _of_user(file: Path) -> bool:
    return not any(where.is_relative_to(place) for where in (file.absolute(), file.resolve()) for place in _installed())


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
