"""The registers and predicates of a thread, and which of them an instruction writes; None is an unknown value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from cudalab.tools.inspect.sass import Instruction

MASK, WIDE = 0xFFFF_FFFF, 0xFFFF_FFFF_FFFF_FFFF
Number = int | None
Truth = bool | None
REGISTER = re.compile(r"(U?R)(\d+|Z)(\.64)?$")
PREDICATE = re.compile(r"!?U?P[T\d]$")
_BANK = re.compile(r"c\[0x0\]\[(?:(U?R\w+)\+?)?(-?0x[0-9a-f]+)?\]$")
_WRITE_NOTHING = {
    "ST", "STG", "STS", "STL", "RED", "REDG", "BRA", "EXIT", "BAR", "BSSY", "BSYNC", "CALL", "RET", "NOP", "MEMBAR",
}  # fmt: skip


@dataclass
class State:
    """Registers and predicates by name (a missing one is unknown), and constant bank 0 by byte."""

    registers: dict[str, Number] = field(default_factory=dict)
    predicates: dict[str, Truth] = field(default_factory=dict)
    constants: Mapping[int, int] = field(default_factory=dict)
    special: Mapping[str, int] = field(default_factory=dict)

    def copy(self) -> State:
        return State(dict(self.registers), dict(self.predicates), self.constants, self.special)

    def merge(self, other: State) -> None:
        """Keep the values that both states agree on."""
        for mine, theirs in ((self.registers, other.registers), (self.predicates, other.predicates)):
            for name in {*mine, *theirs}:
                if mine.get(name) != theirs.get(name):
                    mine[name] = None

    def forget(self, instruction: Instruction) -> None:
        """Make everything that the instruction writes unknown."""
        for name in written(instruction):
            (self.predicates if "P" in name else self.registers)[name] = None

    def truth(self, text: str) -> Truth:
        """The value of a predicate such as P0, !UP1 or PT; "" is true."""
        name = text.lstrip("!")
        value = True if name in ("", "PT", "UPT") else self.predicates.get(name)
        return value if value is None or not text.startswith("!") else not value

    def number(self, text: str, size: int = 4) -> Number:
        """Return the value of an operand of 4 or 8 bytes: a register, a constant or an immediate, with its sign."""
        text = text.replace(".reuse", "")
        mask = MASK if size == 4 else WIDE
        if text.startswith(("-", "~")) and not text.startswith("-0x"):
            value = self.number(text[1:], size)
            return None if value is None else (-value if text[0] == "-" else ~value) & mask
        if register := REGISTER.match(text):
            return self._register(register[1], register[2], size)
        if bank := _BANK.match(text):
            return self._constant(bank[1], int(bank[2] or "0", 16), size)
        try:
            return int(text, 16) & mask if "0x" in text else None
        except ValueError:
            return None

    def _register(self, kind: str, number: str, size: int) -> Number:
        if number == "Z":
            return 0
        words = [self.registers.get(f"{kind}{int(number) + i}") for i in range(size // 4)]
        return None if None in words else sum((word or 0) << 32 * i for i, word in enumerate(words))

    def _constant(self, index: str | None, offset: int, size: int) -> Number:
        base = self.number(index) if index else 0
        if base is None:
            return None
        found = [self.constants.get((base + offset + i) & MASK) for i in range(size)]
        return None if None in found else int.from_bytes(bytes(b or 0 for b in found), "little")

    def write(self, register: str, value: Number, size: int = 4) -> None:
        """Set `register`, and the ones after it if `size` is over 4, to the lowest bytes of a value."""
        kind, number, _ = REGISTER.match(register.replace(".reuse", "")).groups()  # type: ignore[union-attr]
        if number != "Z":
            for i in range(max(size // 4, 1)):
                self.registers[f"{kind}{int(number) + i}"] = None if value is None else value >> 32 * i & MASK

    def decide(self, predicate: str, value: Truth) -> None:
        if predicate not in ("PT", "UPT"):
            self.predicates[predicate] = value


def written(instruction: Instruction) -> list[str]:
    """Registers and predicates that an instruction may write: too many rather than too few."""
    found = [f"P{i}" for i in range(7)] if instruction.root == "R2P" else []
    if instruction.root in _WRITE_NOTHING:
        return found
    for text in instruction.operands:
        if PREDICATE.match(text) and not text.startswith("!"):
            found += [] if text in ("PT", "UPT") else [text]
        elif register := REGISTER.match(text):
            if register[2] != "Z":
                found += [f"{register[1]}{int(register[2]) + i}" for i in range(words(instruction))]
            break
        else:
            break
    return found


def words(instruction: Instruction) -> int:
    """Registers of 4 bytes that the result takes."""
    root, parts = instruction.root, instruction.parts
    if "MMA" in root and not root.startswith("HFMA2"):
        return 8
    if any(part in parts for part in ("128", "256")):
        return 4 if "128" in parts else 8
    doubled = root in ("CS2R", "DADD", "DMUL", "DFMA") and "32" not in parts
    return 2 if doubled or any(part in parts for part in ("64", "S64", "U64", "WIDE")) or root == "F2F" else 1
