"""What to type after a run of `bench` or `check`: two or three commands that fit its results."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator
from itertools import islice
from math import inf
from pathlib import Path

from cudalab.base import globs
from cudalab.checks import contents, nans, parity
from cudalab.engine import hard
from cudalab.engine.options import QUICK
from cudalab.report import columns
from cudalab.results import record
from cudalab.results.record import Case, Results
from cudalab.spec.dtype import DTYPES
from cudalab.spec.find import is_path
from cudalab.spec.sizes import USUAL

MOST = 3
INDENT = len("next: ")
FEW = 0.25  # of the elements: fewer wrong ones may be a memory error
LINE = re.compile(r"\.cuh?:\d")  # of a fault, in its row
SUMS = 4  # times the spacing of numbers near 1: the relative error of a whole output that rounding alone makes
CANCELLED = "after you give the budget an atol: only values near 0 are off, where terms cancel"


def lines(run: Results, output: str | None, width: int) -> list[str]:
    """The lines below a run's tables, or none; a purpose for which `width` has no room stands above its command,
    or is left out where that would make the screen of a bench without a GPU longer than a terminal.
    """
    found = list(islice(dict(_steps(run, output)).items(), MOST))
    longest = max((len(command) for command, _ in found), default=0)
    if all(INDENT + longest + len(why) + 4 <= width for _, why in found):
        said = [f"{command:{longest}}  # {why}" for command, why in found]
    elif output and columns.without_gpu(run):  # a screen of 24 lines
        said = [command for command, _ in found]
    else:
        above = {why: textwrap.wrap(why, max(width - INDENT - 2, 1)) for _, why in found}
        said = [line for command, why in found for line in (*(f"# {part}" for part in above[why]), command)]
    return [f"{'' if i else 'next:':{INDENT - 1}} {line}" for i, line in enumerate(said)]


def _steps(run: Results, output: str | None) -> Iterator[tuple[str, str]]:
    """(command, what it is for), the most fitting first."""
    broken = [c for c in run.broken if c.backend in record.ENTRIES and not c.old]
    wrong = next((c for c in broken if c.status == record.WRONG), None)
    failed = next(iter(broken), None)
    ran = any(c.backend in record.ENTRIES and c.status != record.SKIPPED for c in run.cases)
    kernels = dict(zip(dict.fromkeys(c.kernel for c in run.cases), _asked(run), strict=False))
    first = next(iter(kernels.values()), "")
    again = [*(_asked(run) if run.options.get("kernels") and len(kernels) <= MOST else [first]), *_chosen(run)]
    if wrong:
        name = kernels.get(wrong.kernel, wrong.kernel)
        if how := _first_of_all(run, wrong):
            yield _command("check", name), how
        elif not run.options.get("sanitize") and _of_memory(wrong):
            yield _command("check", "--sanitize", name), "looks for memory errors; names line and thread"
        at = ["--size", wrong.size] if run.timed and not wrong.reason.startswith(hard.WHERE) else []
        seed = ["--seed", str(run.options["seed"])] if "seed" in run.options else []
        yield _command("check", name, "--only", wrong.label, *at, *seed), "the wrong entry alone, with the same inputs"
    elif failed:
        yield _command("check", kernels.get(failed.kernel, failed.kernel)), "after you fix it"
    if not run.timed and not failed:
        yield _command("bench", *again), "how fast is it?"
        if _on_cpu(run) and ran and not run.options.get("huge"):
            yield _command("check", "--huge", *again), "do its indices fit arrays of more than 2^31 elements?"
    if output and not run.complete and not failed:
        yield resuming(run, output), "measures what is missing" if run.timed else "checks what is missing"
    if output and columns.without_gpu(run):
        yield _command("show", "--all", output), "every CPU time, with bars"
    elif output:
        yield _command("show", output), "these tables again, with bars"
    if output:
        yield _command("report", output, "-o", str(Path(output).with_suffix(".html"))), "a page with plots"
    elif not failed:
        verb = "bench" if run.timed else "check"
        yield _command(verb, *again, "-o", f"{verb}.json"), "keeps all results, for show and compare"
    if not run.timed and not failed and _on_cpu(run) and _inspects():  # the screen of a bench names it
        yield _command("inspect", first), "what bounds it on a GPU"
    if not run.timed and ran and not failed and not run.options.get("sanitize"):
        yield _command("check", "--sanitize", *again), "looks for memory errors too"


def resuming(run: Results, place: str, study: str = "") -> str:
    """The command that continues the run in the file `place`. A spec is run only if the user names it."""
    names = [str(name) for name in run.options.get("kernels") or ()]
    named = [study] if study else names if any(map(is_path, names)) else []
    rivals = [word for rival in globs.split(str(run.options.get("rivals") or "")) for word in ("--rival", rival)]
    earlier = ["--against", str(run.options["against"])] if run.options.get("against") else []
    return _command(run.kind, *named, *rivals, *earlier, "--resume", place)


def _first_of_all(run: Results, wrong: Case) -> str:
    """What to do before anything else about a wrong entry, where its row or NumPy's tells; else an empty text."""
    if nans.ADVICE in wrong.reason:
        return 'after nans="ignored" in the spec, or a kernel that keeps NaN'
    if contents.READ_FIRST in wrong.reason or contents.NEVER_WRITTEN in wrong.reason:
        return "after you set every element of the output"
    mates = (case for case in run.cases if case.group == wrong.group)
    numpy = next((case for case in mates if case.backend == "numpy" and case.status == record.WRONG), None)
    if numpy is None:
        return CANCELLED if parity.NEAR_0 in wrong.reason and _rounded(wrong) else ""
    if not _finite(numpy):
        return "reorder the formula first: an intermediate result overflows in NumPy too"
    if not _finite(wrong) or (_far(wrong) and not _far(numpy)):
        return ""
    if parity.NEAR_0 in numpy.reason or (numpy.parity and numpy.parity.cancels):
        return "give the spec's budget an atol first: NumPy exceeds the budget near 0 too"
    return "widen the spec's budget first: NumPy exceeds it too"


