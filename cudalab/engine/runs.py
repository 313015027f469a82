"""The two runs of kernels: `bench` checks and times, `check` only checks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

from cudalab import timing
from cudalab.base import cache
from cudalab.base.bounded import guarded
from cudalab.base.errors import InputError, Unavailable, need_seconds, unknown
from cudalab.engine import against as earlier
from cudalab.engine import plan
from cudalab.engine.check_plan import checks
from cudalab.engine.groups import Group
from cudalab.engine.messages import Ready
from cudalab.engine.options import File, Parameters, as_text, claimed, parameters_of, setup_of
from cudalab.engine.progress import Report, ignore
from cudalab.engine.selection import Selection
from cudalab.engine.session import Look, Names, Session, Told, Words
from cudalab.engine.supervisor import TIMEOUT, Quiet
from cudalab.results.record import Case, Results
from cudalab.spec import find
from cudalab.spec.sizes import USUAL
from cudalab.timing import rounds

# Backends that a check on the CPU tries only where `only` selects them, and why.
SLOW = {
    "torch_compile": "a check on the CPU leaves it out, since PyTorch's compiler takes seconds; "
    "--only torch_compile checks it"
}


class Sanitizer(Protocol):
    """Watches launches of a group, and makes the row of what it finds WRONG."""

    def add(self, cases: list[Case], group: Group) -> None: ...


# (kind of device: "cpu" or "cuda", device as it was asked for, seed, seconds of silence for a launch)
Sanitizers = Callable[[str, str, int, float], AbstractContextManager[Sanitizer]]


@guarded()
def bench(
    *names: Names,
    sizes: Words = USUAL,
    dtypes: Words = "",
    only: Words = "",
    skip: Words = "",
    rivals: Words = "",
    modes: Words = "launch,graph",
    against: str | os.PathLike[str] = "",
    parameters: Parameters = "",
    device: str | int = "auto",
    seed: int | None = None,
    budget: float | None = None,
    order: str = "shuffled",
    flush: str = timing.CLEAN,
    processes: int = 0,
    quick: bool = False,
    fresh_caches: bool = False,
    cross_check: str = "",
    timeout: float = TIMEOUT,
    seconds: float | None = None,
    progress: Report = ignore,
    output: File = "",
    resume: File = "",
    ready: Told = lambda machine: None,
    while_timed: Quiet = nullcontext,
    session: Callable[..., Session] = Session,
    baseline: Results | None = None,
) -> Results:
    """Check and time kernels on every backend that runs here.

    `names` are kernels of the lab or paths of specs (none: all of the lab's); `sizes` follows `cudalab.spec.sizes`;
    `dtypes` is a comma-separated list ("": each kernel's first; "all"); `only` and `skip` are comma-separated
    globs on `backend` or `backend:variant`; `rivals` are callables to measure beside the entries, such as
    `mine=./mine.py:softmax:out` (`cudalab.spec.rival`); `modes` of launch, graph and api, on a GPU also of energy and
    sustained;
    `against` is an earlier `.cu` of the kernel, or git:REV, whose entries are measured beside the present ones;
    `parameters` are values of
    tunables, such as {"BLOCK_THREADS": 128} (others have their default; none: those that were tuned for the GPU);
    `device` is auto, cpu, cuda or cuda:N; `seed` is that of the random inputs (None: a new one, which the results'
    options keep);
    `budget` is seconds of sampling for each variant (None: `messages.SAMPLING`); `order` of the rounds is shuffled or
    blocked; `flush` leaves clean or dirty lines in L2 before a cold run; `processes` is the number of fresh processes
    that measure each group in turn (0: 3 to 8 on a GPU, 1 on the CPU); a `quick` run is one process with a budget of
    at most 0.2 s, so its intervals do not cover what differs between processes;
    `fresh_caches` makes every library compile anew; `cross_check` "nvbench" or "cupti" adds another clock.

    A variant that crashes, or that gives no sign of life for `timeout` seconds, loses its row and no other. After
    `seconds` the run ends: the group at work is given up, a warning names what is missing, and the results are not
    complete (None: no limit; Unavailable where no group was finished). `output`
    is a file that is written after each group. With `resume`, such a file, what is missing there is measured, and
    the whole run is written back to it (or to `output`). `progress` is told how far the run is, see
    `cudalab.engine.progress`; `ready` is told the machine before anything is measured, and what it raises ends the run.
    `while_timed` gives a context manager that is entered whenever times are taken: what the caller does beside the run
    stops there. `session` makes the session that measures: `cudalab.tools.gpus.over` one that uses several GPUs. Sizes
    that are to fit into memory are those of a `baseline`, where it has them. Raises CudalabError for bad input, before
    measuring.
    """
    processes, budget = claimed(processes, quick, budget)
    options = as_text({
        "kernels": find.words(names), "sizes": sizes, "dtypes": dtypes, "only": only, "skip": skip,
        "rivals": rivals, "modes": modes, "against": os.fspath(against), "device": device, "seed": seed,
        "budget": budget, "order": order, "flush": flush, "processes": processes,
        "fresh_caches": fresh_caches, "cross_check": cross_check, "timeout": timeout,
    }, resume)  # fmt: skip
    selection = Selection.of(options["only"], options["skip"])
    groups = plan.groups(options["kernels"], options["sizes"], options["dtypes"], options["rivals"], fit=True)
    groups = plan.with_parameters(groups, parameters_of(options, parameters))
    wanted = plan.chosen_modes(options["modes"])
    selection.check(groups)
    groups = earlier.beside(groups, options["against"], selection)
    if budget is not None:
        need_seconds("budget", budget)
    if order not in rounds.ORDERS:
        raise unknown("order", order, rounds.ORDERS)
    if flush not in timing.FLUSHES:
        raise unknown("flush", flush, timing.FLUSHES)
    if cross_check:
        from cudalab.engine import cross_check as other_clock

        other_clock.chosen(cross_check)
    setup = setup_of(options, wanted, groups)

    @contextmanager
    def cross_checked(here: Ready) -> Iterator[Look]:
        if here.machine.device != "cuda":
            raise Unavailable(f"a cross-check needs a GPU, and {here.no_gpu}")
        name = other_clock.NAMES[cross_check]
        yield Look(
            f"timing with {name}",
            lambda cases, group: other_clock.add(cross_check, cases, group, setup.seed, setup.device),
        )

    opened = session(
        "bench",
        options,
        setup,
        selection,
        timeout,
        progress,
        output or resume,
        hard=True,
        seconds=seconds,
        quiet=while_timed,
    )
    with cache.fresh() if fresh_caches else nullcontext():
        known = baseline.cases if baseline else ()
        return opened.measure(
            lambda kind: opened.fitted(groups, known), resume, ready, cross_checked if cross_check else None
        )


@guarded()
def check(
    *names: Names,
    sizes: Words = "",
    dtypes: Words = "all",
    only: Words = "",
    skip: Words = "",
    rivals: Words = "",
    parameters: Parameters = "",
    device: str | int = "auto",
    seed: int | None = None,
    exhaustive: bool = False,
    huge: bool = False,
    exit_first: bool = False,
    sanitizer: Sanitizers | None = None,
    timeout: float = TIMEOUT,
    seconds: float | None = None,
    progress: Report = ignore,
    output: File = "",
    resume: File = "",
    session: Callable[..., Session] = Session,
) -> Results:
    """Check kernels without timing: on hard values, at the smallest size, at awkward shapes and off the alignment.

    Of functions of one array in 16 bits every value is tried, in float32 a sample of 2**24 that misses no exponent, or
    with `exhaustive` all 2**32. Awkward shapes and alignments are for the variants that compute their own indices.
    With `sizes`, those alone are checked. With `huge` the first and the last blocks also run on arrays beyond 2**31
    elements, whose addresses are looked at. With `exit_first` the check ends with the first group in which an entry is
    wrong or fails, and its results are not complete. `sanitizer`, such as `cudalab.tools.sanitize.Sanitizer`, watches
    each entry too. On the CPU `torch_compile`, which takes seconds for the formula of `torch_eager`, is left out unless
    `only` selects it. The other arguments are those of `bench`; the cases of the results have a parity and no times.
    """
    options = as_text({
        "kernels": find.words(names), "sizes": sizes, "dtypes": dtypes, "only": only, "skip": skip,
        "rivals": rivals, "device": device, "seed": seed, "exhaustive": exhaustive, "huge": huge,
        "sanitize": sanitizer is not None, "timeout": timeout,
    }, resume)  # fmt: skip
    selection = Selection.of(options["only"], options["skip"])
    if options["sizes"] and exhaustive:
        raise InputError("exhaustive checks values, not sizes; leave out the sizes")
    if options["sizes"]:
        groups = plan.groups(options["kernels"], options["sizes"], options["dtypes"], options["rivals"], fit=True)
    else:
        groups = checks(options["kernels"], options["dtypes"], exhaustive, rivals=options["rivals"], huge=huge)
    groups = plan.with_parameters(groups, parameters_of(options, parameters))
    selection.check(groups)
    setup = setup_of(options, (), groups)
    setup.left_out = {} if selection.only else SLOW

    @contextmanager
    def sanitized(here: Ready) -> Iterator[Look]:
        assert sanitizer
        with sanitizer(here.machine.device, setup.device, setup.seed, timeout) as watching:
            yield Look("under the sanitizers", watching.add)

    opened = session("check", options, setup, selection, timeout, progress, output or resume, until_wrong=exit_first,
                     seconds=seconds)  # fmt: skip
    return opened.measure(lambda kind: opened.fitted(groups), resume, look=sanitized if sanitizer else None)
