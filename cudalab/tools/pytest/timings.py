"""The times of one pytest session: measured by `bench`, kept as one run, compared with a baseline, saved."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from cudalab.base import files, globs, numbers
from cudalab.base.errors import InputError
from cudalab.base.stats import MIN_EFFECT, SLOWER
from cudalab.engine import plan, runs
from cudalab.engine.groups import Group
from cudalab.engine.supervisor import TIMEOUT
from cudalab.results import comparable, compare, file, formats, record
from cudalab.results.compare import Comparison, Pair
from cudalab.results.record import Case, Machine, Results
from cudalab.spec import find
from cudalab.tools.pytest.saved import FOLDER, Saved

COLD, WALL = "cold", "wall"  # the main kinds of time, on a GPU and on a CPU
JOINED = ("sizes", "dtypes", "only", "skip", "rivals", "modes")  # options that the kept run has from all of its parts
Rows = tuple[str, str, str]  # kernel, size, dtype


@dataclass(frozen=True)
class Asked:
    """What one call asks for. Equal ones are measured once."""

    file: str  # the spec
    name: str  # of the kernel in the results
    size: str
    dtype: str
    only: str
    skip: str
    rivals: str
    mode: str  # the kind of time that counts; "": the main kind
    budget: float | None
    processes: int
    typed: str = field(default="", compare=False)  # `only` as the test has it, without what a default adds

    @property
    def rows(self) -> Rows:
        return self.name, self.size, self.dtype

    def typed_as(self, names: Iterable[str]) -> str:
        """Options as the test has them."""
        given = {name: self.typed if name == "only" else getattr(self, name) for name in names}
        return ", ".join(f"{n}={value!r}" if value else f"no {n}=" for n, value in given.items())

    @property
    def kernel_name(self) -> str:
        """The kernel as the command line takes it: its name in the lab, or its path from the current folder."""
        kernel = find.kernel(self.file)
        return kernel.name if find.of_lab(kernel) else os.path.relpath(self.file)

    @classmethod
    def of(cls, group: Group, name: str, **options: Any) -> Asked:
        return cls(group.kernel.file, name or group.name, group.size, group.dtype.name, **options)


@dataclass(frozen=True)
class Owner:
    """The test that asked first. A test that is run again is another owner of the same name."""

    test: str
    setup: object


class Timings:
    """Of one session. `option` has the command line's options; `root` is pytest's root folder."""

    def __init__(self, option: Any, root: Path) -> None:
        self.device: str = "cpu" if option.cudalab_device == "cpu" else "cuda"
        self.timeout: float = option.cudalab_timeout or TIMEOUT
        self.seed: int = option.cudalab_seed
        self.force: bool = option.cudalab_force
        self.save: str = option.cudalab_save
        self.json: str = option.cudalab_json
        self.saved = Saved(Path(option.cudalab_storage or root / FOLDER), root)
        self.autosave: bool = option.cudalab_autosave
        self.path = self.saved.baseline(option.cudalab_baseline)
        self.min_effect = MIN_EFFECT
        for name, given in (("min-effect", option.cudalab_min_effect), ("force", self.force)):
            if given and not self.path:
                raise InputError(f"--cudalab-{name} is only for a comparison; add --cudalab-baseline FILE")
        if option.cudalab_min_effect:
            self.min_effect = compare.share(option.cudalab_min_effect, "--cudalab-min-effect")
        for written in filter(None, (self.save, self.json)):
            files.place(written)
            if self.path and os.path.realpath(written) == os.path.realpath(self.path):
                raise InputError(f"{written} is the baseline and would be replaced; save to another file")
        if self.save:
            file.writable(self.save)
        if self.autosave:
            self.saved.usable()
        self.baseline = file.load(self.path) if self.path else None
        if self.baseline and not self.baseline.main_kind:
            raise InputError(f"{self.path} has no times; write a baseline with: {self._anew}")
        self.run: Results | None = None  # every row of the session
        self.pairs: dict[tuple[Rows, str, str], Pair] = {}  # by rows, label and kind
        self.kinds: dict[Rows, str] = {}  # of the time that counts
        self.new: set[Rows] = set()  # rows that the baseline lacks
        self.problems: list[str] = []  # what the end of the session must say
        self.written: list[str] = []  # files
        self.kept = ""  # where the file is that was replaced by `save`
        self._done: dict[Rows, tuple[Asked, Owner, Results]] = {}

    # ---- measuring -----------------------------------------------------------------------------------------------

    def measured(self, asked: Asked, owner: Owner) -> Results:
        """The rows, measured now, or earlier in this session for another test that asked for the same.

        Raises CudalabError where they cannot be measured, would not be comparable with the baseline, or have the name
        of other rows of this session.
        """
        if asked.rows in self._done:
            other, first, run = self._done[asked.rows]
            if first.test != owner.test or first.setup is owner.setup:  # else the test runs again
                if other == asked:
                    return run
                names = _differing(other, asked)
                options = [
                    f"{one.typed_as(names)} in {test}" for one, test in ((other, first.test), (asked, "this test"))
                ]
                raise InputError(
                    f"{first.test} asks for the same case, {' '.join(asked.rows)}, with other options: "
                    f"{'; '.join(options)}. Use the same {' and '.join(f'{n}=' for n in names)} in both, or give one "
                    f"of them a name of its own: cudalab_time(..., name='{asked.name}-2')"
                )
        for other, first, _ in self._done.values():
            if other.name == asked.name and other.file != asked.file:
                raise InputError(f"{first.test} has timed {other.file} as {other.name}; {_own_name(asked)}")
        old = self.of_baseline(asked.rows)

        def accept(machine: Machine) -> None:
            if old and not self.force:
                self._refuse(comparable.machines(old.machine, machine, [asked.mode or old.main_kind or COLD]))

        run = runs.bench(
            asked.file, sizes=asked.size, dtypes=asked.dtype, only=asked.only, skip=asked.skip, rivals=asked.rivals,
            modes=plan.modes_for(asked.mode), device=self.device, budget=asked.budget, processes=asked.processes,
            seed=self.seed, timeout=self.timeout, ready=accept,
        )  # fmt: skip
        run.options["kernels"] = [asked.kernel_name]
        _rename(run, asked.name)
        self._keep(run)
        on_cpu = run.machine.device == "cpu"  # where all times are wall times
        self.kinds[asked.rows] = WALL if on_cpu else asked.mode or COLD
        self._done[asked.rows] = asked, owner, run
        return run

    def checked(self, asked: Asked) -> Results:
        """The rows without times, on the GPU or where there is none on the CPU."""
        return runs.check(
            asked.file, sizes=asked.size, dtypes=asked.dtype, only=asked.only, skip=asked.skip, rivals=asked.rivals,
            device="cpu" if self.device == "cpu" else "auto", seed=self.seed, timeout=self.timeout,
        )  # fmt: skip

    def _keep(self, run: Results) -> None:
        """Add the rows to those of the session, instead of earlier ones of the same group, and write the file."""
        if self.run is None:
            self.run = replace(run, cases=list(run.cases), options=dict(run.options))
        else:
            whole = self.run
            if whole.machine != run.machine:
                raise InputError(
                    f"this session has times of {whole.machine.name}, and these are of {run.machine.name} or of other "
                    "versions; run these tests in a session of their own"
                )
            groups = {case.group for case in run.cases}
            whole.cases = [*(case for case in whole.cases if case.group not in groups), *run.cases]
            whole.sources |= run.sources
            whole.wall = {name: whole.wall.get(name, 0) + run.wall.get(name, 0) for name in whole.wall | run.wall}
            kernels = [*whole.options["kernels"], *run.options["kernels"]]
            whole.options["kernels"] = list(dict.fromkeys(kernels))
            for name in JOINED:
                words = dict.fromkeys((*globs.split(whole.options[name]), *globs.split(run.options[name])))
                whole.options[name] = ",".join(words)
        self._write()

    def note(self, asked: Iterable[Asked], extra_info: dict[str, Any]) -> None:
        """Add what a test says about its rows to their notes."""
        groups = {one.rows for one in asked}
        for case in self.run.cases if self.run and extra_info else ():
            if case.group in groups:
                case.notes += [f"{name}: {value}" for name, value in extra_info.items()]

    # ---- comparing -----------------------------------------------------------------------------------------------

    def of_baseline(self, rows: Rows) -> Results | None:
        """The baseline with these rows alone; None if there are none."""
        cases = [case for case in self.baseline.cases if case.group == rows] if self.baseline else []
        return replace(self.baseline, cases=cases) if self.baseline and cases else None

    def compared(self, asked: Asked, run: Results) -> Comparison | None:
        """How the rows compare with the baseline's; None if both have none in common.

        Raises NotComparable if the runs differ in what times depend on.
        """
        if self.baseline is None:
            return None
        old = self.of_baseline(asked.rows)
        kind = self.kinds[asked.rows]
        if not old or not any(kind in case.times for case in (*old.cases, *run.cases)):
            self.new.add(asked.rows)
            return None
        labels = {case.label for case in run.cases}
        old = replace(old, cases=[case for case in old.cases if case.label in labels])
        found = compare.compare(old, run, kind, self.min_effect, self.force)
        if found.differences and not self.force:
            self._refuse(found.differences)
        if found.refusal:
            self.new.add(asked.rows)
            return None
        self.pairs |= {(asked.rows, pair.new.label, pair.kind): pair for pair in found.pairs}
        return found

    def _refuse(self, differences: list[comparable.Difference]) -> None:
        if differences:
            lines = [f"not comparable with {self.path}:", *(f"    {one}" for one in differences)]
            raise comparable.NotComparable("\n".join([*lines, "measure and compare anyway with --cudalab-force"]))

    def worse(self, found: Comparison) -> str:
        """What a failing test says: each row that is SLOWER, or that the baseline has no time of, and what to type."""
        pairs = [pair for pair in found.pairs if pair.verdict == SLOWER and not pair.control]
        if not pairs:
            bad = [f"    {case.label}: {text}" for text, cases in found.was_wrong.items() for case in cases]
            advice = f"write a new baseline: {self._anew}"
            return "\n".join([f"no time to compare with in {self.path}:", *bad, advice]) if bad else ""
        lines = [f"SLOWER than in {self.path}:", *(f"    {_both(pair)}" for pair in pairs)]
        lines += [f"    the machine changed: the copy's speed-up is {numbers.with_ends(p.ratio)}" for p in found.drift]
        if self.save:
            lines.append(f"look closer: cudalab compare {self.path} {self.save}")
        return "\n".join([*lines, f"if this is intended, write a new baseline: {self._anew}"])

    @property
    def _anew(self) -> str:
        """Return what to type for a new baseline."""
        return f"pytest {'--cudalab-autosave' if self.saved.holds(self.path) else f'--cudalab-save {self.path}'}"

    # ---- the end of the session ----------------------------------------------------------------------------------

    def finish(self) -> bool:
        """Write the files, and say whether what was asked for was done."""
        if self.run is None:
            for written in filter(None, (self.save, self.json)):
                self.problems.append(f"nothing was timed, so {written} was not written")
            if self.path:
                self.problems.append(f"nothing was timed, so nothing was compared with {self.path}")
            return True
        for write in (self._write, self._export):
            try:
                write()
            except OSError as error:
                self.problems.append(f"cannot write {error.filename or self.save or self.json}: {error.strerror}")
                return False
        if self.baseline and self.new and not self.pairs:
            self.problems.append(f"nothing that was timed is in {self.path}: nothing was compared")
            return False
        return True

    def _write(self) -> None:
        """Write the results files. The first time, a file that is replaced is kept, and a new number is taken."""
        if not self.run:
            return
        if not self.written:
            self.kept = self.saved.keep(self.save) if self.save else ""
            new = [str(self.saved.new())] if self.autosave else []
            self.written = [*filter(None, [self.save]), *new]
        for path in self.written:
            file.save(self.run, path)

    def _export(self) -> None:
        if self.json and self.run:
            files.write(self.json, formats.encoded(self.run, "pytest-benchmark"))


def failure(run: Results) -> str:
    """What is wrong with the rows: answers, impossible times, errors. Empty if nothing is."""
    return "\n".join(f"{case.status} {case.label}: {case.reason}" for case in run.broken)


def main_row(run: Results, group: Group, kind: str, seed: int) -> Case:
    """The row that stands for the kernel: of the entries that were timed, the one that a call of it runs.

    Where no entry was timed, it is an entry that was not, and if none was chosen the first row.
    """
    rows = [case for case in run.cases if case.status != record.CEILING]
    entries = [case for case in rows if case.variant in group.kernel.entries]
    timed = [case for case in entries if case.times.get(kind)]
    usable = timed or [case for case in entries if case.status == record.OK]
    if len(usable) > 1:
        called = group.kernel.entry_of_call(group.arrays(seed))
        return next((case for case in usable if case.variant == called), usable[-1])
    return (usable or entries or [case for case in rows if case.times.get(kind)] or rows)[0]


def _both(pair: Pair) -> str:
    was, now = (
        numbers.supported(1e6 * timing.median, timing.width)
        for timing in (case.timing(pair.kind) for case in (pair.old, pair.new))
        if timing
    )
    return (
        f"{pair.old.label}  {' '.join(pair.old.group)} {pair.kind}: {was} -> {now} \u00b5s, "
        f"{numbers.with_ends(pair.ratio)} times as fast, threshold {numbers.compact(100 * pair.effect)} %"
    )


def _rename(run: Results, name: str) -> None:
    """Give the rows of one kernel, and its files, this name."""
    for case in run.cases:
        if case.kernel != name:
            run.sources = {f"{name}{key[len(case.kernel) :]}": digest for key, digest in run.sources.items()}
            break
    for case in run.cases:
        case.kernel = name


def _own_name(asked: Asked) -> str:
    return f"give these rows a name of their own: cudalab_time(..., name='{asked.name}-2')"


def _differing(one: Asked, other: Asked) -> list[str]:
    """The names of the options that differ."""
    own = [field.name for field in fields(Asked) if field.compare]
    return [name for name in own if getattr(one, name) != getattr(other, name)]
