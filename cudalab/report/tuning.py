"""The result of `cudalab tune`: tables and sentences."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence

from cudalab.base import numbers
from cudalab.report import columns, gpus
from cudalab.report.table import screen
from cudalab.spec.kernel import assigned, labelled
from cudalab.tools.tune.kernel_tuner import EVERY
from cudalab.tools.tune.tune import Planned
from cudalab.tools.tune.verdict import Finalist, Tuning

MOST = 5  # excluded configurations that are listed
DEFAULT = "default"


def render(found: Sequence[Tuning], width: int | None = None, color: bool = False) -> str:
    """Return for each dtype the finalists with their times, the excluded configurations, and the choice."""
    from cudalab.report.table import columns_of, finished, plain, put

    out = io.StringIO()
    console = screen(out, width, color)
    console.print(plain(columns.heading(found[0].run), "bold"))
    for tuning in found:
        console.print()
        console.print(plain(title(tuning), "bold"))
        table = columns_of(headers(tuning), left=1)
        for finalist in tuning.finalists:
            table.add_row(*map(plain, row(tuning, finalist)))
        put(console, table)
        for line in excluded(tuning):
            console.print(plain(f"  {line}"))
        for line in gpus.lines(tuning.run):
            console.print(plain(f"  {line}"))
        console.print(plain(sentence(tuning), "bold"))
    return finished(out, width, "")


def title(tuning: Tuning) -> str:
    tried = len(tuning.ranking) + len(tuning.excluded)
    every = len(tuning.kernel.configurations())
    found = f"{tuning.kernel.name}, {tuning.entry}, {tuning.dtype}: {tried} of {every} configurations tried"
    return f"{found}; {tuning.kind.replace('_', ' ')} times of the fastest"


def headers(tuning: Tuning) -> list[str]:
    sizes = [case.size for case in tuning.finalists[0].cases]
    return ["configuration", "tuner \u00b5s", *(f"{size} \u00b5s" for size in sizes), "speed-up", "interval", "verdict"]


def row(tuning: Tuning, finalist: Finalist) -> list[str]:
    """Cells of a finalist: Kernel Tuner's time, ours at each size, the verdict over all sizes against the default."""
    default = finalist is tuning.finalists[0]
    by_tuner = next((t.seconds for t in tuning.ranking if t.parameters == finalist.parameters), math.nan)
    first = [assigned(finalist.parameters), "" if math.isnan(by_tuner) else numbers.significant(1e6 * by_tuner, 3)]
    if finalist.wrong:
        return [*first, *("" for _ in finalist.cases), "", "", finalist.wrong.partition(" ")[0]]
    times = [columns.microseconds(case, tuning.kind) for case in finalist.cases]
    if default:
        return [*first, *times, "1", "", DEFAULT]
    r = finalist.total
    return [*first, *times, numbers.ratio(r), numbers.interval(r), finalist.verdict]


def excluded(tuning: Tuning) -> Iterator[str]:
    """The configurations that were not timed because they are wrong or do not run."""
    for tried in tuning.excluded[:MOST]:
        first, *more = tried.reason.partition("; [")[0].splitlines()  # one wrong element, or one line of a compiler
        yield f"{assigned(tried.parameters)}: {' '.join([first, *more[:1]])}"
    if len(tuning.excluded) > MOST:
        yield f"and {len(tuning.excluded) - MOST} more are wrong or do not run"


def sentence(tuning: Tuning) -> str:
    winner = tuning.winner
    where = f"it is saved in {tuning.kept}, for GPUs of compute capability {_architecture(tuning)}"
    if winner is tuning.finalists[0]:
        return f"no configuration is faster beyond doubt; the default ({assigned(winner.parameters)}) stays; {where}"
    value, interval = numbers.ratio(winner.total), numbers.interval(winner.total)
    return f"{assigned(winner.parameters)} is {value} times as fast as the default ({interval}); {where}"


def described(work: Planned) -> Iterator[str]:
    """The configurations that a search would try, or among which it would choose."""
    sizes = ", ".join(dict.fromkeys(group.size for group in work.groups))
    configurations = work.kernel.configurations()
    count = len(configurations)
    if work.strategy == EVERY or work.most >= count:
        yield f"{work.kernel.name}: {count} configurations, at {sizes}, in {', '.join(work.dtypes)}"
    else:
        some = f"tries {work.most}" if work.most else "decides how many it tries"
        yield (
            f"{work.kernel.name}: {work.strategy} {some} of these {count} configurations, at {sizes}, in "
            f"{', '.join(work.dtypes)}; the search chooses which. The default is always timed."
        )
    for i, parameters in enumerate(configurations):
        yield f"    {labelled(work.entry, parameters)}{'' if i else f' ({DEFAULT})'}"


def _architecture(tuning: Tuning) -> str:
    return str(tuning.run.machine.details.get("compute_capability", "?"))
