"""Reads the whole cases of a results file that was cut off."""

from __future__ import annotations

import re

import msgspec

from cudalab.base.errors import InputError
from cudalab.results import json_file
from cudalab.results.record import Results

CASE = b'\n{"kernel":'  # the beginning of a case, in JSON and in JSON Lines


def salvaged(data: bytes, path: str) -> Results:
    """The run in the bytes of a cut-off file, marked as not complete.

    The last group of cases is left out, since some of its cases may be missing, and `--resume` does not measure a group
    again that has any. Raises InputError if the fields before the first case are not whole.
    """
    head, *cases = data.split(CASE)
    tree = _decoded(re.sub(rb',"cases":(\[|\d+\})$', b"", head.rstrip()) + b"}")
    if not isinstance(tree, dict):
        raise InputError(f"{path} ends before its first case, so nothing can be salvaged")
    json_file.checked(json_file.Head(tree.get("format"), tree.get("version")), path)
    whole = [_decoded(CASE + case.rstrip().rstrip(b",")) for case in cases[:-1]]
    run = json_file.run_of({**tree, "cases": whole}, path)
    last = run.cases[-1].group if run.cases else None
    run.cases = [case for case in run.cases if case.group != last]
    run.complete = False
    return run


def _decoded(text: bytes) -> object:
    try:
        return msgspec.json.decode(text)
    except json_file.UNREADABLE:
        return None
