"""Places of a spec that its author has not filled in: `todo("the value of eps")`, as `cudalab new` writes them.

They are found in the text of the spec, so that a run ends before anything is compiled, and names all of them.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import NoReturn

from cudalab.base.errors import SpecError

MARK = "TODO"  # also marks what has a guessed value, and may stay


def todo(what: str) -> NoReturn:
    """Stand in a spec for what only its author knows. No command that measures takes such a spec."""
    raise SpecError(f"fill in {what}: a todo(...) of a spec has no value")


def refuse(spec: Path) -> None:
    """Raise SpecError if a spec calls `todo`; the message has the line of each place and what it lacks."""
    try:
        text = spec.read_text(encoding="utf-8")
        found = _places(ast.parse(text)) if todo.__name__ in text else {}
    except (OSError, SyntaxError, ValueError):  # gone or changed since it was loaded
        return
    if not found:
        return
    first, *others = sorted(found)
    said = [f"{spec}:{first}: fill in {found[first]}"]
    said += [f"{spec}:{line}: fill in {found[line]}" for line in others]
    marked = [i for i, line in enumerate(text.splitlines(), 1) if MARK in line and i not in found]
    if marked:
        several = len(marked) > 1
        said.append(
            f"also marked {MARK}: line{'s' * several} {', '.join(map(str, marked))} "
            f"({'guesses are filled in; check them' if several else 'a guess is filled in; check it'})"
        )
    raise SpecError("\n".join(said))


def _places(tree: ast.Module) -> dict[int, str]:
    """The calls of `todo` of cudalab, by line: what is lacking there."""
    names = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "cudalab"
        for alias in node.names
        if alias.name == todo.__name__
    }
    found: dict[int, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
            what = " ".join(str(a.value) if isinstance(a, ast.Constant) else ast.unparse(a) for a in node.args)
            found[node.lineno] = f"{found[node.lineno]}; {what}" if node.lineno in found else what
    return found
