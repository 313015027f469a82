"""What TAB completes, beyond what click completes itself: commands, options and choices.

The shell scripts come from click; `cudalab completion` prints them. A user's spec is parsed and never run.
"""

from __future__ import annotations

import ast
import importlib
import os
import pkgutil
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import click
from click.shell_completion import BashComplete, CompletionItem, split_arg_string

Offer = list["CompletionItem[str]"]

files = click.Path().shell_complete
devices = click.Choice(("auto", "cpu", "cuda")).shell_complete


def kernels(context: click.Context, param: click.Parameter, incomplete: str) -> Offer:
    """Complete the name of one of the lab's kernels; else a file."""
    return _words(_modules("cudalab.kernels"), incomplete) or files(context, param, incomplete)


def sizes(context: click.Context, param: click.Parameter, incomplete: str) -> Offer:
    """Complete a list of size names of the kernels on the line."""
    return _listed(incomplete, _fields("sizes"))


def dtypes(context: click.Context, param: click.Parameter, incomplete: str) -> Offer:
    """Complete a list of dtypes of the kernels on the line."""
    return _listed(incomplete, [*_fields("dtypes"), "all"])


def modes(context: click.Context, param: click.Parameter, incomplete: str) -> Offer:
    """Complete a list of timing modes."""
    from cudalab.engine.plan import MODES

    return _listed(incomplete, MODES)


def variants(context: click.Context, param: click.Parameter, incomplete: str) -> Offer:
    """Complete a list of backends; after a colon, an entry of the kernels on the line."""
    from cudalab import backends
    from cudalab.spec import find

    last = incomplete.rpartition(",")[2]
    if ":" not in last:
        return _listed(incomplete, backends.by_name())
    backend = backends.by_name().get(last.partition(":")[0])
    example = next(iter(find.kernels().values()))
    entries = _fields("entries") if backend and set(example.entries) & set(backend.variants(example)) else ()
    return _listed(incomplete, [f"{last.partition(':')[0]}:{entry}" for entry in entries])


def strategies(context: click.Context, param: click.Parameter, incomplete: str) -> Offer:
    """Complete the name of a search strategy."""
    from cudalab.tools.tune.tune import STRATEGIES

    return _words(STRATEGIES, incomplete)


def studies(context: click.Context, param: click.Parameter, incomplete: str) -> Offer:
    """Complete the name of one of the lab's studies, or `list` as the first word; else a file."""
    names = [name.replace("_", "-") for name in _modules("cudalab.studies") if name[0] != "_"]
    words = ["list", *names] if param.name == "name" else names
    return _words(words, incomplete) or files(context, param, incomplete)


def _words(words: Iterable[str], incomplete: str) -> Offer:
    return [CompletionItem(word) for word in words if word.startswith(incomplete)]


def _listed(incomplete: str, words: Iterable[str]) -> Offer:
    """Complete the last item of a comma-separated list by those of `words` that the list does not have yet."""
    before, comma, _ = incomplete.rpartition(",")
    return _words([before + comma + word for word in words if word not in before.split(",")], incomplete)


def _modules(package: str) -> list[str]:
    """Return the names of a package's modules without importing them."""
    return sorted(module.name for module in pkgutil.iter_modules(importlib.import_module(package).__path__))


def _fields(field: str) -> list[str]:
    """Return the names in one field of all specs on the line; if it has none, of all kernels of the lab."""
    folder = Path(importlib.import_module("cudalab.kernels").__path__[0])
    lab = {name: folder / f"{name}.py" for name in _modules("cudalab.kernels")}
    # The line itself is read, because click has parsed no arguments while the value of an option is incomplete.
    words = split_arg_string(os.environ.get("COMP_WORDS", ""))
    specs = [Path(word).with_suffix(".py") for word in words if word.endswith((".py", ".cu")) and Path(word).stem]
    paths = [lab[word] for word in words if word in lab] + specs
    return list(dict.fromkeys(name for path in paths or lab.values() for name in _names(path, field)))


def _names(spec: Path, field: str) -> Iterator[str]:
    """Yield the texts that `Kernel(...)` in a spec has in `field`, a sequence or the keys of a dict."""
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
    """Bash splits words at colons and equal signs, click expects whole words, and bash replaces only the last piece."""

    cut = ""  # the part of the last word that bash does not replace

    def get_completion_args(self) -> tuple[list[str], str]:
        args, incomplete = super().get_completion_args()
        pieces = [*args, incomplete]
        text = re.sub(r"\n:(\n|$)", ":", "\n".join(pieces))
        text = re.sub(r"^(--.*)\n=(\n|$)", r"\1\n", text, flags=re.MULTILINE)
        *whole, last = text.split("\n")
        self.cut = last[: last.rfind(":") + 1] if ":" in pieces else ""
        return whole, last

    def format_completion(self, item: CompletionItem[str]) -> str:
        return f"{item.type},{item.value.removeprefix(self.cut)}"
