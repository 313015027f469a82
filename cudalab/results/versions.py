"""Results as JSON, of this version and of older ones: each older version has a step to the next.

A field that this version does not know is refused, not dropped: it would be missing from what is saved again.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from math import inf
from typing import Any

import msgspec

from cudalab.base.errors import InputError, short
from cudalab.results.record import FORMAT, VERSION, Results, endless

Tree = dict[str, Any]


def _from_1(tree: Tree) -> Tree:
    """2 adds `parity.curve`; nothing else changed."""
    return {**tree, "version": 2}


def _from_2(tree: Tree) -> Tree:
    """3 adds `parameters` to a case; nothing else changed."""
    return {**tree, "version": 3}


def _from_3(tree: Tree) -> Tree:
    """4 adds `quantities` to a case; nothing else changed."""
    return {**tree, "version": 4}


STEPS: dict[int, Callable[[Tree], Tree]] = {1: _from_1, 2: _from_2, 3: _from_3}  # by the version that they start from


class Head(msgspec.Struct):
    """As much of a file as says what it is."""

    format: Any = None
    version: Any = None
    cudalab: Any = None  # in what `cudalab convert` wrote for another tool: `cudalab.results.formats.MARK`


def decoded(data: bytes, path: str) -> Results:
    """The run in a JSON file. Raises InputError that names `path`."""
    try:
        try:
            head = msgspec.json.decode(data, type=Head)
        except msgspec.ValidationError:
            msgspec.json.decode(data)  # it may only begin as JSON does
            raise foreign(path) from None
        checked(head, path)
        if head.version == VERSION:
            return _endless(msgspec.json.decode(data, type=Results))
        return run_of(msgspec.json.decode(data), path)
    except msgspec.ValidationError as error:
        raise invalid(error, path) from None
    except UNREADABLE as error:
        raise unreadable(error, data, path) from None


def checked(head: Head, path: str) -> None:
    """Raise InputError for what is no results file, or of a version that cannot be read."""
    if head.format != FORMAT:
        if head.cudalab is not None:
            raise InputError(f"{path} was written for another tool, and is not read back; give the run it was made of")
        raise foreign(path)
    version = head.version
    if isinstance(version, bool) or not isinstance(version, int) or not (version == VERSION or version in STEPS):
        newer = isinstance(version, int) and version > VERSION
        advice = "; upgrade it: git pull in the checkout" if newer else ""
        raise InputError(
            f"{path} has results version {short(version)}; this cudalab reads {min(STEPS)} to {VERSION}{advice}"
        )


def run_of(tree: Tree, path: str) -> Results:
    """The run in a file's tree, of whatever version that `checked` lets pass. Raises InputError."""
    while tree["version"] != VERSION:
        tree = STEPS[tree["version"]](tree)
    try:
        return _endless(msgspec.convert(tree, Results))
    except msgspec.ValidationError as error:
        raise invalid(error, path) from None


def _endless(run: Results) -> Results:
    run.options = endless(run.options, "inf", inf)
    return run


UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def foreign(path: str) -> InputError:
    return InputError(f'{path} is JSON, but not a cudalab results file (no "format": "{FORMAT}")')


def invalid(error: Exception, path: str) -> InputError:
    advice = "; a newer cudalab may know it: git pull in the checkout" if "unknown field" in str(error) else ""
    return InputError(f"{path} is not a valid results file: {error}{advice}")


def unreadable(error: Exception, data: bytes, path: str) -> InputError:
    """For bytes that are not JSON; a file that was cut off is told from one that never was a run's."""
    if not data.strip():
        return InputError(f"{path} is not a results file: it is empty; {_advice(path)}")
    if is_cut(error, data) and f'"{FORMAT}"'.encode() in data[:200]:
        return cut_off(f"ends at byte {len(data):,} in the middle of a value", path)
    return InputError(f"{path} is not a results file: {error}; {_advice(path)}")


def _advice(path: str) -> str:
    """Never to write over what is something else."""
    named = path if path.endswith((".json", ".jsonl")) else "results.json"
    return f"write one with `cudalab bench -o {shlex.quote(named)}`"


def is_cut(error: Exception, text: bytes) -> bool:
    """Whether the JSON in `text` only lacks its end; cut in the middle of a number, it is malformed there."""
    return "truncated" in str(error) or str(error).endswith(f"(byte {len(text)})")


def cut_off(where: str, path: str) -> InputError:
    name = shlex.quote(path)
    return InputError(
        f"{path} seems cut off: it {where}. Copy it again; or keep what is whole, and measure the rest: "
        f"cudalab convert --salvage {name} mended.json, then --resume mended.json"
    )
