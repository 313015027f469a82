"""The bytes between the static shared arrays of a shared object, which the compiler leaves to align the next array."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np

_SYMBOLS, _THREAD_LOCAL = 2, 6  # SHT_SYMTAB and STT_TLS of ELF
_SECTION = np.dtype(
    [("name", "u4"), ("kind", "u4"), ("_", "u8", 2), ("offset", "u8"), ("size", "u8"), ("rest", "u8", 3)]
)
_SYMBOL = np.dtype(
    [("name", "u4"), ("info", "u1"), ("other", "u1"), ("section", "u2"), ("value", "u8"), ("size", "u8")]
)


def shared_gaps(library: Path) -> list[tuple[int, int]]:
    """First byte and end of each gap, from the start of the thread-local variables; [] if the file has no symbols."""
    file = library.read_bytes()
    if file[:6] != b"\x7fELF\x02\x01":  # 64 bits, little-endian
        return []
    sections = np.frombuffer(
        file, _SECTION, int.from_bytes(file[60:62], "little"), int.from_bytes(file[40:48], "little")
    )
    arrays = set[tuple[int, int]]()
    for table in sections[sections["kind"] == _SYMBOLS]:
        symbols = np.frombuffer(file, _SYMBOL, int(table["size"]) // _SYMBOL.itemsize, int(table["offset"]))
        local = symbols[(symbols["info"] & 15 == _THREAD_LOCAL) & (symbols["section"] != 0)]
        arrays |= {(int(one["value"]), int(one["value"] + one["size"])) for one in local}
    return [(end, start) for (_, end), (start, _) in pairwise(sorted(arrays)) if end < start]
