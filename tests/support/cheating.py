"""Every way that we know to cheat a benchmark of kernels (tests/cheats/cheats.txt), and what becomes of each.

A cheat is a `.cu` in tests/cheats/specs with the entries `honest` and `cheat`, or a spec with a form of PyTorch beside
an honest one. `timed` runs some of them, and `Outcome.of` says what became of one: WRONG, refused, honest (it took no
less than the honest row beside it), or FASTER. Only FASTER is a success of the cheat.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import cudalab
from cudalab.base import stats
from cudalab.base.errors import CudalabError
from cudalab.results.record import Case

SPECS = Path(__file__).parents[1] / "cheats" / "specs"
PLAIN = "from kepler import solver\n\n{0} = solver(__file__)\n"  # the spec of a `.cu` that has none of its own
HONEST_CU = """#include "kepler.cuh"
extern "C" __global__ void honest(const float* m, float* e, long long n) { solve(m, e, n); }
"""

WRONG, REFUSED, HONEST, FASTER, ABSENT = "WRONG", "refused", "honest", "FASTER", "not run"
VERDICTS = {"caught": (WRONG, REFUSED), "fair": (WRONG, REFUSED, HONEST)}  # words of the table for any of several

# Where a cheat shows: in a check without timing, by the CPU's clock, by the GPU's clocks, when its spec is loaded.
CHECK, CPU, GPU, LOADED = "check", "CPU", "GPU", "load"

# What the GPU times, and how much less than the honest row counts as faster. The host's times of a call are no measure
# of a kernel.
TIMES = ("cold", "hot", "graph", "graph_cold", "wall")
LESS = {"wall": 0.75}  # of a CPU that others use too
LESS_OF_GPU = 0.93

TABLE = (SPECS.parent / "cheats.txt").read_text()
KINDS = {int(number): kind for number, kind in re.findall(r"^(\d+): (.*)$", TABLE, re.MULTILINE)}


@cache
def _folder() -> TemporaryDirectory[str]:
    """With the header of all kernels; it is removed when this process ends."""
    folder = TemporaryDirectory(prefix="cheats")
    shutil.copy(SPECS / "kepler.cuh", folder.name)
    return folder


@dataclass(frozen=True)
class Cheat:
    """One cheat: its numbers in KINDS, the name of its spec, and what may become of it where it shows."""

    numbers: tuple[int, ...]
    name: str
    where: tuple[str, ...]
    expected: tuple[str, ...]
    limit: str = ""  # why not every form of it can be caught
    said: str = ""  # of one that is refused alone

    @property
    def path(self) -> str:
        """Its spec, in a folder of this process; what a form or a kernel has not of its own is written beside it."""
        folder = Path(_folder().name)
        for suffix, usual in ((".py", PLAIN.format(self.name)), (".cu", HONEST_CU)):
            own = SPECS / f"{self.name}{suffix}"
            (folder / own.name).write_text(own.read_text() if own.exists() else usual)
        return str(folder / f"{self.name}.py")

    @property
    def form(self) -> bool:
        """Whether it is a form of PyTorch, and no kernel."""
        return self.name.startswith(("form_", "patch_"))

    @property
    def rows(self) -> tuple[str, str]:
        """The labels of its row and of the honest one on a GPU."""
        return ("torch_native", "torch_eager") if self.form else ("pycuda:cheat", "pycuda:honest")


def _read() -> Iterator[Cheat]:
    """The rows of the table."""
    for line in TABLE.splitlines():
        if row := re.fullmatch(r"([\d,]+) +(\S+) +(\S+) +(\w+)(?:  limit: (.*))?(?:  said: (.*))?", line):
            numbers, where, expected, name, *more = row.groups("")
            found = tuple(verdict for word in expected.split(",") for verdict in VERDICTS.get(word, (word,)))
            yield Cheat(tuple(map(int, numbers.split(","))), name, tuple(where.split(",")), found, *more)


CHEATS = tuple(_read())

# Numbers that no row above has, and why.
NOT_TRIED = {
    26: "a .cu has no files and no pipes. A spec is a program with its user's rights: it can write any file, as every "
    "program can. Who does not trust a spec's author brings the spec and takes only the .cu",
}


@dataclass
class Outcome:
    """What became of a cheat."""

    verdict: str
    said: str = ""  # the row's reason
    ratios: dict[str, float] = field(default_factory=dict)  # its median to the honest one's, by kind of time

    @classmethod
    def of(cls, cheat: Case | None, honest: Case | None) -> Outcome:
        if cheat is None:
            return cls(ABSENT, "no row")
        if cheat.status == "WRONG":
            return cls(WRONG, cheat.reason)
        if cheat.status == "skipped":
            return cls(ABSENT, cheat.reason)
        if cheat.status != "ok":
            return cls(REFUSED, cheat.reason)
        if honest is None or honest.status != "ok":
            return cls(ABSENT, f"the honest row: {honest.reason if honest else 'none'}")
        ratios = {
            kind: stats.median(cheat.times[kind]) / stats.median(honest.times[kind])
            for kind in TIMES
            if cheat.times.get(kind) and honest.times.get(kind)
        }
        if not ratios and honest.times:
            return cls(REFUSED, "; ".join(cheat.notes) or "no times")
        faster = any(ratio < LESS.get(kind, LESS_OF_GPU) for kind, ratio in ratios.items())
        return cls(FASTER if faster else HONEST, "; ".join(cheat.notes), ratios)


def runs(cheats: Sequence[Cheat]) -> list[list[Cheat]]:
    """Which cheats are timed in one run: the kernels, the forms, and each of the others alone."""
    kernels = [cheat for cheat in cheats if not cheat.form and cheat.name != "outlives_launch"]
    forms = [cheat for cheat in cheats if cheat.name.startswith("form_")]
    alone = [[cheat] for cheat in cheats if cheat not in kernels and cheat not in forms]
    return [together for together in (kernels, forms, *alone) if together]


def timed(cheats: Sequence[Cheat], device: str, size: str, budget: float = 0.1, **options) -> dict[str, Outcome]:
    """The outcomes by name, of one run: of several cheats only where none of them replaces anything."""
    wanted = {"only": ",".join({label for cheat in cheats for label in cheat.rows}), "timeout": 60.0}
    wanted |= {"sizes": size, "device": device, "budget": budget, "processes": 1, **options}
    try:
        run = cudalab.bench(*(cheat.path for cheat in cheats), **wanted)
    except CudalabError as error:
        return {cheat.name: Outcome(REFUSED, str(error)) for cheat in cheats}
    rows = {(case.kernel, case.label): case for case in run.cases}
    return {c.name: Outcome.of(*(rows.get((c.name, label)) for label in c.rows)) for c in cheats}


def checked(cheat: Cheat, device: str = "cpu") -> Outcome:
    """The outcome of a check without timing."""
    only = {"cpu": "host"}.get(device, "pycuda")
    run = cudalab.check(cheat.path, only=f"{only}:cheat,{only}:honest", device=device)
    found = [Outcome.of(case, case) for case in run.cases if case.label == f"{only}:cheat"]
    worst = [one for verdict in (WRONG, REFUSED) for one in found if one.verdict == verdict]
    return worst[0] if worst else Outcome(HONEST)
