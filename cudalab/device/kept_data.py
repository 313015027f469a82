"""Whether compiled device code has memory of its own that outlives a launch, found in the code's ELF file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from struct import Struct

_HEADER = Struct("<16s2HI3QI6H")  # Elf64_Ehdr
_SECTION = Struct("<2I4Q2I2Q")  # Elf64_Shdr
_SYMBOL = Struct("<IBBH2Q")  # Elf64_Sym
_SYMTAB = 2  # SHT_SYMTAB
GLOBALS = (".nv.global", ".nv.global.init")  # __device__ and __managed__ variables
CONSTANTS = ".nv.constant3"  # __constant__ variables, to which a kernel can write through their addresses
HEAP = "malloc"  # device-side allocation

# Tables of CUDA's own sin, cos and tan, and their bytes. A source that could define a variable of such a name is not
# believed: one that has the name, pastes names, writes characters by their numbers, or has PTX of its own.
TABLES = {"__cudart_i2opi_f": 24, "__cudart_i2opi_d": 144, "__cudart_sin_cos_coeffs": 128}
NAMES_A_TABLE = re.compile(r"cudart|i2opi|sin_cos_coeffs|##|%:%:|\\[uU]|\basm\b|\b__asm")
SPLICE = re.compile(r"\\[ \t]*\r?\n")  # C++ joins the lines


def kept_bytes(code: bytes, source: str = "") -> int:
    """Bytes that a kernel can write in one launch and read in the next: its `__device__` and static variables.

    1 where it allocates on the device's heap, whose blocks outlive a launch. 0 for what is not an ELF file of CUDA.
    """
    if code[:4] != b"\x7fELF":
        return 0
    sections = list(_sections(code))
    held = sum(section[5] for name, section in sections if name in GLOBALS)
    found = list(_symbols(code, sections))
    if not NAMES_A_TABLE.search(SPLICE.sub("", source)):
        held -= sum(size for name, place, size in found if TABLES.get(name) == size and place in GLOBALS)
    return max(held, int((HEAP, "") in {(name, place) for name, place, _ in found}))


def constant_bytes(code: bytes) -> int:
    """Bytes of the `__constant__` variables of compiled code."""
    return sum(size for _, place, size in symbols(code) if place == CONSTANTS)


def symbols(code: bytes) -> list[tuple[str, str, int]]:
    """(name, section, bytes) of each symbol of an ELF file; no section: it is not in this code."""
    return list(_symbols(code, list(_sections(code)))) if code[:4] == b"\x7fELF" else []


def _sections(code: bytes) -> Iterator[tuple[str, tuple[int, ...]]]:
    header = _HEADER.unpack_from(code)
    offset, size, count, names = header[6], header[11], header[12], header[13]
    found = [_SECTION.unpack_from(code, offset + i * size) for i in range(count)]
    for section in found:
        yield _text(code, found[names][4] + section[0]), section


def _symbols(code: bytes, sections: list[tuple[str, tuple[int, ...]]]) -> Iterator[tuple[str, str, int]]:
    """(name, section, bytes) of each symbol; no section: it is not in this code."""
    for _, section in sections:
        if section[1] == _SYMTAB:
            strings = sections[section[6]][1][4]
            for at in range(section[4], section[4] + section[5], _SYMBOL.size):
                name, _, _, index, _, size = _SYMBOL.unpack_from(code, at)
                place = sections[index][0] if 0 < index < len(sections) else ""
                yield _text(code, strings + name), place, size


def _text(code: bytes, at: int) -> str:
    return code[at : code.index(b"\0", at)].decode(errors="replace")
