"""The user's files that a spec imports: what it says depends on them as on its own text."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from cudalab.spec import neighbours
from cudalab.spec.neighbours import LAB, of_user


def files(spec: Path) -> dict[str, Path]:
    """The Python files of loaded modules, by their names: none of the lab's, of Python's, and none installed."""
    found: dict[str, Path] = {}
    left = [spec]
    while left:
        for name in _names(left.pop()):
            file = Path(getattr(neighbours.module(name, spec), "__file__", None) or "")
            if (
                name not in found
                and name.partition(".")[0] != LAB
                and file.suffix == ".py"
                and file.is_file()
                and of_user(file)
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
                    if file not in found and head != LAB and file.is_file() and of_user(file):
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
