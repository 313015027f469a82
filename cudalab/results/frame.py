"""A run as a pandas DataFrame, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from cudalab.base import advice
from cudalab.base.errors import InputError, Unavailable
from cudalab.results import csv_file, flat
from cudalab.results.json_file import as_json
from cudalab.results.record import Results

if TYPE_CHECKING:
    import pandas

NAME = "the frame"


def to_frame(run: Results, samples: bool) -> pandas.DataFrame:
    """One line per case: `flat.medians`, date and machine; with `samples` all of `flat.records`.

    Raises Unavailable where pandas is not installed.
    """
    try:
        import pandas
    except ImportError:
        raise Unavailable(f"to_frame needs pandas; {advice.packages('pandas')}, or use to_dicts()") from None
    if samples:
        rows = flat.records(run)
        return pandas.DataFrame([{column: _kept(value) for column, value in row.items()} for row in rows])
    where = {"created": run.created, "device": run.machine.device, "machine": run.machine.name}
    return pandas.DataFrame([{**row, **where} for row in flat.medians(run)])


def from_frame(frame: pandas.DataFrame) -> Results:
    """The run in a frame that `to_frame` made with `samples`, or that pandas read from a CSV of `cudalab convert`.

    Rows may be missing or in another order; columns may have been added. Raises InputError if a column is missing or
    a cell cannot be read.
    """
    columns = [column for column in flat.COLUMNS if column in frame.columns]
    rows = [{column: _cell(column, value) for column, value in row.items()} for row in
            frame[columns].to_dict("records")]  # fmt: skip
    try:
        plain_rows = msgspec.json.decode(as_json(rows))  # NaN becomes None, and NumPy's numbers Python's
    except TypeError as error:
        raise InputError(f"{NAME} holds a value that JSON cannot represent: {error}") from None
    return flat.run_of(plain_rows, NAME)


def _kept(value: Any) -> Any:
    """The value; a text with an apostrophe that `from_frame` would remove, as a CSV's, gets another one."""
    return flat.escaped(value) if isinstance(value, str) and value.startswith("'") else value


def _cell(column: str, value: Any) -> Any:
    """The cell's value before pandas changed it: text like "7" became a number, empty text NaN."""
    if hasattr(value, "item"):
        value = value.item()
    missing = value is None or value != value
    if column in flat.TEXTS:
        whole = isinstance(value, float) and not missing and value.is_integer()
        return "" if missing else flat.unescaped(str(int(value) if whole else value))
    if missing:
        return None
    return csv_file.parsed(value, f"{NAME}, column {column}") if isinstance(value, str) else value
