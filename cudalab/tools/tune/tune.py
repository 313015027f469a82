"""`cudalab tune`: Kernel Tuner ranks launch parameters; the lab checks and times the fastest, and keeps the winner.

Kernel Tuner's times include launch gaps and have no intervals, so they only choose the finalists. The finalists are
timed beside the default in shuffled rounds, and one that is surely faster replaces it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import cached_property
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from cudalab.base import advice, globs, stats
from cudalab.base.bounded import guarded
from cudalab.base.errors import CudalabError, InputError, Unavailable, need_seconds, unknown
from cudalab.device import cuda
from cudalab.device.open import check_name
from cudalab.engine import plan
from cudalab.engine.check_plan import checks
from cudalab.engine.early import Stopped
from cudalab.engine.groups import Group
from cudalab.engine.options import BUDGET, File, claimed, setup_of
from cudalab.engine.progress import Report, ignore
from cudalab.engine.selection import Selection
from cudalab.engine.session import Session
from cudalab.engine.supervisor import TIMEOUT
from cudalab.results import record
from cudalab.results.record import Case
from cudalab.spec import find, tuned
from cudalab.spec.kernel import Kernel
from cudalab.spec.tuned import Choice, Timed
from cudalab.tools.tune.kernel_tuner import BACKEND, EVERY, SECONDS, Batch, Search, Tried, batch, label
from cudalab.tools.tune.verdict import Parameters, Tuning, joined, judged, ranked

# Kernel Tuner's strategies that need no other package.
STRATEGIES = (
    EVERY, "random_sample", "minimize", "basinhopping", "diff_evo", "genetic_algorithm", "greedy_mls",
    "ordered_greedy_mls", "greedy_ils", "dual_annealing", "mls", "pso", "simulated_annealing", "firefly_algorithm",
)  # fmt: skip
SIZES = 2  # of the spec's, the largest, are tuned for if none are named
FINALISTS = 3
LEAST = 4  # configurations for which another GPU takes part in a search
KINDS = ("cold", "hot", "graph", "graph_cold")  # of time that launch parameters make


def tune(
    kernel: str,
    sizes: object = "",
    dtypes: object = "",
    entry: str = "",
    strategy: str = EVERY,
    most: int = 0,
    finalists: int = FINALISTS,
    kind: str = "cold",
    min_effect: float = stats.MIN_EFFECT,
    device: str = "auto",
    seed: int = 0,
    budget: float = BUDGET,
    processes: int = 0,
    timeout: float = TIMEOUT,
    output: File = "",
    progress: Report = ignore,
    session: Callable[..., Session] = Session,
) -> list[Tuning]:
    """Find launch parameters of a kernel for this GPU and keep them beside its `.cu`; one record for each dtype.

    `sizes` and `dtypes` are as in `bench` ("": the largest two of the spec; its first); `entry` is the last if not
    named. `strategy` is one of STRATEGIES, which tries at most `most` configurations (0: its own number).
    `finalists` of them are timed for `budget` seconds each at each size, by as many `processes` as in `bench`, and
    judged by their `kind` of time: a winner is faster than the default by more than `min_effect`, over all sizes.
    `output` is another file to keep it in. `session` is as in `bench`: GPUs share the search and the checks; at each
    size one GPU times all finalists.
    Raises CudalabError for bad input or where there is no GPU, before measuring; Stopped after Ctrl-C.
    """
    work = planned(kernel, sizes, dtypes, entry, strategy, most)
    if kind not in KINDS:
        raise unknown("kind of time", kind, KINDS)
    if finalists < 1:
        raise InputError(f"finalists is {finalists}; give a whole number of 1 or more")
    need_seconds("budget", budget)
    claimed(processes, False, budget)
    need_seconds("timeout", timeout, ", or inf")
    need_gpu(kernel, device, here=session is Session)
    target = tuned.writable(output or tuned.place(work.kernel))
    modes = plan.modes_for(kind)
    options = {
        "kernels": [work.kernel.name], "tune": work.entry, "strategy": strategy, "most": most, "modes": modes,
        "device": "cuda" if device == "auto" else device, "only": BACKEND, "skip": "", "seed": seed, "budget": budget,
        "order": "shuffled", "processes": processes,
    }  # fmt: skip
    setup = setup_of(options, modes, work.groups)
    with session("bench", options, setup, Selection((BACKEND,)), timeout, progress) as opened:
        return _Tune(work, finalists, kind, min_effect, target, opened).tunings()


@dataclass(frozen=True)
class Planned:
    """The inputs of a search; known without a GPU."""

    kernel: Kernel
    entry: str
    groups: tuple[Group, ...]  # dtype by dtype, and size by size
    strategy: str = EVERY
    most: int = 0  # configurations to try; 0: as many as the strategy does

    @property
    def configurations(self) -> list[Parameters]:
        return self.kernel.configurations()

    @cached_property
    def dtypes(self) -> dict[str, list[Group]]:
        found: dict[str, list[Group]] = {}
        for group in self.groups:
            found.setdefault(group.dtype.name, []).append(group)
        return found


@guarded()
def planned(
    kernel: str, sizes: object = "", dtypes: object = "", entry: str = "", strategy: str = EVERY, most: int = 0
) -> Planned:
    """The kernel, the entry, where it is to be tuned, and how. Raises CudalabError if one of them does not exist."""
    if strategy not in STRATEGIES:
        raise unknown("strategy", strategy, STRATEGIES)
    if most < 0:
        raise InputError(f"most is {most}; give a whole number of 0 or more")
    if most and strategy == EVERY:
        raise InputError(f"{EVERY} tries every configuration; leave out --most, or add --strategy random_sample")
    spec = find.kernel(kernel)
    if not spec.tunables:
        if find.of_lab(spec):
            able = [name for name in find.kernels() if find.kernel(name).tunables]
            raise InputError(f"{spec.name} has nothing to tune; of the lab's kernels these have: {', '.join(able)}")
        example = "tunables={'BLOCK_THREADS': (256, 128, 512)}"
        raise InputError(f"{spec.name} has nothing to tune; declare launch parameters in {spec.file}: {example}")
    if entry and entry not in spec.entries:
        raise unknown(f"entry of {spec.name}", entry, spec.entries)
    largest = sorted(spec.sizes, key=lambda name: math.prod(spec.sizes[name]))[-SIZES:]
    groups = plan.groups([kernel], globs.joined(sizes) or ",".join(largest), globs.joined(dtypes))
    return Planned(spec, entry or list(spec.entries)[-1], tuple(groups), strategy, most)


def need_gpu(kernel: str, device: str, here: bool = True) -> None:
    """Raise Unavailable where nothing can be tuned, with what to type; InputError for a wrong name of a device.

    Not `here`: the session finds GPUs, which may be on other hosts.
    """
    check_name(device)
    no_use = "how long a launch takes on a CPU says nothing about launch parameters"
    if device == "cpu":
        raise Unavailable(f"cannot tune on the CPU: {no_use}; leave out --device")
    if here and (reason := cuda.missing()):
        raise Unavailable(
            f"cannot tune here: {reason}, and {no_use}; `cudalab doctor` says more, "
            f"`cudalab tune {kernel} --dry-run` what would be tried"
        )
    if lacking := missing():
        raise Unavailable(lacking)


def missing() -> str | None:
    """Why no search can run, and what to type; None if Kernel Tuner is installed."""
    found = find_spec("kernel_tuner")
    return None if found else f"Kernel Tuner is not installed; {advice.extra('tune')}"


@dataclass
class _Tune:
    """One call of `tune`."""

    work: Planned
    finalists: int
    kind: str
    min_effect: float
    target: Path
    session: Session

    def tunings(self) -> list[Tuning]:
        found = list[Tuning]()
        try:
            for groups in self.work.dtypes.values():
                found.append(self._tuned(groups))
        except KeyboardInterrupt:
            kept = f"{self.target} has {', '.join(t.dtype for t in found)}" if found else "nothing is kept"
            raise Stopped(f"stopped; {kept}") from None
        return found

    def _tuned(self, groups: list[Group]) -> Tuning:
        """One dtype: search, check, time, keep."""
        entry = self.work.entry
        sizes = {"sizes": ",".join(g.size for g in groups), "dtypes": groups[0].dtype.name}
        ranking, excluded = self._searched(groups)
        if not ranking and len(reasons := {t.reason for t in excluded}) == 1:  # none of them is at fault
            raise CudalabError(f"the search has timed no configuration of {entry}: {reasons.pop()}")
        forms = self._checked(groups[0], ranking, excluded)
        run = self.session.run_of([self._with(group, forms) for group in groups], {**self.session.options, **sizes})
        tuning = Tuning(self.work.kernel, entry, groups[0].dtype.name, self.kind, run, ranking, excluded)
        tuning.finalists = judged(run, groups, entry, forms, self.kind, self.min_effect)
        if default := tuning.finalists[0].wrong:
            raise CudalabError(f"the default of {entry} is {default}; see: cudalab check")
        self._keep(tuning, groups)
        return tuning

    def _searched(self, groups: list[Group]) -> tuple[list[Tried], list[Tried]]:
        """Configurations that Kernel Tuner has timed, the fastest first, and those that it could not time.

        It searches at the largest size; the configurations timed there are timed at the other sizes too.
        """
        first, *rest = sorted(groups, key=lambda group: math.prod(group.shape), reverse=True)
        strategy, most = self.work.strategy, self.work.most
        searches = self._search([first], self.work.configurations, strategy, most)
        good, _ = ranked(searches)
        if rest and good:
            searches += self._search(rest, [t.parameters for t in good], EVERY, 0, checked=True)
        return ranked(searches)

    def _search(
        self, groups: list[Group], among: list[Parameters], strategy: str, most: int, checked: bool = False
    ) -> list[list[Tried]]:
        """What was tried at each size. Where GPUs share a search, each also times the default."""
        search = Search(self.work.entry, strategy, most, self.session.setup.seed, checked)
        default, *_ = self.work.configurations
        others = [p for p in among if p != default]
        count = min(self.session.width, -(-len(others) // LEAST)) if strategy == EVERY else 1
        parts = [[default, *others[i::count]] for i in range(count)] if count > 1 else [among]
        batches = [
            [batch(self._with(replace(group, size=f"{group.size} {i + 1}/{count}" if i else group.size), part), search)
             for i, part in enumerate(parts)]
            for group in groups
        ]  # fmt: skip
        run = self.session.run_of([one for some in batches for one in some]).groups()
        return [joined([self._tried(one, run) for one in some], default) for some in batches]

    def _tried(self, one: Batch, run: Mapping[tuple[str, str, str], list[Case]]) -> list[Tried]:
        rows = {case.label: case for case in run.get((one.name, one.size, one.dtype.name), [])}
        return [
            Tried(dict(p), case.costs.get(SECONDS, 0.0), case.reason)
            for entry, p in one.forms
            if (case := rows.get(label(entry, p)))
        ]

    def _checked(self, group: Group, ranking: list[Tried], excluded: list[Tried]) -> list[Parameters]:
        """The default and the fastest configurations that pass all that `cudalab check` looks at."""
        default, *_ = self.work.configurations
        passed, waiting = list[Parameters](), [t for t in ranking if t.parameters != default]
        candidates = [default]
        while True:
            wanted = self.finalists + 1 - len(passed)
            candidates += [waiting.pop(0).parameters for _ in range(min(wanted - len(candidates), len(waiting)))]
            if not candidates:
                return passed
            reasons = self._wrong(group, candidates)
            excluded += [Tried(p, 0.0, reason) for p, reason in zip(candidates, reasons, strict=True) if reason]
            passed += [p for p, reason in zip(candidates, reasons, strict=True) if not reason]
            if default not in passed:
                raise CudalabError(f"the default of {self.work.entry} is {reasons[0]}; see: cudalab check")
            candidates = []

    def _wrong(self, group: Group, candidates: list[Parameters]) -> list[str]:
        """Why each of these is wrong; "" if it is right."""
        found = {label(self.work.entry, p): "" for p in candidates}
        run = self.session.run_of([replace(self._with(check, candidates), timed=False) for check in _checks(group)])
        for case in run.cases:
            if case.status != record.OK and found.get(case.label) == "":
                found[case.label] = f"{case.status} at {case.size}: {case.reason}"
        return list(found.values())

    def _with(self, group: Group, forms: Sequence[Parameters]) -> Group:
        return replace(group, forms=tuple((self.work.entry, p) for p in forms))

    def _keep(self, tuning: Tuning, groups: list[Group]) -> None:
        """Write the winner to the file."""
        machine, chosen, default = tuning.run.machine, tuning.winner, tuning.finalists[0]
        times = [
            Timed(g.size, g.shape, default.seconds(i, tuning.kind), chosen.seconds(i, tuning.kind))
            for i, g in enumerate(groups)
        ]
        choice = Choice(
            architecture=str(machine.details["compute_capability"]), entry=tuning.entry, dtype=tuning.dtype,
            parameters=chosen.parameters, sources=tuned.sources(tuning.kernel, tuning.entry), card=machine.name,
            driver=str(machine.details.get("driver", "")), created=datetime.now(timezone.utc).isoformat("T", "seconds"),
            versions={**machine.versions, "kernel_tuner": version("kernel_tuner")}, kind=tuning.kind,
            speedup=(chosen.total.value, chosen.total.low, chosen.total.high),
            times=tuple(times),
        )  # fmt: skip
        try:
            tuned.save(self.target, [choice])
        except OSError as error:
            best = ", ".join(f"{name}={value}" for name, value in chosen.parameters.items())
            raise InputError(
                f"cannot write {self.target}: {error.strerror}; choose another place: -o (the search found {best})"
            ) from None
        tuning.kept = self.target


def _checks(group: Group) -> list[Group]:
    """All that `cudalab check` looks at, in the dtype of a group."""
    return checks([group.kernel.file], group.dtype.name)
