"""The entries of a run of `bench --against` beside those of the earlier `.cu`, from the same rounds and processes.

A drift of the machine, its clocks and its day are the same for both, so nothing is added for what two runs differ by.
What is left is where code and arrays happen to lie. It differs between processes, and matters more for short times, of
which a few processes do not always show it: hence LEAST_SECONDS. docs/compare.md has the rules and how they do.
"""

from __future__ import annotations

from math import inf

from msgspec.structs import replace

from cudalab.base import stats
from cudalab.base.stats import MIN_EFFECT, SAME, UNCLEAR
from cudalab.results import marks, record
from cudalab.results.compare import Comparison, Pair, fill, pairs_of
from cudalab.results.record import GPU_KINDS, OLD, Case, Results

LEAST_SECONDS = 100e-9  # a smaller difference does not count; nor does it where that is more than MIN_EFFECT


def compared(run: Results, min_effect: float | None = None) -> Comparison | None:
    """Each entry beside its earlier form, in every kind of GPU time; None for a run without such rows.

    FASTER, SLOWER: the whole 95 % interval is further than `min_effect` from 1 (None: than LEAST_SECONDS of the time,
    or MIN_EFFECT where that is less). SAME: neither, and the 90 % interval is within MIN_EFFECT of 1.
    """
    earlier = [case for case in run.cases if case.old]
    if not earlier:
        return None
    # The copy and the libraries have no earlier form. What is wrong with them counts as in any run.
    old = replace(run, cases=[replace(case, variant=case.variant.removesuffix(OLD)) for case in earlier])
    new = replace(run, cases=[case for case in run.cases if not case.old])
    kinds = tuple(kind for kind in GPU_KINDS if any(case.times.get(kind) for case in earlier))
    names = {case.kernel for case in earlier}
    same = all(run.sources.get(f"{name}.cu") == run.sources.get(f"{name}.old.cu") for name in names)
    least = MIN_EFFECT if min_effect is None else min_effect
    seconds = LEAST_SECONDS if min_effect is None else 0.0
    found = Comparison(kinds, least, [], False, [], where=".cu", identical=same, seconds=seconds)
    originals = {id(case): before for case, before in zip(old.cases, earlier, strict=True)}
    for kind in kinds:
        for was, now in pairs_of(old, new):
            if was.times.get(kind) and now.times.get(kind):
                found.pairs.append(_pair(run, originals[id(was)], was, now, kind, min_effect))
    fill(found, old, new)
    for why, cases in list(found.left_out.items()):
        if kept := [case for case in cases if case.backend in record.ENTRIES]:
            found.left_out[why] = kept
        else:
            del found.left_out[why]
    return found


def _pair(run: Results, earlier: Case, was: Case, now: Case, kind: str, min_effect: float | None) -> Pair:
    """`was` is `earlier` under the name of the entry."""
    ratio = run.ratio(earlier, now, kind)
    short = 0.0 if kind == record.ENERGY else LEAST_SECONDS / stats.median(was.times[kind])
    least = (min(MIN_EFFECT, short) or MIN_EFFECT) if min_effect is None else min_effect
    verdict = ratio.direction(least) or (SAME if ratio.verdict() == SAME else UNCLEAR)
    half = max(ratio.high / ratio.value, ratio.value / ratio.low) if ratio.low > 0 else inf
    before, after = run.timing(earlier, kind), run.timing(now, kind)
    assert before and after
    group = run.groups()[now.group]
    both = marks.signs(run, earlier, group, kind), marks.signs(run, now, group, kind)
    return Pair(was, now, kind, ratio, (1 + least) * half - 1, verdict, before.disagree or after.disagree, both)
