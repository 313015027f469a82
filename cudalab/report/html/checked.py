"""The charts of a run that only checked: the largest error of each variant, and the error against the input."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from cudalab.base import numbers
from cudalab.report import check_table
from cudalab.report.html.figures import Figure, name, ours, part, role, styles
from cudalab.results.record import Case, ErrorCurve, Results


def accuracy(run: Results, cases: list[Case]) -> Figure | None:
    """The largest error of each variant of one kernel and dtype, in a run that only checked."""
    from cudalab.report.html.charts import Bar, bars

    found = []
    for cells, held in check_table.check_rows(part(run, cases)):
        if any(c.parity for c in held):
            largest = max(inf if c.parity.max_ulp is None else c.parity.max_ulp for c in held if c.parity)
            found.append((largest, dict(zip(check_table.CHECK_HEADERS, cells)), held[0]))
    if not found:
        return None
    found.sort(key=lambda row: row[0])
    most = max((largest for largest, _, _ in found if largest < inf), default=0.0)
    shown = []
    for largest, said, case in found:
        bad = said["verdict"] != "right"
        text = f"{said['max ULP']}, {said['verdict'] if bad else said['rounded']}"
        hint = (
            f"{name(case, 80)}: {said['verdict']}, largest error {said['max ULP']} ULP, {said['rounded']} correctly "
            "rounded"
        )
        value = min(largest, 10 * max(most, 1.0))  # an infinite error gets the longest bar
        shown.append(Bar(name(case), text, value, None, None, "bad" if bad else role(case), hint))
    elements = max(c.parity.n for c in cases if c.parity)
    says = f"Against float64, at up to {elements:,} values at once. Smallest: {shown[0].hint}."
    chart = bars(shown, "largest error, ULP", symlog=1)
    return Figure("accuracy", "Largest error, and share rounded correctly", says, chart)


def error(run: Results, cases: list[Case]) -> Figure | None:
    """Draw the error against the input, for kernels with one 16-bit input; None for others."""
    from cudalab.report.html.lines import Line, errors

    found = [(c, c.parity.curve) for c in cases if c.parity and c.parity.curve and c.parity.curve.x]
    if not found:
        return None
    low, high = _interesting([curve for _, curve in found])
    style, lines, notes = styles(cases), [], []
    for case, curve in found:
        points = [(a, e) for a, e in zip(curve.x, curve.ulp, strict=True) if e is not None and low <= a <= high]
        absent = [a for a, e in zip(curve.x, curve.ulp, strict=True) if e is None]
        if points:
            places = sorted({min(max(a, low), high) for a in absent})
            lines.append(Line(name(case), points, (), style[case.label], ours(case), absent=places))
        if absent:
            ends = dict.fromkeys(f"{end(absent):.4g}" for end in (min, max))
            notes.append(f"{name(case, 80)}: NaN or infinity where a number was expected, at {' to '.join(ends)}")
    if not lines:
        return None
    largest: dict[str, list[str]] = {}
    for line in lines:
        largest.setdefault(numbers.compact(max(e for _, e in line.points)), []).append(line.name)
    says = "; ".join(f"{', '.join(names)} at most {most} ULP" for most, names in largest.items())
    trimmed = f" Shown from {low:.3g} to {high:.3g}: outside, every number is within half a ULP."
    chart = errors(lines, ("input", "error, ULP"), (0.01, 1.0))
    return Figure(
        "error",
        "Error against the input",
        f"Each name stands at its largest error. {says}.{trimmed}",
        chart,
        tuple(notes),
    )


def _interesting(found: Iterable[ErrorCurve]) -> tuple[float, float]:
    """The range of inputs where some variant is off by more than a rounding, with a tenfold margin."""
    off = [a for curve in found for a, e in zip(curve.x, curve.ulp, strict=True) if e is not None and e > 0.5]
    ends = [a for curve in found for a in (curve.x[0], curve.x[-1])]
    if not off:
        return min(ends), max(ends)
    return max(min(*off, -1.0) * 10, min(ends)), min(max(*off, 1.0) * 10, max(ends))
