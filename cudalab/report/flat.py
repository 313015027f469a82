"""Formats for programs: CSV with one line per case (medians), JSON with every sample."""

from __future__ import annotations

import csv
import io

from cudalab.base.text import visible
from cudalab.results import flat, json_file
from cudalab.results.record import Results


def as_csv(results: Results) -> str:
    """Medians in seconds and bytes per second, one line per case, always with a header."""
    out = io.StringIO()
    rows = flat.medians(results)
    writer = csv.DictWriter(out, list(rows[0]) if rows else ["kernel"], lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({k: visible(v, keep="\n") if isinstance(v, str) else v for k, v in row.items()})
    return out.getvalue().rstrip("\n")


def as_json(results: Results) -> str:
    """The same text that `-o` writes."""
    return json_file.encoded(results).decode()
