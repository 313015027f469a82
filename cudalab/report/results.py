"""`cudalab.Results`: what `cudalab.bench`, `check`, `run_study` and `load` return."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from cudalab import report
from cudalab.results import file, flat, frame, json_file, record

if TYPE_CHECKING:
    import pandas


class Results(record.Results, forbid_unknown_fields=True):
    """A run: its cases, and everything needed to judge them; it can be printed, saved and converted."""

    @classmethod
    def of(cls, run: record.Results) -> Results:
        """`run` with the methods of this class."""
        return cls(**{field: getattr(run, field) for field in run.__struct_fields__})

    def __str__(self) -> str:
        """The tables that `cudalab show` prints."""
        return report.render(self, "table")

    def _repr_html_(self) -> str | None:
        """The answers, charts and tables, for a notebook; None, which shows the text, where jinja2 is not installed."""
        from importlib.util import find_spec

        if find_spec("jinja2") is None:
            return None
        from cudalab.report.html import page

        return page.embedded(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Print the tables where IPython shows text."""
        printer.text(str(self))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file whole or not at all: JSON Lines where its name ends in .jsonl, else JSON.

        Raises InputError for a name that ends in .csv: a CSV does not hold the whole run.
        """
        file.save(self, path)

    def to_json(self) -> bytes:
        """The whole run with every sample, one line per case."""
        return json_file.encoded(self)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return one flat dict per case: medians in seconds, bytes per second, no raw samples."""
        return flat.medians(self)

    def to_frame(self, samples: bool = False) -> pandas.DataFrame:
        """A pandas DataFrame of `to_dicts`, date and machine, or with `samples` of everything that a CSV holds.

        Raises Unavailable where pandas is not installed.
        """
        return frame.to_frame(self, samples)

    @classmethod
    def from_frame(cls, table: pandas.DataFrame) -> Results:
        """The run in a frame of `to_frame(samples=True)`, or in one that pandas read from a CSV of `cudalab convert`.

        Rows may be missing or in another order; columns may have been added. Raises InputError if a column is missing
        or a cell cannot be read.
        """
        return cls.of(frame.from_frame(table))
