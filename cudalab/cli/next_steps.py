"""What to type after a run of `bench` or `check`: two or three commands that fit its results."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from cudalab.device import cuda
from cudalab.results import record
from cudalab.results.record import Case, Results

MOST = 3


def lines(run: Results, output: str | None, width: int) -> list[str]:
    """The lines below a run's tables, or none; a purpose for which `width` has no room stands above its command."""
    found = list(islice(dict(_steps(run, output)).items(), MOST))
    longest = max((len(command) for command, _ in found), default=0)
    if all(longest + len(why) + 10 <= width for _, why in found):
        said = [f"{command:{longest}}  # {why}" for command, why in found]
    else:
        said = [line for command, why in found for line in (f"# {why}", command)]
    return [f"{'' if i else 'next:':5} {line}" for i, line in enumerate(said)]


def _steps(run: Results, output: str | None) -> Iterator[tuple[str, str]]:
    """(command, what it is for), the most fitting first."""
    wrong = next((c for c in run.broken if c.status == record.WRONG and c.backend in record.ENTRIES), None)
    failed = next((c for c in run.broken if c.backend in record.ENTRIES), None)
    kernels = dict(zip(dict.fromkeys(c.kernel for c in run.cases), _asked(run), strict=False))
    first = next(iter(kernels.values()), "")
    if wrong:
        name = kernels.get(wrong.kernel, wrong.kernel)
        if any(c.group == wrong.group and c.backend == "numpy" and c.status == record.WRONG for c in run.cases):
            yield _command("check", name), "after a wider budget in the spec: NumPy misses it too"
        elif not run.options.get("sanitize"):
            yield _command("check", "--sanitize", name), "looks for memory errors, names line and thread"
        at = ["--sizes", wrong.size] if run.timed else []
        seed = ["--seed", str(run.options["seed"])] if "seed" in run.options else []
        yield _command("check", name, "--only", wrong.label, *at, *seed), "the wrong entry alone, with the same inputs"
    elif failed:
        yield _command("check", kernels.get(failed.kernel, failed.kernel)), "once it is mended"
    if not run.timed and not failed:
        yield _command("bench", first), "how fast is it?"
    if output:
        yield _command("show", output), "these tables again, with bars"
        yield _command("report", output, "-o", str(Path(output).with_suffix(".html"))), "a page with plots"
    elif not failed:
        verb = "bench" if run.timed else "check"
        yield _command(verb, first, "-o", f"{verb}.json"), "keeps every result, for show, report and compare"
    if run.machine.device == "cpu" and not failed and _has_entries(run.cases) and cuda.nvcc():
        yield _command("inspect", first), "what bounds it on a GPU, from its machine code"
    if not run.timed and not failed and not run.options.get("sanitize"):
        yield _command("check", "--sanitize", first), "looks for memory errors too"


def _asked(run: Results) -> list[str]:
    """The kernels as they were asked for, in the order of the run; else by their names."""
    asked = run.options.get("kernels")
    return [str(name) for name in asked] if asked else list(dict.fromkeys(c.kernel for c in run.cases))


def _has_entries(cases: list[Case]) -> bool:
    return any(c.backend in record.ENTRIES for c in cases)


def _command(*words: str) -> str:
    return shlex.join(["cudalab", *words])