def _rounded(case: Case) -> bool:
    """Whether the output as a whole is off by no more than rounding its terms explains."""
    kind = DTYPES.get(case.dtype)
    if case.parity is None or kind is None or kind.precision is None:
        return False
    return case.parity.rel_l2 <= SUMS * 2.0 ** (1 - kind.precision)


def _finite(case: Case) -> bool:
    return case.parity is None or case.parity.largest < inf


def _of_memory(wrong: Case) -> bool:
    """Whether a memory error or a race may be behind it: NaN, far off, few elements; not a rounding that is off.

    One whose line the row names has been found.
    """
    if LINE.search(wrong.reason):
        return False
    found = wrong.parity
    return found is None or not _finite(wrong) or found.wrong < FEW * found.n or _far(wrong)


def _far(case: Case) -> bool:
    """Whether the output as a whole is off by more than rounding explains."""
    return case.parity is not None and case.parity.rel_l2 > record.FAR


def _chosen(run: Results) -> list[str]:
    """The size of the run as it was asked for, and whether it was quick."""
    sizes = str(run.options.get("sizes") or "")
    if run.timed and sizes == USUAL:
        sizes = ""
    quick = run.timed and (run.options.get("processes"), run.options.get("budget")) == (1, QUICK)
    return [*(["--size", sizes] if sizes else []), *(["--quick"] if quick else [])]


def _asked(run: Results) -> list[str]:
    """The kernels as they were asked for, in the order of the run; else by their names."""
    asked = run.options.get("kernels")
    return [str(name) for name in asked] if asked else list(dict.fromkeys(c.kernel for c in run.cases))


def _on_cpu(run: Results) -> bool:
    """Say whether entries of a `.cu` were for the CPU to run."""
    return run.machine.device == "cpu" and any(c.backend in record.ENTRIES for c in run.cases)


def _inspects() -> bool:
    """Whether `cudalab inspect` has what it needs."""
    from cudalab.tools.inspect import compilers  # which a run whose kernels are WRONG does not load

    return not compilers.missing()


def _command(*words: str) -> str:
    return shlex.join(["cudalab", *words])
