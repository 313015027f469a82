"""Every time of a history as one flat table for other programs: CSV, or Parquet by pyarrow."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from cudalab.base import advice, files
from cudalab.base.errors import InputError, Unavailable
from cudalab.results.flat import escaped
from cudalab.tools.history.series import History

COLUMNS = (
    "kernel", "size", "shape", "dtype", "backend", "variant", "kind", "seconds", "parameters", "run", "created",
    "commit", "source", "device", "machine", "card", "driver", "versions", "file", "digest",
)  # fmt: skip


def write(found: History, target: Path) -> None:
    """Write one row for each time whole or not at all. Raises Unavailable for Parquet without pyarrow."""
    writer, begin = WRITERS[target.suffix.lower()]
    if target.exists() and target.stat().st_size:
        with target.open("rb") as file:
            if file.read(len(begin)) != begin:
                raise InputError(f"will not replace {target}, which no history wrote; give another name with -o")
    files.write(target, writer(found))


def rows(found: History) -> Iterator[tuple[Any, ...]]:
    """One row for each time, in the order of COLUMNS. Times are seconds; `file` is relative to the store's folder."""
    for series in found.series:
        case = series.case
        shape = "x".join(map(str, case.shape))
        for run, seconds, parameters in zip(series.runs, series.seconds, series.parameters, strict=True):
            machine = run.machine
            yield (
                case.kernel, case.size, shape, case.dtype, case.backend, case.variant, series.kind, seconds, parameters,
                run.number, run.created, run.commit, run.sources.get(f"{case.kernel}.cu", ""), machine.device,
                machine.name, series.card, str(machine.details.get("driver", "")),
                " ".join(f"{name}={version}" for name, version in machine.versions.items()), run.file, run.digest,
            )  # fmt: skip


def _csv(found: History) -> bytes:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([escaped(cell) if isinstance(cell, str) else cell for cell in row] for row in rows(found))
    return out.getvalue().encode()


def _parquet(found: History) -> bytes:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise Unavailable(
            f"Parquet needs pyarrow: {advice.packages('pyarrow')}; or write .csv, which needs nothing"
        ) from None
    columns = dict(zip(COLUMNS, zip(*rows(found), strict=True), strict=False))
    table = pyarrow.table({name: list(columns.get(name, ())) for name in COLUMNS})
    out = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(table, out)
    return bytes(out.getvalue())


# By the ending of a file's name: what makes its bytes, and how these begin.
WRITERS: dict[str, tuple[Callable[[History], bytes], bytes]] = {
    ".csv": (_csv, ",".join(COLUMNS).encode()),
    ".parquet": (_parquet, b"PAR1"),
}
