"""Continue an interrupted run: only with the same options, the same sources and on the same machine."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from cudalab.base.errors import InputError, short
from cudalab.engine.messages import MOST_PROCESSES
from cudalab.engine.rows import not_compiled
from cudalab.engine.selection import Rows, Way
from cudalab.results import record
from cudalab.results.comparable import machines
from cudalab.results.file import load
from cudalab.results.record import Machine, Results
from cudalab.spec import find

R = TypeVar("R", bound=Rows[Way])

# Options that may differ: the machine itself is compared, a timeout changes no result, `up_to` follows from the others,
# and each group has one GPU, whichever it is.
FREE = ("device", "timeout", "up_to", "gpus")


def adopted(
    path: str, kernels: tuple[str, ...], options: Mapping[str, Any], given: Collection[str], command: str = "bench"
) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Kernels and options to continue the run in `path` with: those that are not `given` come from the file.

    `command` is the one that continues: "bench", "check" or "study NAME".
    """
    run = load(path)
    stored = run.options
    wrote = (
        f"study {stored.get('study')}" if run.kind == "study" else "crossover" if "crossover" in stored else run.kind
    )
    if wrote != command:
        raise InputError(f"cannot resume {path} with `cudalab {command}`: it holds a run of `cudalab {wrote}`")
    kept = {name: stored[name] for name in options if name in stored and name not in given}
    if rivals := kept.get("rivals"):
        raise InputError(
            f"the run in {path} has rivals. Code that only a results file names is not run. If you trust it, name it "
            f"yourself: --rival {str(rivals).replace(',', ' --rival ')}"
        )
    if earlier := kept.get("against"):
        raise InputError(
            f"the run in {path} has an earlier .cu. Code that only a results file names is not run. If you trust it, "
            f"name it yourself: --against {earlier}"
        )
    wrong = [name for name, value in kept.items() if not _alike(value, options[name])]
    names = stored.get("kernels", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        wrong.append("kernels")
    if wrong:
        raise InputError(f"cannot resume {path}: its {wrong[0]} is {short(stored[wrong[0]])}; begin a new run with -o")
    return kernels or find.of_results(names, path, f"cudalab {command}", "--resume"), {**options, **kept}


def _alike(value: Any, default: Any) -> bool:
    """Whether a value from a file can stand where the command line has `default`."""
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(default, bool) and isinstance(value, bool)
    if default is None:  # the seed, which is drawn, and the budget, which depends on the device
        return value is None or (isinstance(value, (int, float)) and value >= 0)
    return isinstance(value, (int, float) if isinstance(default, float) else type(default))


def seed(path: str | os.PathLike[str]) -> int | None:
    """The seed of the run in `path`; None if it has none."""
    kept = load(path).options.get("seed")
    return kept if type(kept) is int and kept >= 0 else None


def begun(path: str | os.PathLike[str], options: Mapping[str, Any], sources: Mapping[str, str]) -> Results:
    """The run in `path`. Raises InputError that names the first option or source file that has changed since."""
    run = load(path)
    free = {*FREE, *(["processes"] if not options.get("processes") else [])}  # 0: as many as the run has
    for name in sorted((options.keys() | run.options.keys()) - free):
        was, now = run.options.get(name), options.get(name)
        if was != now and (was or now):  # an older file lacks newer options
            differs = f"it has {_option(name, was)}, this run {_option(name, now)}"
            raise InputError(f"cannot resume {path}: {differs}; give the same, or begin a new run with -o")
    for file in sorted(sources.keys() | run.sources.keys()):
        if sources.get(file) != run.sources.get(file):
            raise InputError(f"cannot resume {path}: {file} has changed; begin a new run with -o")
    return run


def processes(run: Results) -> int:
    """How many processes took each group of a run; 0: as many as its rows needed. An older file does not say: one."""
    found = run.options.get("processes", 1)
    if type(found) is not int or not 1 <= found <= MOST_PROCESSES:
        raise InputError(f"cannot resume: the run's processes are {short(found)}; begin a new run with -o")
    return 0 if run.options.get("up_to") else found


def same_machine(path: str | os.PathLike[str], then: Machine, now: Machine) -> None:
    """Raise InputError if this machine's numbers are not comparable with those in `path`."""
    if (then.device, then.name) != (now.device, now.name):
        raise InputError(f"cannot resume {path}: it was begun on {then.name} ({then.device}), and this is {now.name}")
    for found in machines(then, now, record.KINDS):
        if found.old != found.new:
            raise InputError(
                f"cannot resume {path}: {found.what} was {found.old} and is {found.new}; begin a new run with -o"
            )


def left(run: Results, groups: Collection[R]) -> list[R]:
    """The groups that have no rows in `run`, but for those that a check leaves out: what does not compile at one size
    does not at others.
    """
    done = run.groups()
    lost = {(name, kind) for (name, _, kind), cases in done.items() if run.kind == "check" and not_compiled(cases)}
    return [g for g in groups if (g.name, g.size, g.dtype.name) not in done and (g.name, g.dtype.name) not in lost]


def _option(name: str, value: Any) -> str:
    if name == "kernels":
        return f"kernels {', '.join(map(str, value)) or 'all'}" if isinstance(value, list) else "no kernels"
    option = f"--{'set' if name == 'parameters' else name.replace('_', '-')}"
    return f"{option} {short(value)}" if value is not None else f"no {option}"
