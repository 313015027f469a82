"""The formats of results files by name: which one a file has, and which module reads and writes it.

`json` and `jsonl` hold the whole run, `csv` all but the fields that docs/results-file.md names. The others are written
for other tools and are not read back.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import PurePath
from typing import TYPE_CHECKING

from cudalab.base.errors import InputError, unknown
from cudalab.base.text import visible

if TYPE_CHECKING:  # `cudalab --help` lists the formats without importing msgspec
    from cudalab.results.record import Results

WHOLE = ("json", "jsonl")
READ = (*WHOLE, "csv")
EXPORTS = ("pytest-benchmark", "nvbench")
FORMATS = (*READ, *EXPORTS)
SUFFIXES = {".json": "json", ".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv"}

COUNT = re.compile(rb'"cases":\d+}\s*$')  # ends the first line of JSON Lines, also where no case follows


def encoded(run: Results, format: str) -> bytes:
    """The bytes of a file that holds `run`. Raises NotFound for an unknown format."""
    from cudalab.results import csv_file, json_file, json_lines, nvbench_file, pytest_benchmark_file

    writers: dict[str, Callable[[Results], bytes]] = {
        "json": json_file.encoded,
        "jsonl": json_lines.encoded,
        "csv": csv_file.encoded,
        "pytest-benchmark": pytest_benchmark_file.encoded,
        "nvbench": nvbench_file.encoded,
    }
    if format not in writers:
        raise unknown("format", format, writers)
    return writers[format](run)


def decoded(data: bytes, path: str) -> Results:
    """The run in the bytes of the file at `path`. Raises InputError that names the file and says what is wrong."""
    from cudalab.results import bounds, csv_file, json_file, json_lines

    readers = {"json": json_file.decoded, "jsonl": json_lines.decoded, "csv": csv_file.decoded}
    return bounds.check(readers[found_in(data, path)](data, path), path)


def found_in(data: bytes, path: str) -> str:
    """Which of READ the bytes are in; the file's name decides where the bytes do not."""
    named = SUFFIXES.get(PurePath(path.lower().removesuffix(".gz")).suffix, "json")
    first, _, rest = data.partition(b"\n")
    if data.lstrip()[:1] == b"{":
        lines = rest.strip() or named == "jsonl" or COUNT.search(first)
        return "jsonl" if lines and _is_head(first) else "json"
    return "csv" if named == "csv" or b"kernel," in first[:20].replace(b'"', b"") else "json"


def _is_head(line: bytes) -> bool:
    """Whether the line is the first of a JSON Lines file: a whole object that holds no list of cases."""
    import msgspec

    try:
        head = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return isinstance(head, dict) and not isinstance(head.get("cases"), list)


def whole_format(path: str | os.PathLike[str]) -> str:
    """The format to save a run in at `path`: JSON Lines if its name says so, else JSON.

    Raises InputError for a CSV and for a compressed file.
    """
    if PurePath(path).suffix.lower() == ".gz":
        name = PurePath(path).with_suffix("")
        raise InputError(f"results are written uncompressed; save {name}, then: gzip {name}")
    format = SUFFIXES.get(PurePath(path).suffix.lower(), "json")
    if format not in WHOLE:
        name = PurePath(path).with_suffix(".json")
        raise InputError(f"a CSV does not hold a whole run; save {name}, then: cudalab convert {name} {path}")
    return format


def format_for(path: str, to: str | None = None) -> str:
    """The format `to`, or the one of the suffix of `path`. Raises InputError if neither names one."""
    format = to or SUFFIXES.get(PurePath(path).suffix.lower(), "")
    if not format:
        raise InputError(f"the name {visible(path)} does not say which format; add --to {'|'.join(FORMATS)}")
    if format not in FORMATS:
        raise unknown("format", format, FORMATS)
    return format
