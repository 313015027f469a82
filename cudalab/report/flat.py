"""Formats for programs: CSV with one line per case (medians), JSON with every sample."""

from __future__ import annotations

import csv
import io
from typing import Any

from cudalab.base.text import visible, visible_json
from cudalab.results import flat, json_file
from cudalab.results.record import Results


def as_csv(results: Results) -> str:
    """Medians in seconds and bytes per second, one line per case, always with a header.

    Control characters are shown as escapes; a text that a spreadsheet would take for a formula follows an apostrophe.
    """
    out = io.StringIO()
    rows = flat.medians(results)
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(map(_cell, rows[0] if rows else ["kernel"]))
    writer.writerows(map(_cell, row.values()) for row in rows)
    return out.getvalue().rstrip("\n")


def _cell(value: Any) -> Any:
    return flat.escaped(visible(value, keep="\n")) if isinstance(value, str) else value


def as_json(results: Results) -> str:
    """What `-o` writes. Characters that a terminal obeys are escaped as JSON does it, so the data are the same."""
    return visible_json(json_file.encoded(results).decode())
