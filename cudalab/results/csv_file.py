"""CSV that can be read back: one line per case; lists and objects are columns of JSON.

A text that a spreadsheet would take for a formula has an apostrophe before it, which is removed when it is read.
"""

from __future__ import annotations

import csv
import io
from typing import Any, Literal

import msgspec

from cudalab.base.errors import InputError
from cudalab.results import bounds, flat, json_file
from cudalab.results.json_file import as_json
from cudalab.results.record import Results

WIDEST = 1 << 30  # characters of a cell; Python's own limit is 131,072


def encoded(run: Results) -> bytes:
    """The bytes of the file. Raises InputError for a run without cases, or one whose lines would repeat too much."""
    if not run.cases:
        raise InputError("a CSV has a line for each case and this run has none; write .json or .jsonl")
    rows = flat.records(run)
    shared = sum(len(str(rows[0][column])) for column in flat.OF_RUN)
    if shared * len(rows) > bounds.BYTES:
        raise InputError(
            f"a CSV would repeat {shared:,} characters of options and machine in each of {len(rows):,} lines; "
            "write .json or .jsonl"
        )
    lines = [list(map(flat.escaped, rows[0])), *([_cell(value) for value in row.values()] for row in rows)]
    text = _written(lines, csv.QUOTE_MINIMAL)
    if "\r" in text:  # before Python 3.13 the module quotes no carriage return, and reads it as the end of a line
        text = _written(lines, csv.QUOTE_ALL)
    return text.encode("utf-8", "backslashreplace")  # lone surrogates


def _written(lines: list[list[Any]], quoting: Literal[0, 1]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n", quoting=quoting).writerows(lines)
    return out.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        return flat.escaped(value)
    return as_json(value).decode() if isinstance(value, (bool, dict, list)) else value


def decoded(data: bytes, path: str) -> Results:
    """The run in such a file. Raises InputError that names `path` and the line."""
    before = csv.field_size_limit(WIDEST)
    try:
        table = csv.DictReader(io.StringIO(data.decode("utf-8-sig"), newline=""))
        rows = [_row(row, table.line_num, path) for row in table]
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not a results file: {error}") from None
    finally:
        csv.field_size_limit(before)
    return flat.run_of(rows, path)


def _row(cells: dict[str, str], number: int, path: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if None in cells or None in cells.values():
        raise InputError(f"{path} is not valid: line {number} has a different number of columns than the first")
    for column in flat.COLUMNS:
        if column not in cells:
            continue
        text = cells[column]
        found[column] = (
            flat.unescaped(text) if column in flat.TEXTS else parsed(text, f"{path}, line {number}, {column}")
        )
    return found


def parsed(text: str, where: str) -> Any:
    """The value of a cell of JSON, None for an empty one. Raises InputError that names the place `where`."""
    try:
        return msgspec.json.decode(text) if text else None
    except json_file.UNREADABLE as error:
        raise InputError(f"{where}: not JSON: {error}") from None
