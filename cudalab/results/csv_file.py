"""CSV that can be read back: one line per case; lists and objects are columns of JSON."""

from __future__ import annotations

import csv
import io
from typing import Any

import msgspec

from cudalab.base.errors import InputError
from cudalab.results import flat, json_file
from cudalab.results.json_file import as_json
from cudalab.results.record import Results

WIDEST = 1 << 30  # characters of a cell; Python's own limit is 131,072


def encoded(run: Results) -> bytes:
    """The bytes of the file."""
    rows = flat.records(run)
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]) if rows else flat.COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows({column: _cell(value) for column, value in row.items()} for row in rows)
    return out.getvalue().encode("utf-8", "backslashreplace")  # lone surrogates


def _cell(value: Any) -> Any:
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
        raise InputError(f"{path} is not valid: line {number} has another number of columns than the first")
    for column in flat.COLUMNS:
        if column not in cells:
            continue
        text = cells[column]
        found[column] = text if column in flat.TEXTS else parsed(text, f"{path}, line {number}, {column}")
    return found


def parsed(text: str, where: str) -> Any:
    """The value of a cell of JSON, None for an empty one. Raises InputError that names the place `where`."""
    try:
        return msgspec.json.decode(text) if text else None
    except json_file.UNREADABLE as error:
        raise InputError(f"{where}: not JSON: {error}") from None
