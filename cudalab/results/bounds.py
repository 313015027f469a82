"""What a results file may hold at most, so that a damaged or hostile one cannot exhaust the machine.

The largest of the lab's own files has 1.3 MB, 54,000 values and 714 cases. At the bounds a run takes about 1 GB and its
statistics a few seconds for each million values.
"""

from __future__ import annotations

import gzip
import os
import stat
import zlib
from pathlib import Path

from cudalab.base.errors import InputError, why
from cudalab.base.text import visible
from cudalab.results.record import Results

BYTES = 256 * 2**20
HEAD = 4096  # bytes, in which a file says what it is
GZIP = b"\x1f\x8b"  # how a compressed file begins
VALUES = 10_000_000  # numbers, texts, lists and objects
CASES = 100_000
CELLS = 2_000_000  # cases x (kinds of time + quantities): a table in CSV has a column for each


def read(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a results file, or of a pipe such as /dev/stdin; those in it, if it is compressed by gzip.

    Raises InputError for what is not a file, and for a file that has more than BYTES or VALUES.
    """
    name = visible(os.fspath(path))
    try:
        _file(path, name)
        with open(path, "rb") as file:
            data = file.read(BYTES + 1)
    except InputError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a name with a null byte
        raise InputError(f"cannot read {name}: {why(error)}") from None
    if data.startswith(GZIP):
        data = _unpacked(data, name)
    if len(data) > BYTES:
        raise _too_large(name, f"more than {BYTES // 2**20} MiB")
    values = data.count(b",") + data.count(b"[") + data.count(b"{")
    if values > VALUES:
        raise _too_large(name, f"{values:,} values; at most {VALUES:,} are read")
    return data


def beginning(path: str | os.PathLike[str]) -> bytes:
    """The first HEAD bytes of a file, or of what gzip has compressed in it. Raises OSError, EOFError or zlib.error."""
    with open(path, "rb") as file:
        packed = file.read(len(GZIP)) == GZIP
    with gzip.open(path) if packed else open(path, "rb") as unpacked:
        return bytes(unpacked.read(HEAD))


def _unpacked(data: bytes, name: str) -> bytes:
    """At most BYTES + 1 of what is in the first member of a gzip file."""
    unpack = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        found = unpack.decompress(data, BYTES + 1)
    except zlib.error as error:
        raise InputError(f"cannot read {name}: it is damaged ({error})") from None
    if not unpack.eof and len(found) <= BYTES:
        raise InputError(f"cannot read {name}: it ends too early; copy or write it again")
    return found


def check(run: Results, path: str) -> Results:
    """The run. Raises InputError if it has more than CASES or CELLS."""
    columns = len({name for case in run.cases for name in (*case.times, *case.quantities)})
    if len(run.cases) > CASES:
        raise _too_large(path, f"{len(run.cases):,} cases; at most {CASES:,} are read")
    if len(run.cases) * columns > CELLS:
        raise _too_large(path, f"{columns:,} kinds of time and quantities in {len(run.cases):,} cases")
    return run


def _file(path: str | os.PathLike[str], name: str) -> None:
    """Raise InputError unless `path` is a file or an open pipe. A named pipe without a writer would block for ever."""
    mode = os.stat(path).st_mode
    if stat.S_ISREG(mode):
        return
    if stat.S_ISFIFO(mode):
        if not os.path.exists(os.path.realpath(path)):  # an open one has no name: /proc/123/fd/pipe:[456]
            return
        what = "a named pipe"
    elif stat.S_ISDIR(mode):
        within = sorted(file.name for file in Path(path).glob("*.json"))[:3]
        offers = f"; give a file, such as {', '.join(visible(os.path.join(path, file)) for file in within)}"
        raise InputError(f"{name} is a folder, not a results file{offers if within else ''}")
    else:
        what = "a device" if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) else "a socket"
    raise InputError(f"{name} is {what}, not a results file; give a file that `cudalab bench -o results.json` wrote")


def _too_large(name: str, what: str) -> InputError:
    return InputError(f"{name} is too large for a results file: {what}. Measure fewer kernels or sizes in one run")
