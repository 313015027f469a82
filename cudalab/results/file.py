"""Results files: read and write them, whatever their format."""

from __future__ import annotations

import codecs
import os
import re
import tempfile
import warnings
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path, PurePath

from cudalab.base import files
from cudalab.base.errors import InputError
from cudalab.base.text import visible
from cudalab.results import bounds, formats
from cudalab.results.json_file import INSPECTION
from cudalab.results.record import FORMAT, Results

MARKER = re.compile(rb'"format"\s*:\s*"(cudalab-[a-z-]+)"')


def load(path: str | os.PathLike[str]) -> Results:
    """Read a results file: JSON, JSON Lines or CSV, of this version or an older one.

    Raises InputError that names the file and says what is wrong with it. docs/results-file.md says what is too large.
    """
    try:
        return formats.decoded(bounds.read(path), os.fspath(path))
    except MemoryError:
        raise InputError(f"{visible(os.fspath(path))} does not fit into the memory of this machine") from None


def save(run: Results, path: str | os.PathLike[str]) -> None:
    """Write the file whole or not at all: JSON Lines where its name ends in .jsonl, else JSON.

    Raises InputError for a name that ends in .csv: a CSV does not hold the whole run.
    """
    files.write(path, formats.encoded(run, formats.whole_format(path)))


def rescue(run: Results) -> str:
    """Write a run whose own file cannot be written to a new file elsewhere; returns its path, "" where none can be."""
    places: list[Callable[[], str | Path]] = [tempfile.gettempdir, Path.home, Path.cwd]
    for place in places:
        try:
            fd, path = tempfile.mkstemp(prefix="cudalab-", suffix=".json", dir=place())
        except (OSError, RuntimeError):  # RuntimeError: there is no home folder
            continue
        os.close(fd)
        try:
            save(run, path)
        except OSError:
            os.unlink(path)
            continue
        return path
    return ""


def writable(path: str | os.PathLike[str]) -> None:
    """Raise InputError now if `save` would fail later, or would replace a file that is not a results file."""
    target = files.place(path)
    formats.whole_format(path)
    if target.exists() and target.stat().st_size:
        try:
            load(target)
        except InputError as error:
            raise InputError(f"will not replace {target}, which is not a results file: {error}") from None


def expanded(names: Iterable[str], inspections: bool = False) -> list[str]:
    """The results files that the names stand for: a folder for those in it, in order.

    Other files of a folder are left out; a warning names those whose names end as results files do. Raises InputError
    for a folder without any. `inspections`: files of `inspect -o` count as well.
    """
    found: list[str] = []
    for name in names:
        if not os.path.isdir(name):
            found.append(name)
            continue
        ends = tuple(end + gz for end in formats.SUFFIXES for gz in ("", ".gz"))
        exports = tuple(f".{format}.json" for format in formats.EXPORTS)  # by `convert`, for other tools
        with os.scandir(name) as entries:
            files = [entry for entry in entries if entry.name.endswith(ends) and entry.is_file()]
        named = sorted(entry.path for entry in files if not entry.name.endswith(exports))
        within = [path for path in named if _ours(path, inspections)]
        if foreign := [os.path.basename(path) for path in named if path not in within]:
            warnings.warn(f"left out of {visible(name)}: {visible(', '.join(foreign))}: no results", stacklevel=2)
        if not within:
            raise InputError(f"{visible(name)} is a folder without results files ({', '.join(formats.SUFFIXES)})")
        found += within
    return found


def _ours(path: str, inspections: bool) -> bool:
    """Whether the beginning of a file is that of one of ours; True also for one that cannot be read, which `load` says.

    A run of any version names its format first; a CSV has columns that no other of the lab's has.
    """
    try:
        head = bounds.beginning(path)
    except (OSError, EOFError, zlib.error):
        return True
    text = head.removeprefix(codecs.BOM_UTF8).lstrip()
    if not text or text[:1] == b"{":
        found = MARKER.search(text)
        wanted = (FORMAT, INSPECTION) if inspections else (FORMAT,)
        return not text or (found is not None and found[1].decode() in wanted)
    first, end, _ = text.partition(b"\n")
    columns = {name.strip(b'" \r') for name in first.split(b",")}
    return {b"kernel", b"nbytes"} <= columns and (b"parity" in columns or not end)  # a longer line is cut off


def stem(path: str) -> str:
    """The name of a results file without its folder, its ending and .gz."""
    name = PurePath(path.removesuffix(".gz"))
    return name.stem if name.suffix.lower() in formats.SUFFIXES else name.name


def pairs(old: str, new: Sequence[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """(old, new) files to compare, and files of folders without a partner.

    Each file or folder of `new` is compared with `old`. In a folder, a partner is the file of the same name, whatever
    its ending. Raises InputError where there is none.
    """
    found, alone = list[tuple[str, str]](), dict[str, None]()
    for name in new:
        if not os.path.isdir(old) and not os.path.isdir(name):
            found.append((old, name))
            continue
        before, after = ({stem(path): path for path in reversed(expanded([one], True))} for one in (old, name))
        both = sorted(before.keys() & after.keys())
        if not both:
            have = " and ".join(f"{visible(one)} has {', '.join(sorted(files))}"
                                for one, files in ((old, before), (name, after)))  # fmt: skip
            raise InputError(f"nothing to compare: files are compared by their names, and {have}; name two files")
        found += [(before[one], after[one]) for one in both]
        single = not (os.path.isdir(old) and os.path.isdir(name))
        lonely = [] if single else [files[one] for files in (before, after) for one in sorted(files) if one not in both]
        alone |= dict.fromkeys(lonely)
    return found, [*alone]
