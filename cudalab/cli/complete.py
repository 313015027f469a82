"""What TAB completes, beyond what click completes itself: commands, options and choices.

The shell scripts come from click; `cudalab completion` prints them. A user's spec is parsed and never run.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import os
import pkgutil
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import click
from click.shell_completion import BashComplete, CompletionItem, split_arg_string

READERS = ("show", "compare", "report", "convert")  # the commands that read results files
Offer = list["CompletionItem[str]"]

files = click.Path().shell_complete
devices = click.Choice(("auto", "cpu", "cuda")).shell_complete


def kernels(context: click.Context, param: click.Parameter, incomplete: str) -> Offer:
    """Complete the name of one of the lab's kernels or of the results' on the line; else a file."""
    names = _of_results(context, "kernel") or _modules("cudalab.kernels")
    found = _listed(incomplete, names) if isinstance(param, click.Option) else _words(names, incomplete)
    return found or files(context, param, incomplete)


def sizes(context: click.Context, param: click.Parameter, incomplete: str) -> Offer:
    """Complete a list of size names of the kernels, the study or the results on the line."""
    return _listed(incomplete, [*(_of_results(context, "size") or _of_study(context) or _fields("sizes")), "all"])


def dtypes(context: click.Context, param: click.Parameter, incomplete: str) -> Offer:
    """Complete a list of dtypes of the kernels or the results on the line."""
    return _listed(incomplete, [*(_of_results(context, "dtype") or _fields("dtypes")), "all"])


def tunables(context: click.Context, param: click.Parameter, incomplete: str) -> Offer:
    """Complete a list of tunables of the kernels on the line; their values are typed."""
    return _listed(incomplete, [f"{name}=" for name in _fields("tunables")])


def modes(context: click.Context, param: click.Parameter, incomplete: str) -> Offer:
    """Complete a list of timing modes."""
    from cudalab.engine.plan import MODES

    return _listed(incomplete, MODES)


def variants(context: click.Context, param: click.Parameter, incomplete: str) -> Offer:
    """Complete a list of backends, of entries, or of the variants in the results on the line.

    After a colon, complete an entry of the kernels on the line.
    """
    from cudalab import backends
    from cudalab.spec import find

    if labels := _of_results(context, "label"):
        return _listed(incomplete, labels)
    last = incomplete.rpartition(",")[2]
    if ":" not in last:
        return _listed(incomplete, [*backends.by_name(), *(_fields("entries") if last else ())])
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


def _of_results(context: click.Context, field: str) -> list[str]:
    """What the results files on the line have in a field of their rows; none for a command that measures."""
    if context.info_name not in READERS:
        return []
    from cudalab.base.errors import CudalabError
    from cudalab.results.file import load

    found: dict[str, None] = {}
    for word in split_arg_string(os.environ.get("COMP_WORDS", "")):
        if word.endswith((".json", ".jsonl", ".csv")):
            with contextlib.suppress(CudalabError):
                found |= dict.fromkeys(str(getattr(case, field)) for case in load(word).cases)
    return list(found)


def _of_study(context: click.Context) -> list[str]:
    """The sizes of the lab's study on the line; a user's file is not run."""
    if context.info_name != "study":
        return []
    from cudalab.study import found

    words = split_arg_string(os.environ.get("COMP_WORDS", ""))
    return [size for name, study in found.studies().items() if name in words for size in study.sizes]


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
