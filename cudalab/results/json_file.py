"""A run as JSON: the file that `cudalab bench -o` writes, and its older versions.

Versions 2 to 9 each added fields that have a default, so every version is read in the same way. A field that this
version does not know is refused: dropping it would lose it when the run is saved again.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from math import inf
from typing import Any

import msgspec

from cudalab.base import advice
from cudalab.base.errors import InputError, short
from cudalab.base.text import encodable
from cudalab.results.record import FORMAT, VERSION, Results

Tree = dict[str, Any]

MARK = "cudalab"  # a key in files for other tools: it says that cudalab wrote the file
INSPECTION = "cudalab-inspection"  # the format of a file of `inspect -o`
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)  # what decoding bytes that are not JSON raises


class Head(msgspec.Struct):
    """The fields that identify a file."""

    format: Any = None
    version: Any = None
    cudalab: Any = None  # MARK


def as_json(tree: Any) -> bytes:
    """Records, dicts and lists as JSON. Lone surrogates, which UTF-8 cannot hold, become escapes."""
    try:
        return msgspec.json.encode(tree)
    except UnicodeEncodeError:  # the text of a library's error may hold one; the run is not lost for that
        return msgspec.json.encode(encodable(msgspec.to_builtins(tree)))


def encoded(run: Results) -> bytes:
    """The bytes of the file: the whole run with every sample, one line per case."""
    stored = msgspec.structs.replace(run, options=_infinity(run.options, inf, "inf"))
    return as_json(stored).replace(b'{"kernel":', b'\n{"kernel":')


def decoded(data: bytes, path: str) -> Results:
    """The run in the bytes of a JSON file. Raises InputError that names `path`."""
    try:
        try:
            head = msgspec.json.decode(data, type=Head)
        except msgspec.ValidationError:
            msgspec.json.decode(data)  # raises where only the beginning is JSON
            raise foreign(path) from None
        checked(head, path)
        known = head.version == VERSION
        run = (
            _with_infinity(msgspec.json.decode(data, type=Results))
            if known
            else run_of(msgspec.json.decode(data), path)
        )
        refuse_repeated(data)
        return run
    except msgspec.ValidationError as error:
        raise invalid(error, path) from None
    except UNREADABLE as error:
        raise unreadable(error, data, path) from None


def refuse_repeated(data: bytes) -> None:
    """Raise msgspec.ValidationError where an object of valid JSON has a key twice: one of its values would be lost."""

    def once(pairs: list[tuple[str, Any]]) -> None:
        names = [name for name, _ in pairs]
        if len(set(names)) < len(names):
            twice = short(next(name for i, name in enumerate(names) if name in names[:i]))
            raise msgspec.ValidationError(f"an object has the key {twice} twice; delete the value that is not meant")

    json.loads(data, object_pairs_hook=once, parse_int=str, parse_float=str)  # numbers of any length, not converted


def checked(head: Head, path: str) -> None:
    """Raise InputError for a file that is not a results file, or has a version that cannot be read."""
    if head.format != FORMAT:
        if head.cudalab is not None:
            raise InputError(f"{path} was written for another tool; give the results file that it was made from")
        if head.format == INSPECTION:
            raise InputError(
                f"{path} was written by `cudalab inspect -o` and holds no times; `cudalab compare OLD NEW` reads two "
                "such files"
            )
        raise foreign(path)
    version = head.version
    if isinstance(version, bool) or not isinstance(version, int) or not 1 <= version <= VERSION:
        newer = isinstance(version, int) and version > VERSION
        what = f"; upgrade it: {advice.upgrade()}" if newer else ""
        raise InputError(f"{path} has results version {short(version)}; this cudalab reads 1 to {VERSION}{what}")


def run_of(tree: Tree, path: str) -> Results:
    """The run in a decoded file of any version that `checked` accepts. Raises InputError."""
    try:
        return _with_infinity(msgspec.convert({**tree, "version": VERSION}, Results))
    except msgspec.ValidationError as error:
        raise invalid(error, path) from None


def _with_infinity(run: Results) -> Results:
    run.options = _infinity(run.options, "inf", inf)
    return run


def _infinity(options: Mapping[str, Any], was: object, becomes: object) -> dict[str, Any]:
    """`options` with an infinite timeout or budget as text, or back: JSON has no infinity."""
    limits = ("timeout", "budget")
    return {name: becomes if name in limits and value == was else value for name, value in options.items()}


def foreign(path: str) -> InputError:
    return InputError(
        f'{path} is JSON, but not a cudalab results file (no "format": "{FORMAT}"); give a file that '
        "`cudalab bench -o results.json` wrote"
    )


def invalid(error: Exception, path: str) -> InputError:
    what = f"; a newer cudalab may know it: {advice.upgrade()}" if "unknown field" in str(error) else ""
    return InputError(f"{path} is not a valid results file: {error}{what}")


def unreadable(error: Exception, data: bytes, path: str) -> InputError:
    """For bytes that are not JSON: says whether a results file was cut off or the file never was one."""
    if not data.strip():
        return InputError(f"{path} is not a results file: it is empty; {_advice(path)}")
    if is_cut(error, data) and f'"{FORMAT}"'.encode() in data[:200]:
        return cut_off(f"ends at byte {len(data):,} in the middle of a value", path)
    return InputError(f"{path} is not a results file: {error}; {_advice(path)}")


def _advice(path: str) -> str:
    """How to write a results file; the file at `path` is not overwritten if its name is not a results file's."""
    named = path if path.endswith((".json", ".jsonl")) else "results.json"
    return f"write one with `cudalab bench -o {shlex.quote(named)}`"


def is_cut(error: Exception, text: bytes) -> bool:
    """Whether the JSON in `text` lacks its end; a number that was cut counts as malformed at the end."""
    return "truncated" in str(error) or str(error).endswith(f"(byte {len(text)})")


def cut_off(where: str, path: str) -> InputError:
    name = shlex.quote(path)
    return InputError(
        f"{path} seems cut off: it {where}. Copy it again, or keep the complete groups and measure the rest: "
        f"cudalab convert --salvage {name} mended.json, then --resume mended.json"
    )
