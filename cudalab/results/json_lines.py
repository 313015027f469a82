"""JSON Lines: the run without its cases in the first line, then a case a line. Nothing is lost.

In the first line `cases` is their number, so that a file that was cut off is known as such; a program that writes
cases as they come leaves it out.
"""

from __future__ import annotations

from typing import Any

import msgspec

from cudalab.results import versions
from cudalab.results.record import Results, as_json


def encoded(run: Results) -> bytes:
    """The bytes of the file."""
    tree = msgspec.json.decode(run.to_json())
    cases = tree.pop("cases")
    return b"".join(as_json(line) + b"\n" for line in [{**tree, "cases": len(cases)}, *cases])


def decoded(data: bytes, path: str) -> Results:
    """The run in such a file. Raises InputError that names `path` and the line."""
    first, *rest = [(number, line) for number, line in enumerate(data.split(b"\n"), 1) if line.strip()]
    head = _line(*first, data, path)
    versions.checked(versions.Head(head.get("format"), head.get("version"), head.get("cudalab")), path)
    promised = head.pop("cases", None)
    cases = [_line(number, line, data, path) for number, line in rest]
    if isinstance(promised, int) and len(cases) < promised:
        raise versions.cut_off(f"has {len(cases)} of {promised} cases", path)
    return versions.run_of({**head, "cases": cases}, path)


def _line(number: int, line: bytes, data: bytes, path: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.ValidationError as error:
        raise versions.invalid(ValueError(f"line {number}: {error}"), path) from None
    except versions.UNREADABLE as error:
        if versions.is_cut(error, line) and data.rstrip().endswith(line.rstrip()):
            raise versions.cut_off(f"ends in the middle of line {number}", path) from None
        raise versions.invalid(ValueError(f"line {number}: {error}"), path) from None
