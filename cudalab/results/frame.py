"""A run as a pandas DataFrame, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from cudalab.base.errors import InputError, Unavailable
from cudalab.results import csv_file, flat
from cudalab.results.record import Results, as_json

if TYPE_CHECKING:
    import pandas

NAME = "the frame"


def to_frame(run: Results, samples: bool) -> pandas.DataFrame:
    """One line a case: medians and where they were taken, or with `samples` all of `flat.records`."""
    try:
        import pandas
    except ImportError:
        raise Unavailable("to_frame needs pandas; pip install pandas, or use to_dicts()") from None
    if samples:
        return pandas.DataFrame(flat.records(run))
    where = {"created": run.created, "device": run.machine.device, "machine": run.machine.name}
    return pandas.DataFrame([{**row, **where} for row in flat.medians(run)])


def from_frame(frame: pandas.DataFrame) -> Results:
    """The run of such a frame with samples; cells that came through a CSV may be text."""
    columns = [column for column in flat.COLUMNS if column in frame.columns]
    rows = [{column: _cell(column, value) for column, value in row.items()} for row in
            frame[columns].to_dict("records")]  # fmt: skip
    try:
        return flat.run_of(msgspec.json.decode(as_json(rows)), NAME)  # which turns NaN and what is NumPy's into JSON's
    except TypeError as error:
        raise InputError(f"{NAME} holds what no results file can: {error}") from None


def _cell(column: str, value: Any) -> Any:
    """A cell as it was: pandas writes numbers for text that looks like one, and NaN for text that is empty."""
    if hasattr(value, "item"):
        value = value.item()
    missing = value is None or value != value
    if column in flat.TEXTS:
        whole = isinstance(value, float) and not missing and value.is_integer()
        return "" if missing else str(int(value) if whole else value)
    if missing:
        return None
    return csv_file.parsed(value, f"{NAME}, column {column}") if isinstance(value, str) else value
