"""What is whole in a results file that was cut off."""

from __future__ import annotations

import re

import msgspec

from cudalab.base.errors import InputError
from cudalab.results import versions
from cudalab.results.record import Results

CASE = b'\n{"kernel":'  # how a case begins, in JSON and in JSON Lines


def salvaged(data: bytes, path: str) -> Results:
    """The run in the bytes of a cut-off file, not complete, with all cases of each group that has its cases.

    The last group in the file is left out: some of its cases may be missing, and a run that goes on takes a group
    that is there for done. Raises InputError where not even the beginning of a run is whole.
    """
    head, *cases = data.split(CASE)
    tree = _decoded(re.sub(rb',"cases":(\[|\d+\})$', b"", head.rstrip()) + b"}")
    if not isinstance(tree, dict):
        raise InputError(f"{path} has no whole beginning of a run, so there is nothing to keep of it")
    versions.checked(versions.Head(tree.get("format"), tree.get("version")), path)
    whole = [_decoded(CASE + case.rstrip().rstrip(b",")) for case in cases[:-1]]
    run = versions.run_of({**tree, "cases": whole}, path)
    last = run.cases[-1].group if run.cases else None
    run.cases = [case for case in run.cases if case.group != last]
    run.complete = False
    return run


def _decoded(text: bytes) -> object:
    try:
        return msgspec.json.decode(text)
    except versions.UNREADABLE:
        return None
