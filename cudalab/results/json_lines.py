"""JSON Lines: the first line holds the run without its cases, each further line one case. Nothing is lost.

In the first line `cases` is the number of cases, so that a file that was cut off is recognized. A program that writes
cases while it runs may leave it out.
"""

from __future__ import annotations

from typing import Any

import msgspec

from cudalab.results import json_file
from cudalab.results.json_file import as_json
from cudalab.results.record import Results


def encoded(run: Results) -> bytes:
    """The bytes of the file."""
    tree = msgspec.json.decode(json_file.encoded(run))
    cases = tree.pop("cases")
    return b"".join(as_json(line) + b"\n" for line in [{**tree, "cases": len(cases)}, *cases])


def decoded(data: bytes, path: str) -> Results:
    """The run in such a file. Raises InputError that names `path` and the line."""
    first, *rest = [(number, line) for number, line in enumerate(data.split(b"\n"), 1) if line.strip()]
    head = _line(*first, data, path)
    json_file.checked(json_file.Head(head.get("format"), head.get("version"), head.get("cudalab")), path)
    promised = head.pop("cases", None)
    cases = [_line(number, line, data, path) for number, line in rest]
    if isinstance(promised, int) and len(cases) < promised:
        raise json_file.cut_off(f"has {len(cases)} of {promised} cases", path)
    return json_file.run_of({**head, "cases": cases}, path)


def _line(number: int, line: bytes, data: bytes, path: str) -> dict[str, Any]:
    try:
        tree = msgspec.json.decode(line, type=dict[str, Any])
        json_file.refuse_repeated(line)
        return tree
    except msgspec.ValidationError as error:
        raise json_file.invalid(ValueError(f"line {number}: {error}"), path) from None
    except json_file.UNREADABLE as error:
        if json_file.is_cut(error, line) and data.rstrip().endswith(line.rstrip()):
            raise json_file.cut_off(f"ends in the middle of line {number}", path) from None
        raise json_file.invalid(ValueError(f"line {number}: {error}"), path) from None
