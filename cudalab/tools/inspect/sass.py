"""Reads the output of `nvdisasm -g` into records: instructions, targets of branches, source lines."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

_SECTION = re.compile(r"^\s*\.section\s+([^,\s]+)")
_LABEL = re.compile(r"^([.$\w]+):\s*$")
_LINE = re.compile(r'^\s*//## File "(.*?)", line (\d+)')
_INSTRUCTION = re.compile(
    r"^\s*/\*(?P<address>[0-9a-f]{4,})\*/\s+(?:@(?P<guard>!?U?P[T\d]+)\s+)?(?P<opcode>[A-Z][\w.]*)\s*(?P<rest>.*?)\s*;"
)
# A function's attribute that says where its parameters are in constant bank 0: offset and bytes.
_PARAMETERS = re.compile(
    r"index@\(\.nv\.constant0\.(\S+?)\)\s+/\*\w+\*/\s+\.short\s+0x([0-9a-f]+)\s+/\*\w+\*/\s+\.short\s+0x([0-9a-f]+)"
)
_TARGET = re.compile(r"`\(([^)]*)\)")
_OPERANDS = re.compile(r",\s*(?![^\[]*\])")
_BYTES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "16": 2, "64": 8, "128": 16, "256": 32, "ENL2": 32}


@dataclass(frozen=True)
class Instruction:
    """One machine instruction; `guard` is the predicate that enables it, such as !P0, or ""."""

    address: int
    opcode: str  # with its modifiers: LDG.E.128.CONSTANT
    operands: tuple[str, ...] = ()
    guard: str = ""
    file: str = ""  # of its source line; "" if the compiler names none
    line: int = 0
    target: int | None = None  # address that a branch or a call names; None if there is none in this code

    @cached_property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.opcode.split("."))

    @property
    def root(self) -> str:
        return self.parts[0]

    @property
    def width(self) -> int:
        """Bytes that a load or store moves per thread."""
        return next((_BYTES[part] for part in self.parts[1:] if part in _BYTES), 4)

    @property
    def text(self) -> str:
        guard = f"@{self.guard} " if self.guard else ""
        return f"{guard}{self.opcode} {', '.join(self.operands)}".rstrip()


@dataclass(frozen=True)
class Code:
    """The machine code of one entry, followed by the compiler's helper functions."""

    name: str
    instructions: tuple[Instruction, ...]
    parameters: tuple[int, int] | None = None  # offset in constant bank 0, and bytes

    @cached_property
    def index(self) -> dict[int, int]:
        """Return the index of each instruction by its address."""
        return {instruction.address: i for i, instruction in enumerate(self.instructions)}


def parse(text: str) -> dict[str, Code]:
    """The code of every function in a disassembly, by name."""
    parameters = {m[1]: (int(m[2], 16), int(m[3], 16)) for m in _PARAMETERS.finditer(text)}
    return {name: Code(name, _instructions(lines), parameters.get(name)) for name, lines in _sections(text).items()}


def _sections(text: str) -> dict[str, list[str]]:
    """Lines of the sections `.text.NAME`, by NAME."""
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in text.splitlines():
        if section := _SECTION.match(line):
            name = section[1].strip('"')
            current = found.setdefault(name.removeprefix(".text."), []) if name.startswith(".text.") else None
        elif current is not None:
            current.append(line)
    return found


def _instructions(lines: list[str]) -> tuple[Instruction, ...]:
    labels: dict[str, int] = {}
    waiting: list[str] = []
    read: list[tuple[re.Match[str], str, int]] = []
    file, number = "", 0
    for line in lines:
        if place := _LINE.match(line):
            file, number = place[1].rpartition("/")[2], int(place[2])
        elif label := _LABEL.match(line):
            waiting.append(label[1])
        elif match := _INSTRUCTION.match(line):
            labels.update(dict.fromkeys(waiting, int(match["address"], 16)))
            waiting.clear()
            read.append((match, file, number))
    return tuple(_instruction(match, file, number, labels) for match, file, number in read)


def _instruction(match: re.Match[str], file: str, line: int, labels: dict[str, int]) -> Instruction:
    rest = match["rest"]
    target = _TARGET.search(rest)
    operands = tuple(part.strip() for part in _OPERANDS.split(rest) if part.strip())
    where = labels.get(target[1]) if target else None
    return Instruction(int(match["address"], 16), match["opcode"], operands, match["guard"] or "", file, line, where)
