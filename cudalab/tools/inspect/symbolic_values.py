"""The values of a thread's registers and predicates that follow from the launch; None is an unknown value.

The instructions modelled here compute indices, bounds and loop counts. The result of any other instruction is unknown.
"CUDA Binary Utilities" (instruction set reference) names the instructions. Their exact meaning was derived from
compiled code whose results are known.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from cudalab.tools.inspect.sass import Instruction
from cudalab.tools.inspect.thread_state import MASK, PREDICATE, WIDE, Number, State, Truth


def execute(state: State, instruction: Instruction) -> None:
    """Update the state with the effect of an instruction."""
    guard = state.truth(instruction.guard)
    if guard is False:
        return
    root = instruction.root
    rule = _RULES.get(root) or (_RULES.get(root[1:]) if root.startswith("U") else None)
    before = state.copy() if guard is None else None
    if rule is None:
        state.forget(instruction)
    else:
        try:
            rule(state, instruction)
        except (ValueError, IndexError, AttributeError, TypeError):  # a form that the rule does not model
            state.forget(instruction)
    if before:
        state.merge(before)


def _split(instruction: Instruction) -> tuple[str, list[str], list[str], list[str]]:
    """Destination, predicates that are written too, sources, predicates that are read."""
    first, *rest = instruction.operands
    carries: list[str] = []
    while rest and PREDICATE.match(rest[0]):
        carries.append(rest.pop(0))
    ends = next((i for i, text in enumerate(rest) if PREDICATE.match(text)), len(rest))
    return first, carries, rest[:ends], rest[ends:]


def _add(state: State, instruction: Instruction) -> None:
    """IADD3 and its relatives. The upper half of a 64-bit sum (.X) adds the carries of the lower half."""
    into, carries, sources, ends = _split(instruction)
    size = 8 if "64" in instruction.parts else 4
    values = [_addend(state, text, size, "X" in instruction.parts) for text in sources]
    values += [None if (t := state.truth(p)) is None else int(t) for p in ends] if "X" in instruction.parts else []
    total = None if None in values else sum(v or 0 for v in values)
    state.write(into, total, size)
    for i, predicate in enumerate(carries):
        state.decide(predicate, None if total is None else total >> 8 * size > i)


def _addend(state: State, text: str, size: int, upper: bool) -> Number:
    """What the adder adds: for -x it is ~x + 1, which carries if x is 0; in an upper half it is ~x."""
    mask = MASK if size == 4 else WIDE
    if not text.startswith("-") or text.startswith("-0x"):
        return state.number(text, size)
    value = state.number(text[1:], size)
    return None if value is None else (value ^ mask) + (0 if upper else 1)


def _multiply_add(state: State, instruction: Instruction) -> None:
    into, carries, (a, b, c), ends = _split(instruction)
    parts = instruction.parts
    wide = "WIDE" in parts
    x, y, z = state.number(a), state.number(b), state.number(c, 8 if wide or "HI" in parts else 4)
    product: Number = 0
    if 0 not in (x, y):
        product = None if x is None or y is None else x * y if "U32" in parts else _signed(x) * _signed(y)
    carry = state.truth(ends[0]) if ends and "X" in parts else False
    if product is None or z is None or carry is None:
        total = None
    elif "HI" in parts:
        total = (product + z >> 32) & MASK
    else:
        total = (product & (WIDE if wide else MASK)) + z + carry
    bits = 64 if wide else 32
    state.write(into, total, bits // 8)
    for predicate in carries:
        state.decide(predicate, None if total is None else total >> bits > 0)


def _signed(value: int, bits: int = 32) -> int:
    """The signed number with these bits."""
    return value - (1 << bits) if value >> (bits - 1) else value


def _move(state: State, instruction: Instruction) -> None:
    into, source = instruction.operands[0], instruction.operands[-1 if instruction.root == "R2UR" else 1]
    size = 8 if "64" in instruction.parts else 4
    state.write(into, state.number(source, size), size)


def _load_constant(state: State, instruction: Instruction) -> None:
    into, source = instruction.operands[:2]
    size = instruction.width
    value = state.number(source, size)
    if size < 4 and value is not None and instruction.parts[-1].startswith("S"):
        value = _signed(value, 8 * size)
    state.write(into, value, max(size, 4))


def _special(state: State, instruction: Instruction) -> None:
    into, source = instruction.operands[:2]
    size = 8 if instruction.root == "CS2R" and "32" not in instruction.parts else 4
    state.write(into, 0 if source == "SRZ" else state.special.get(source), size)


def _shift(state: State, instruction: Instruction) -> None:
    """SHF: shifts the 64 bits {c, a} by b bits."""
    into, (a, b, c) = instruction.operands[0], instruction.operands[1:4]
    low, by, high = (state.number(text) for text in (a, b, c))
    parts = instruction.parts
    both = None if low is None or high is None else high << 32 | low
    if by is None:
        value = None
    elif "L" in parts and "HI" in parts:
        value = None if both is None else both << min(by, 63) >> 32
    elif "L" in parts:
        value = None if low is None else low << min(by, 63)
    elif "HI" in parts:
        value = None if high is None else (_signed(high) if "S32" in parts or "S64" in parts else high) >> min(by, 63)
    else:
        value = None if both is None else _signed(both, 64) >> min(by, 63)
    state.write(into, value)


def _scaled_add(state: State, instruction: Instruction) -> None:
    """LEA: (a << s) + b. LEA.HI: the upper 32 bits of {c, a} << s, plus b. X adds a carry."""
    into, carries, sources, ends = _split(instruction)
    parts = instruction.parts
    a, b, by = state.number(sources[0]), state.number(sources[1]), state.number(sources[-1])
    carry = state.truth(ends[0]) if "X" in parts and ends else False
    if "HI" in parts:
        extended = None if a is None else _signed(a) >> 31 & MASK
        above = extended if "SX32" in parts else state.number(sources[2]) if len(sources) == 4 else 0
        scaled = None if None in (a, above, by) else ((above or 0) << 32 | (a or 0)) << (by or 0) >> 32 & MASK
    else:
        scaled = None if a is None or by is None else a << by & MASK
    total = None if scaled is None or b is None or carry is None else scaled + b + carry
    state.write(into, total)
    for predicate in carries:
        state.decide(predicate, None if total is None else total >> 32 > 0)


def _logic(state: State, instruction: Instruction) -> None:
    """LOP3: a function of three bits, given by its truth table; its predicate is true if the result is not zero."""
    operands = list(instruction.operands)
    flag = operands.pop(0) if PREDICATE.match(operands[0]) else None
    into, *sources = operands[:4]
    table = int(operands[4], 16)
    values = [state.number(text) for text in sources]
    used = [any(table >> i & 1 != table >> (i ^ bit) & 1 for i in range(8)) for bit in (4, 2, 1)]
    if any(value is None and needed for value, needed in zip(values, used, strict=True)):
        result = None
    else:
        a, b, c = (value or 0 for value in values)
        terms = ((a if i & 4 else ~a) & (b if i & 2 else ~b) & (c if i & 1 else ~c) for i in range(8) if table >> i & 1)
        result = 0
        for term in terms:
            result |= term & MASK
    state.write(into, result)
    if flag:
        state.decide(flag, None if result is None else result != 0)


def _predicate_logic(state: State, instruction: Instruction) -> None:
    one, two, a, b, c, first, second = instruction.operands[:7]
    values = [state.truth(text) for text in (a, b, c)]
    for predicate, table in ((one, int(first, 16)), (two, int(second, 16))):
        possible = {
            bool(table >> i & 1)
            for i in range(8)
            if all(v is None or v == bool(i >> (2 - k) & 1) for k, v in enumerate(values))
        }
        state.decide(predicate, possible.pop() if len(possible) == 1 else None)


_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "LT": lambda a, b: a < b, "LE": lambda a, b: a <= b, "GT": lambda a, b: a > b, "GE": lambda a, b: a >= b,
    "EQ": lambda a, b: a == b, "NE": lambda a, b: a != b, "T": lambda a, b: True, "F": lambda a, b: False,
}  # fmt: skip


def _compare(state: State, instruction: Instruction) -> None:
    """ISETP: a comparison combined with a predicate; .EX compares the upper halves of 64-bit numbers."""
    one, two, a, b, joined, *lower = instruction.operands
    parts = instruction.parts
    size = 8 if "S64" in parts or "U64" in parts else 4
    x, y = state.number(a, size), state.number(b, size)
    found: Truth = None
    if x is not None and y is not None:
        if "U32" not in parts and "U64" not in parts:
            x, y = _signed(x, 8 * size), _signed(y, 8 * size)
        found = _COMPARE[parts[1]](x, y)
        if "EX" in parts:
            below = state.truth(lower[0])
            found = below if x == y else parts[1] == "NE" or (parts[1] != "EQ" and found)
    other = state.truth(joined)
    state.decide(one, _join(found, other, parts))
    state.decide(two, _join(None if found is None else not found, other, parts))


def _join(a: Truth, b: Truth, parts: tuple[str, ...]) -> Truth:
    if "OR" in parts:
        return True if a or b else None if None in (a, b) else False
    if "XOR" in parts:
        return None if a is None or b is None else a != b
    return False if False in (a, b) else None if None in (a, b) else True


def _select(state: State, instruction: Instruction) -> None:
    into, a, b, predicate = instruction.operands
    size = 8 if "64" in instruction.parts else 4
    chosen = state.truth(predicate)
    x, y = state.number(a, size), state.number(b, size)
    state.write(into, x if chosen else y if chosen is False else x if x == y else None, size)


def _least(state: State, instruction: Instruction) -> None:
    """IMNMX: the smaller number if the predicate is true, else the larger.

    Some forms also write two predicates, before or after the register, whose values are not known here.
    """
    size = 8 if "S64" in instruction.parts or "U64" in instruction.parts else 4
    *others, predicate = instruction.operands
    for flag in filter(PREDICATE.match, others):
        state.decide(flag, None)
    into, a, b = (text for text in others if not PREDICATE.match(text))
    least, x, y = state.truth(predicate), state.number(a, size), state.number(b, size)
    if x is None or y is None or least is None:
        return state.write(into, None, size)
    unsigned = "U32" in instruction.parts or "U64" in instruction.parts
    key: Callable[[int], int] = int if unsigned else lambda value: _signed(value, 8 * size)
    return state.write(into, min(x, y, key=key) if least else max(x, y, key=key), size)


def _absolute(state: State, instruction: Instruction) -> None:
    value = state.number(instruction.operands[1])
    state.write(instruction.operands[0], None if value is None else abs(_signed(value)))


def _constant_halves(state: State, instruction: Instruction) -> None:
    """HFMA2 Rd, -RZ, RZ, high, low makes a constant; the result of any other form is unknown."""
    into, a, b, high, low = instruction.operands
    known = (a, b) == ("-RZ", "RZ")
    state.write(into, int.from_bytes(struct.pack("<ee", float(low), float(high)), "little") if known else None)


# The compiler divides integers by an approximate reciprocal in float32 and corrects the result to the exact one, so the
# rounding of the reciprocal does not matter here.
def _to_float(state: State, instruction: Instruction) -> None:
    """I2F of a number that is not negative, rounded up (.RP) as a division needs it."""
    into, source = instruction.operands
    size = 8 if {"U64", "S64"} & set(instruction.parts) else 4
    value = state.number(source, size)
    negative = value is not None and not {"U32", "U64"} & set(instruction.parts) and value >> (8 * size - 1)
    if value is None or negative or "RP" not in instruction.parts:
        return state.write(into, None)
    spare = max(value.bit_length() - 24, 0)
    return state.write(into, _bits(float(-(-value >> spare) << spare)))


def _reciprocal(state: State, instruction: Instruction) -> None:
    into, source = instruction.operands
    value = state.number(source) if instruction.parts[-1] == "RCP" else None
    known = value is not None and 0 < value < 0x7F00_0000  # it and its reciprocal are positive numbers
    return state.write(into, _bits(1 / _float(value or 0)) if known else None)


def _to_integer(state: State, instruction: Instruction) -> None:
    """Compute F2I of a positive number, truncated."""
    into, source = instruction.operands
    size = 8 if {"U64", "S64"} & set(instruction.parts) else 4
    value = state.number(source)
    known = value is not None and value < 0x7F80_0000 and "TRUNC" in instruction.parts
    return state.write(into, min(int(_float(value or 0)), MASK if size == 4 else WIDE) if known else None, size)


def _float(bits: int) -> float:
    return float(struct.unpack("<f", bits.to_bytes(4, "little"))[0])


def _bits(value: float) -> int:
    return int.from_bytes(struct.pack("<f", value), "little")


_RULES: dict[str, Callable[[State, Instruction], None]] = {
    "IADD": _add, "IADD3": _add, "VIADD": _add, "IMAD": _multiply_add, "MOV": _move, "R2UR": _move,
    "LDC": _load_constant, "LDCU": _load_constant, "S2R": _special, "S2UR": _special,
    "CS2R": _special, "SHF": _shift, "LEA": _scaled_add, "LOP3": _logic, "PLOP3": _predicate_logic,
    "ISETP": _compare, "SEL": _select, "IMNMX": _least, "VIMNMX": _least, "IABS": _absolute,
    "HFMA2": _constant_halves, "I2F": _to_float, "MUFU": _reciprocal, "F2I": _to_integer,
}  # fmt: skip
