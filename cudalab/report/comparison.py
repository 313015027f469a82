"""A comparison of two runs as a table, as Markdown for a pull request, or as JSON."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from math import inf
from typing import Any

from cudalab.base import numbers, stats
from cudalab.base.errors import unknown
from cudalab.base.memo import unchanging
from cudalab.base.stats import FASTER, SAME, SLOWER, UNCLEAR
from cudalab.report import below_tables, columns
from cudalab.report.markdown import cell, inline
from cudalab.results import comparable, marks, record
from cudalab.results.compare import MOVED, VERDICTS, Comparison, Pair
from cudalab.results.record import Case

FORMATS = ("table", "markdown", "json")
HEADERS = ["variant", "old {}", "new {}", "speed-up", "interval", "threshold", "verdict"]  # {}: the unit
DROPPED = ("threshold", "interval")  # that a narrow terminal leaves out, in this order
ULP_HEADERS = ["kernel", "dtype", "variant", "old max ULP", "new max ULP"]
STYLES = {SLOWER: "bold red", FASTER: "green", UNCLEAR: "yellow", MOVED: "bold yellow", SAME: ""}
# What is said of the columns and verdicts that a table has: of two runs, and of one run with an earlier `.cu`.
FOOTER = {
    "speed-up": "old time over new time{}.",
    "threshold": "the smallest difference that counts, --min-effect widened by what two runs of the same code differ "
    "by.",
    UNCLEAR: 'the processes of a run differ by more than the threshold assumes, the speed-up is "?", or the time of '
    "the copy changed too.",
}
FOOTER_OF_ONE_RUN = {
    "speed-up": "old time over new time in the same rounds and processes{}.",
    FASTER: "the whole interval {beyond}.",
    SLOWER: "the whole interval {beyond}.",
    SAME: "within 2 % of 1, and no difference is shown.",
    UNCLEAR: "the interval is too wide to tell.",
    "threshold": "the smallest difference that this run could find.",
}
IDENTICAL = "; old and new are the same text: every difference is chance"
FOOTER_OF_HOST = (
    "threshold 100 %: times that depend on the host (call, api, wall) count from a factor of 2 on, since other load or "
    "another machine of the same kind changes them."
)
FOOTER_OF_ENERGY = "energy: speed-up, FASTER and SLOWER stand for less and more energy a call; 2 % are the least."
FOOTER_OF_NONE = f"speed-up ?: the amount is unknown, since {marks.NO_RATIO}."
COMPARISON = "cudalab-comparison"


@unchanging
def render(found: Comparison, names: tuple[str, str], format: str, width: int | None = None,
           color: bool = False, height: int | None = None) -> str:  # fmt: skip
    """All of `found`; `names` are those of the old and the new run. `width`, `color`, `height` are for the table."""
    if format == "table":
        return _table(found, names, width, color, height)
    if format == "markdown":
        return "\n".join(_markdown(found, names))
    if format == "json":
        return json.dumps(_document(found, names), indent=1, allow_nan=False)
    raise unknown("format", format, FORMATS)


def sentence(found: Comparison) -> str:
    """Return the comparison in one sentence."""
    if found.refusal:
        return found.refusal[0].upper() + found.refusal[1:]
    wrong = sum(len({(c.group, c.label) for c in cases}) for cases in found.wrong.values())
    text = f"{wrong} {'answer is' if wrong == 1 else 'answers are'} wrong or missing; " if wrong else ""
    mended = len(found.mended)
    right = (
        f"; {mended} {'was' if mended == 1 else 'were'} wrong in the old {found.where}, right in the new"
        if mended
        else ""
    )
    if found.where != "run" and not found.kinds:
        right_in_both = sum(was.status == now.status == record.OK for was, now in found.checked)
        entries = "1 entry is" if right_in_both == 1 else f"{right_in_both} entries are"
        text += f"{entries} right in the old .cu and in the new one; nothing was timed, which needs a GPU{right}"
        return text + (IDENTICAL if found.identical else "")
    if not found.pairs:
        checked = len(found.checked)
        text += f"{checked} {'case was' if checked == 1 else 'cases were'} checked in both runs, "
        return text + ("none was timed in both" if found.kinds else "nothing was timed") + right
    counts = found.counts
    total = sum(counts.values())
    if not any(pair.old.backend in record.ENTRIES for pair in found.pairs):
        why = ": the CPU checks a .cu and does not time it" if "wall" in found.kinds else ""
        text += f"no kernel was timed in both runs{why}. Of the libraries, "
    slower = f"{counts[SLOWER]} of {total} cases {'is' if counts[SLOWER] == 1 else 'are'} SLOWER"
    not_slower = "the one case is not slower" if total == 1 else f"none of {total} cases is slower"
    text += slower if counts[SLOWER] else not_slower
    others = ", ".join(f"{counts[v]} {v}" for v in VERDICTS if v != SLOWER and counts[v])
    kinds = ", ".join(kind.replace("_", " ") for kind in found.kinds)
    text += f"{': ' if others else ''}{others} ({kinds})"
    gone = sum(map(len, found.left_out.values()))
    text += f"; {gone} not compared" if gone else ""
    text += IDENTICAL if found.identical else ""
    text += f"; {len(found.untimed)} right, not timed" if found.untimed else ""
    text += right
    return text[0].upper() + text[1:]


def differing(found: Comparison) -> list[str]:
    """One line for each difference between the runs, those that forbid a comparison first."""
    return [*map(str, found.differences), *found.remarks]


def notes(found: Comparison) -> list[tuple[str, str, str]]:
    """(what, which cases, why) for everything that is not in a row of the tables."""
    drift: dict[str, list[str]] = {}
    for pair in found.drift:
        drift.setdefault(numbers.ratio(pair.ratio), []).append(f"{' '.join(pair.old.group)} {pair.kind}")
    why = "is the speed-up of the copy, which does not depend on the kernels"
    moved = [("the machine changed", _several(where), f"{value} {why}") for value, where in drift.items()]
    wrong = [("wrong", _about(cases), text) for text, cases in _folded(found.wrong).items()]
    was_wrong = [
        ("not compared", _about(cases), text)
        for some in (found.libraries, found.was_wrong)
        for text, cases in _folded(some).items()
    ]
    return (
        below_tables.hints_once(wrong + was_wrong)
        + moved
        + [("not compared", _about(cases), text) for text, cases in found.left_out.items()]
    )


def _folded(wrong: Mapping[str, list[Case]]) -> dict[str, list[Case]]:
    """The cases of a variant whose reasons say the same of other values, as at other sizes, by the first of these."""
    texts, found = dict[tuple[str, ...], str](), dict[str, list[Case]]()
    for text, cases in wrong.items():
        for case in cases:
            first = texts.setdefault((text.removesuffix(case.reason), *below_tables.same_reason(case)), text)
            found.setdefault(first, []).append(case)
    return found


def footer(found: Comparison, left_out: Collection[str] = ()) -> list[str]:
    """How to read the table: its columns, without those `left_out`, and its verdicts."""
    borne = [text for pair in found.pairs for text in pair.marks]
    unknown = any(pair.ratio.says_nothing for pair in found.pairs) and not any("?" in text for text in borne)
    amount = [FOOTER_OF_NONE] if unknown else []
    host = [FOOTER_OF_HOST] if any(comparable.of_host(pair.kind) for pair in found.pairs) else []
    host += [FOOTER_OF_ENERGY] if any(pair.kind == record.ENERGY for pair in found.pairs) else []
    there = {"speed-up", "threshold", *(pair.verdict for pair in found.pairs)} - {*left_out}
    says: dict[str, list[str]] = {}  # what is said of one word or of several
    for word, text in (FOOTER if found.where == "run" else FOOTER_OF_ONE_RUN).items():
        if word in there:
            interval = "" if "interval" in left_out else ", with its 95 % interval"
            says.setdefault(text.format(interval, beyond=_beyond(found)), []).append(word)
    how = " ".join(f"{', '.join(words)}: {text}" for text, words in says.items())
    return [how, *host, *amount, *marks.explained(borne, disturbed=bool(found.busy))]


def _beyond(found: Comparison) -> str:
    percent = f"{numbers.compact(100 * found.min_effect)} %"
    if found.seconds:
        return f"is further from 1 than {numbers.compact(1e6 * found.seconds)} \u00b5s of the time (at most {percent})"
    return f"is further than {percent} from 1" if found.min_effect else "leaves 1 out"


def errors_in_ulp(found: Comparison) -> list[list[str]]:
    """Rows, in the order of ULP_HEADERS, for the variants whose largest error changed."""
    worst: dict[tuple[str, str, str], list[float]] = {}
    for pair in found.checked:
        row = worst.setdefault((pair[0].kernel, pair[0].dtype, pair[0].label), [0.0, 0.0])
        row[:] = (max(so_far, c.parity.largest if c.parity else 0.0) for so_far, c in zip(row, pair, strict=True))
    return [[*key, *map(numbers.ulp, row)] for key, row in worst.items() if numbers.ulp(row[0]) != numbers.ulp(row[1])]


def groups(pairs: Iterable[Pair]) -> dict[str, list[Pair]]:
    """Pairs by title: kernel, size, dtype and kind of time. The slowest comes first, the copy last."""
    found: dict[tuple[tuple[str, str, str], str], list[Pair]] = {}
    for pair in pairs:
        found.setdefault((pair.old.group, pair.kind), []).append(pair)
    return {_title(rows[0]): sorted(rows, key=lambda p: (p.control, p.ratio.value)) for rows in found.values()}


def _title(pair: Pair) -> str:
    case = pair.old
    shape = "x".join(map(str, case.shape))
    size = shape if case.size == shape else f"{case.size} ({shape})"
    return f"{case.kernel}  {size}  {case.dtype}  {pair.kind.replace('_', ' ')}"


def headers(kind: str) -> list[str]:
    """Return HEADERS with the unit of a kind of time."""
    return [head.format(columns.unit_of(kind)[0]) for head in HEADERS]


def cells(pair: Pair) -> list[str]:
    """Return one row, in the order of HEADERS."""
    r = pair.ratio
    threshold = f"{numbers.compact(100 * pair.effect)} %"
    name = "copy (control)" if pair.control else pair.old.label
    times = [columns.in_unit(case, pair.kind) for case in (pair.old, pair.new)]
    marked = map("".join, zip(times, pair.marks))
    return [name, *marked, numbers.ratio(r), numbers.interval(r), threshold, pair.verdict]


def _about(cases: list[Case]) -> str:
    """Labels of the cases, then their groups."""
    labels = dict.fromkeys("copy" if c.status == record.CEILING else c.label for c in cases)
    return f"{', '.join(labels)} ({_several(list(dict.fromkeys(' '.join(c.group) for c in cases)))})"


def _several(names: list[str]) -> str:
    return f"{names[0]} and {len(names) - 1} more" if len(names) > 1 else names[0]


def _table(
    found: Comparison, names: tuple[str, str], width: int | None, color: bool, height: int | None
) -> str:  # fmt: skip
    from cudalab.report import highlight
    from cudalab.report.table import Page, columns_of, fitting, plain, put, remark, without

    page = Page(width, height, color)
    console = page.body
    page.top.print(plain(f"{names[0]} -> {names[1]}", "bold"))
    for line in found.busy:
        page.top.print(plain(line, "bold yellow"))
    for line in differing(found):
        page.top.print(plain(f"differs: {line}", "yellow"))
    gone = dict[str, None]()
    ours = highlight.explained([pair.new for pair in found.pairs if not pair.control])
    for title, pairs in groups(found.pairs).items():
        console.print()
        console.print(plain(title))
        named = zip(headers(pairs[0].kind), *map(cells, pairs), strict=True)
        every = [columns.Column(head, list(values)) for head, *values in named]
        drawn = highlight.signed(every, [pair.new for pair in pairs] if ours else ())
        drawn, left_out = fitting(drawn, DROPPED, console.width)
        gone |= dict.fromkeys(left_out)
        table = columns_of([column.name for column in drawn], left=1)
        for pair, *row in zip(pairs, *(column.cells for column in drawn), strict=True):
            table.add_row(*map(highlight.cell, row), style="dim" if pair.control else STYLES[pair.verdict])
        put(console, table)
    if rows := errors_in_ulp(found):
        console.print()
        table = columns_of(ULP_HEADERS, left=3)
        for row in rows:
            table.add_row(*map(plain, row))
        put(console, table, [ULP_HEADERS.index(name) for name in ("variant", "kernel")])
    console.print()
    if gone:
        console.print(without([*gone], "json"))
    for what, which, why in notes(found):
        console.print(remark(what, which, why))
    for line in ours + footer(found, gone) if found.pairs else ():
        page.legend.print(plain(line, "dim"))
    page.end.print(plain(sentence(found), "bold red" if found.exit_code else "bold green"))
    return page.text("json")


def _markdown(found: Comparison, names: tuple[str, str]) -> list[str]:
    changed = [p for p in found.pairs if p.verdict in (SLOWER, FASTER)]
    rest = [p for p in found.pairs if p.verdict not in (SLOWER, FASTER)]
    lines = [f"**{inline(sentence(found))}**", "", f"{inline(names[0])} \u2192 {inline(names[1])}"]
    lines += [line for text in found.busy for line in ("", inline(text))]
    points = [f"- differs: {inline(line)}" for line in differing(found)]
    points += [f"- {what}: {inline(which)}: {inline(why)}" for what, which, why in notes(found)]
    lines += ["", *points] if points else []
    lines += ["", *_rows(changed)] if changed else []
    if rows := errors_in_ulp(found):
        lines += ["", *_lines(ULP_HEADERS, rows, 3)]
    if rest:
        lines += [
            "",
            f"<details><summary>{len(rest)} more</summary>",
            "",
            *_rows(rest),
            "",
            *footer(found),
            "",
            "</details>",
        ]
    return lines


def _rows(pairs: list[Pair]) -> list[str]:
    """One table of pairs from several groups, the slowest first; energies have one of their own."""
    body = [
        (p.kind, [f"{' '.join(p.old.group)}, {p.kind.replace('_', ' ')}", *cells(p)])
        for p in sorted(pairs, key=lambda p: (p.control, p.ratio.value))
    ]
    times, energies = ([row for kind, row in body if (kind == record.ENERGY) is of] for of in (False, True))
    lines = _lines(["case", *headers("")], times, 2) if times else []
    return lines + (["", *_lines(["case", *headers(record.ENERGY)], energies, 2)] if energies else [])


def _lines(headers: list[str], body: list[list[str]], left: int) -> list[str]:
    rule = ["---"] * left + ["--:"] * (len(headers) - left)
    return [f"| {' | '.join(row)} |" for row in (headers, rule, *([cell(c) for c in row] for row in body))]


def _document(found: Comparison, names: tuple[str, str]) -> dict[str, Any]:
    return {
        "format": COMPARISON,
        "version": 1,
        "old": names[0],
        "new": names[1],
        "sentence": sentence(found),
        "exit_code": found.exit_code,
        "min_effect": found.min_effect,
        "counts": found.counts,
        "differences": [{"what": d.what, "old": d.old, "new": d.new} for d in found.differences],
        "remarks": found.remarks,
        "busy": found.busy,
        "pairs": [_pair(pair) for pair in found.pairs],
        "max_ulp": [dict(zip(("kernel", "dtype", "label", "old", "new"), row, strict=True))
                    for row in errors_in_ulp(found)],
        "notes": [{"what": what, "cases": which, "why": why} for what, which, why in notes(found)],
    }  # fmt: skip


def _pair(pair: Pair) -> dict[str, Any]:
    old, new = (stats.median(case.times[pair.kind]) for case in (pair.old, pair.new))
    unit = "joules" if pair.kind == record.ENERGY else "seconds"
    high = pair.ratio.high if pair.ratio.high < inf else None
    return {
        "kernel": pair.old.kernel, "size": pair.old.size, "shape": list(pair.old.shape), "dtype": pair.old.dtype,
        "label": pair.old.label, "kind": pair.kind, "control": pair.control, f"old_{unit}": old, f"new_{unit}": new,
        "speedup": pair.ratio.value, "low": pair.ratio.low, "high": high, "counts_from": pair.effect,
        "verdict": pair.verdict, "old_marks": pair.marks[0], "new_marks": pair.marks[1],
    }  # fmt: skip
