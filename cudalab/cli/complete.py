"""What the shell offers on TAB. A user's spec is read, never run; nothing heavy is imported.

`cudalab completion` prints the scripts that ask for it.
"""

from __future__ import annotations

import ast
import importlib
import os
import pkgutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import click
from click.shell_completion import BashComplete, CompletionItem

Offer = list["CompletionItem[str]"]


def files(context: click.Context, param: click.Parameter, incomplete: str) -> Offer:
    """Let the shell complete a file's name."""
    return [CompletionItem(incomplete, type="file")]


def kernels(context: click.Context, param: click.Parameter, incomplete: str) -> Offer:
    """Names of the lab's kernels; where none fits, files."""
    found = [CompletionItem(name) for name in _lab() if name.startswith(incomplete)]
    return found or files(context, param, incomplete)


def sizes(context: click.Context, param: click.Parameter, incomplete: str) -> Offer:
    """Names of sizes of the kernels on the line."""
    return _listed(incomplete, _every(context, "sizes"))


def dtypes(context: click.Context, param: click.Parameter, incomplete: str) -> Offer:
    """Dtypes of the kernels on the line."""
    return _listed(incomplete, [*_every(context, "dtypes"), "all"])


def modes(context: click.Context, param: click.Parameter, incomplete: str) -> Offer:
    from cudalab.engine.plan import MODES

    return _listed(incomplete, MODES)


def devices(context: click.Context, param: click.Parameter, incomplete: str) -> Offer:
    return [CompletionItem(name) for name in ("auto", "cpu", "cuda") if name.startswith(incomplete)]


def variants(context: click.Context, param: click.Parameter, incomplete: str) -> Offer:
    """Backends; after a colon, the entries of the kernels on the line."""
    from cudalab import backends
    from cudalab.spec import find

    last = incomplete.rpartition(",")[2]
    if ":" not in last:
        return _listed(incomplete, backends.by_name())
    backend = backends.by_name().get(last.partition(":")[0])
    example = next(iter(find.kernels().values()))
    entries = _every(context, "entries") if backend and set(example.entries) & set(backend.variants(example)) else ()
    return _listed(incomplete, [f"{last.partition(':')[0]}:{entry}" for entry in entries])


def studies(context: click.Context, param: click.Parameter, incomplete: str) -> Offer:
    """Names of the lab's studies, and first `list`; where none fits, files."""
    names = sorted(m.name for m in pkgutil.iter_modules(importlib.import_module("cudalab.studies").__path__))
    words = [*(["list"] if param.name == "name" else []), *(n.replace("_", "-") for n in names if n[0] != "_")]
    return [CompletionItem(n) for n in words if n.startswith(incomplete)] or files(context, param, incomplete)


def _listed(incomplete: str, words: Iterable[str]) -> Offer:
    """Those of `words` that can end a comma-separated list, with what stands before."""
    before, comma, last = incomplete.rpartition(",")
    taken = before.split(",")
    return [CompletionItem(before + comma + w) for w in words if w.startswith(last) and w not in taken]


def _lab() -> dict[str, Path]:
    """Specs of the lab's kernels by name."""
    package = importlib.import_module("cudalab.kernels")
    folder = Path(package.__path__[0])
    return {name: folder / f"{name}.py" for name in sorted(m.name for m in pkgutil.iter_modules(package.__path__))}


def _every(context: click.Context, field: str) -> list[str]:
    """The names in one field of all specs on the line; with none there, of the lab's."""
    lab = _lab()
    words = context.params.get("kernels") or os.environ.get("COMP_WORDS", "").split()  # no params before a value's end
    specs = [Path(word).with_suffix(".py") for word in words if word.endswith((".py", ".cu")) and Path(word).stem]
    paths = [lab[word] for word in words if word in lab] + specs
    return list(dict.fromkeys(name for path in paths or lab.values() for name in _names(path, field)))


def _names(spec: Path, field: str) -> Iterator[str]:
    """The words that a spec's `Kernel(...)` gives as keys of a dict or as a sequence for `field`."""
    try:
        tree = ast.parse(spec.read_bytes())
    except (OSError, ValueError, SyntaxError, RecursionError):
        return
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Kernel":
            for value in (keyword.value for keyword in call.keywords if keyword.arg == field):
                words = value.keys if isinstance(value, ast.Dict) else getattr(value, "elts", ())
                yield from (w.value for w in words if isinstance(w, ast.Constant) and isinstance(w.value, str))


class Bash(BashComplete):
    """Bash cuts words at colons and equal signs, click wants them whole; and only the last piece is replaced."""

    cut = ""  # what stands before the piece that is replaced

    def get_completion_args(self) -> tuple[list[str], str]:
        args, incomplete = super().get_completion_args()
        joined: list[str] = []
        glue = False
        for word in [*args, incomplete]:
            if word == ":" and joined:
                joined[-1] += word
                glue = True
            elif glue:
                joined[-1] += word
                glue = False
            elif word != "=" or not joined or not joined[-1].startswith("--"):
                joined.append(word)
            elif word is incomplete:
                joined.append("")
        last = joined.pop()
        self.cut = last[: last.rfind(":") + 1] if ":" in (*args, incomplete) else ""
        return joined, last

    def format_completion(self, item: CompletionItem[str]) -> str:
        return f"{item.type},{item.value.removeprefix(self.cut)}"
