"""A run as flat records, one per case: for tables of other programs.

`medians` is for people. `records` adds columns of lists and dicts that hold the rest of the run; `run_of` rebuilds the
run from those columns alone and ignores the others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from cudalab.base.errors import InputError
from cudalab.base.memo import unchanging
from cudalab.results import json_file
from cudalab.results.record import FORMAT, IDENTITY, TIMES, VERSION, Case, Results

TEXTS = (*IDENTITY, "shape", "created", "device", "machine", "no_gpu", "kind", "commit")
OF_CASE = ("parity", "composed", "nbytes", "times", "costs", "cross", "condition", "notes")
OF_RUN = ("created", "complete", "device", "machine", "no_gpu", "details", "versions", "options", "sources")
# Fields of a case that older tables lack.
LATER = ("parameters", "quantities", "processes", "allocates", "written", "flops", "predicted")
LATER_OF_RUN = ("kind", "commit")
# Texts that a spreadsheet would take for a formula, also behind apostrophes.
FORMULA = re.compile(r"'*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
NEEDED = (*IDENTITY, "shape", *OF_RUN, *OF_CASE)
COLUMNS = (*NEEDED, *LATER, *LATER_OF_RUN)


@unchanging
def medians(run: Results) -> list[dict[str, Any]]:
    """One dict per case: medians in seconds, bytes per second, the speed-up over eager PyTorch.

    In a study the speed-up is over its baseline, and what it counted is added by name.
    """
    kind = run.main_kind
    kinds = dict.fromkeys((*TIMES, *(kind for case in run.cases for kind in case.times)))
    taken = {*IDENTITY, *COLUMNS, *OF_RUN, *kinds}
    counted = {n: f"quantity {n}" if n in taken else n for case in run.cases for n in case.quantities}
    return [
        _medians(run, case, kind, list(kinds)) | {shown: case.quantities.get(n) for n, shown in counted.items()}
        for case in run.cases
    ]


def _medians(run: Results, case: Case, main: str, kinds: Sequence[str]) -> dict[str, Any]:
    return {
        **{name: getattr(case, name) for name in IDENTITY},
        "shape": "x".join(map(str, case.shape)),
        "max_ulp": case.parity.max_ulp if case.parity else None,
        "rel_l2": case.parity.rel_l2 if case.parity else None,
        "nbytes": case.nbytes,
        **{kind: case.median(kind) for kind in kinds if kind not in COLUMNS},
        "bytes_per_second": case.bandwidth(main),
        **_speedup(run, case, main),
    }


def _speedup(run: Results, case: Case, kind: str) -> dict[str, Any]:
    ratio = run.speedup(case, kind)
    over = "baseline" if run.of_study else "eager"
    names = (f"speedup_over_{over}", "speedup_low", "speedup_high", "verdict")
    values = (ratio.value, ratio.low, ratio.high, ratio.verdict()) if ratio else (None,) * 4
    return dict(zip(names, values, strict=True))


def escaped(text: str) -> str:
    """The text with an apostrophe before what a spreadsheet would take for a formula."""
    return f"'{text}" if FORMULA.match(text) else text


def unescaped(text: str) -> str:
    """The text that was `escaped`."""
    return text[1:] if text.startswith("'") and FORMULA.match(text) else text


def records(run: Results) -> list[dict[str, Any]]:
    """`medians`, and with them all of a run but `calibration`, `wall` and `places`."""
    tree = msgspec.json.decode(json_file.encoded(run))
    machine = tree["machine"]
    of_run = {name: tree.get(name, machine.get(name)) for name in (*OF_RUN, *LATER_OF_RUN)}
    shared = {**of_run, "machine": machine["name"]}
    return [
        {**flat, **shared, **{name: case[name] for name in (*OF_CASE, *LATER)}}
        for flat, case in zip(medians(run), tree["cases"], strict=True)
    ]


def run_of(rows: Sequence[Mapping[str, Any]], name: str) -> Results:
    """The run that `records` was made from, with the cases of these rows. Raises InputError."""
    if not rows:
        raise InputError(f"{name} has no rows, so it holds no run; write one: cudalab convert results.json results.csv")
    if lacking := [column for column in NEEDED if column not in rows[0]]:
        raise InputError(
            f"{name} cannot be read back: it has no column {lacking[0]}; write one with every sample: "
            "cudalab convert results.json results.csv, or to_frame(samples=True)"
        )
    shared = {column: rows[0][column] for column in OF_RUN}
    shared |= {column: rows[0][column] for column in LATER_OF_RUN if rows[0].get(column)}
    for row in rows:
        if other := next((column for column in OF_RUN if row[column] != shared[column]), ""):
            raise InputError(f"{name} has rows of several runs, which differ in {other}; keep the rows of one run")
    machine = {"device": shared.pop("device"), "name": shared.pop("machine"), "details": shared.pop("details"),
               "versions": shared.pop("versions")}  # fmt: skip
    cases = [
        {**{column: row[column] for column in (*IDENTITY, *OF_CASE)}, "shape": _shape(row["shape"], name),
         **{column: row[column] for column in LATER if row.get(column) is not None}}
        for row in rows
    ]  # fmt: skip
    tree = {"format": FORMAT, "version": VERSION, **shared, "machine": machine, "cases": cases}
    return json_file.run_of(tree, name)


def _shape(text: str, name: str) -> list[int]:
    try:
        return [int(side) for side in text.split("x") if text]
    except ValueError:
        raise InputError(
            f"{name} is not valid: a shape is {text!r}; expected whole numbers joined by x, such as 32x3"
        ) from None
