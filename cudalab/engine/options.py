"""What the options of a run mean: their defaults, their form in a results file, and what a worker needs of them."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from cudalab import timing
from cudalab.base import globs
from cudalab.base.errors import InputError, short
from cudalab.device.open import check_name
from cudalab.engine import resume
from cudalab.engine.groups import Variant
from cudalab.engine.messages import MOST_PROCESSES, Setup
from cudalab.engine.selection import Rows, Selection, Way
from cudalab.spec import cuda_source
from cudalab.spec.kernel import assigned

BUDGET = 1.0  # seconds of sampling for each variant of a study, finalist of `tune` or size of `crossover`
QUICK = 0.2  # the budget of a quick run
SEEDS = 1 << 31  # seeds that are drawn are below this
LISTS = ("sizes", "dtypes", "only", "skip", "modes", "rivals")
Parameters = Mapping[str, int] | str
Budget = TypeVar("Budget", float, float | None)
File = str | os.PathLike[str]


def claimed(processes: int, quick: bool, budget: Budget) -> tuple[int, Budget]:
    """Number of processes and budget of a run, which may be `quick`. Raises InputError."""
    if not isinstance(processes, int) or isinstance(processes, bool) or not 0 <= processes <= MOST_PROCESSES:
        wanted = f"a whole number from 1 to {MOST_PROCESSES}, or 0 for the default"
        raise InputError(f"processes is {short(processes)}; give {wanted}")
    if quick and processes > 1:
        raise InputError(f"a quick run uses one process, and processes is {processes}; leave out one of the two")
    return (1, QUICK if budget is None else min(budget, QUICK)) if quick else (processes, budget)


def as_text(options: dict[str, Any], resumed: File = "") -> dict[str, Any]:
    """Options with lists and a GPU's number as the command line has them, and with a seed. Raises InputError."""
    options |= {k: globs.joined(options[k]) for k in LISTS if k in options}
    if isinstance(options["device"], int):
        options["device"] = f"cuda:{options['device']}"
    options["seed"] = seed_of(options["seed"], resumed)
    return options


def parameters_of(options: dict[str, Any], given: Parameters) -> dict[str, int]:
    """Values by tunable, from a dict or from text such as THREADS=128,PACKS=2; `options` keep them as text, if any.

    Raises InputError for other text.
    """
    text = assigned(given).replace(" ", ",") if isinstance(given, Mapping) else given
    found: dict[str, int] = {}
    for part in globs.split(text):
        name, equals, value = part.partition("=")
        if not equals or not re.fullmatch(r"-?\d{1,10}", value.strip()):
            raise InputError(f"{short(part)} does not set a tunable; give NAME=VALUE, such as BLOCK_THREADS=128")
        if (name := name.strip()) in found:
            raise InputError(
                f"{name} is given twice, as {found[name]} and as {value.strip()}; a run takes one value of a tunable: "
                "run once for each"
            )
        found[name] = int(value)
    if found:
        options["parameters"] = assigned(found).replace(" ", ",")
    return found


def seed_of(given: int | None, resumed: File = "") -> int:
    """The given seed; else that of the run in the file that is resumed, or a new one. Raises InputError."""
    if given is None:
        kept = resume.seed(resumed) if resumed else None
        return secrets.randbelow(SEEDS) if kept is None else kept
    if not isinstance(given, int) or isinstance(given, bool) or given < 0:
        raise InputError(f"seed is {given!r}; give a whole number that is not negative")
    return given


def setup_of(options: dict[str, Any], modes: tuple[str, ...], groups: Sequence[Rows[Way]]) -> Setup:
    """What a worker needs of a run's options. Raises InputError for a device that no machine has."""
    check_name(options["device"])
    budget, order = options.get("budget", BUDGET), options.get("order", "shuffled")
    sources = {name: cuda_source.digest(path) for group in groups for name, path in group.files.items()}
    selection = Selection(globs.split(options["only"]), globs.split(options["skip"]))
    variants = (v for group in groups for v in selection.variants(group))
    backends = dict.fromkeys(v.backend_name for v in variants if isinstance(v, Variant))
    return Setup(
        options["device"], options["only"], options["skip"], modes, options["seed"], budget, order, sources,
        processes=options.get("processes", 1), backends=tuple(backends), flush=options.get("flush", timing.CLEAN),
        key=secrets.randbits(63),
        named=tuple(name for name in backends if name in selection.backends_of_only),
    )  # fmt: skip
