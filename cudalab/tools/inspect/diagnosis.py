"""A sentence about what bounds an entry, and hints about known costs that its code has."""

from __future__ import annotations

import re

from cudalab.tools.inspect.finding import Inspected
from cudalab.tools.inspect.sass import Instruction

NEAR = 1.1  # the sentence names two bounds if their ratio is below this
LOW = 0.5  # share of resident warps below which latency is hard to hide
_BOUND = {
    "memory": "memory", "issue": "instruction issue", "fp32": "the float32 and multiply units", "alu": "the ALU",
    "special": "the special-function unit", "fp16x2": "the half-precision units", "fp64": "the float64 units",
    "shuffle": "shuffles", "load/store": "the load/store units", "start": "how fast blocks start",
    "latency": "the latency of a load in each short-lived block",
}  # fmt: skip
_NOT_CALLED = {
    "if", "for", "while", "return", "sizeof", "float", "double", "int", "long", "scalar_t", "switch", "bool",
}  # fmt: skip


def sentence(one: Inspected) -> str:
    """Such as: gelu_vec, bfloat16: 17 instructions and 4 bytes an element; on an H200 bound by memory; ..."""
    said = f"{one.entry}, {one.dtype}: {_short(one.instructions)} instructions and {_short(one.bytes)} bytes an element"
    if one.bounds is None or one.card is None:
        return f"{said}{_costly_line(one)}; --card says what bounds it"
    seconds, name = one.bounds.seconds, one.bounds.name
    article = "an" if one.card.name[0] in "AEFHILMNORSX" else "a"
    said += f"; on {article} {one.card.name} bound by {_BOUND[name]}"
    if name == "memory":
        other = one.bounds.computing
        share = seconds[other] / seconds["memory"]
        if share > 1 / NEAR:
            return f"{said} and just as much by {_BOUND[other]}{_costly_line(one)}"
        return f"{said}; next is {_BOUND[other]}, with {100 * share:.0f} % of its time"
    times = seconds[name] / seconds["memory"]
    if times < NEAR:
        return f"{said} and just as much by memory{_costly_line(one)}"
    return f"{said}, {times:.2f} times the memory time{_costly_line(one)}"


def _costly_line(one: Inspected) -> str:
    """The source line with the most instructions, if it has 30 % of them, and the functions that it calls."""
    if not one.mix.lines or one.mix.lines[0].share < 0.3:
        return ""
    line = one.mix.lines[0]
    called = _called(one.text, line.number) if line.file == f"{one.kernel}.cu" else ""
    return f"; {100 * line.share:.0f} % of the instructions are of {line.file}:{line.number}{called}"


def _called(text: str, number: int) -> str:
    lines = text.splitlines()
    if not 1 <= number <= len(lines):
        return ""
    code = re.sub(r"//.*", "", lines[number - 1])
    names = [n for n in dict.fromkeys(re.findall(r"\b([A-Za-z_]\w*)\s*\(", code)) if n not in _NOT_CALLED]
    return f" ({', '.join(names)})" if names else ""


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.3g}"


def hints(one: Inspected) -> list[str]:
    """The hints that apply, and the remark."""
    return [text for text in (*(rule(one) for rule in _RULES), one.remark) if text]


def _spills(one: Inspected) -> str:
    stored, loaded = one.resources.spill_stores, one.resources.spill_loads
    if not stored and not loaded:
        return ""
    return f"registers are spilled: {stored} bytes stored, {loaded} loaded; fewer live values or a smaller block help"


def _local_memory(one: Inspected) -> str:
    if one.resources.spill_stores or not one.mix.kinds.get("local"):
        return ""
    return f"{one.resources.stack} bytes of local memory a thread: is an array indexed by what only the run decides?"


def _narrow_accesses(one: Inspected) -> str:
    widths = [a.bytes for a in one.mix.accesses if a.operation in ("LDG", "STG")]
    if not widths or max(widths) >= 8 or one.mix.moved("LDG", "STG") < 4:
        return ""
    each = " and ".join(f"{n}" for n in sorted(set(widths)))
    return f"global memory is accessed {each} bytes at a time; 16 need fewer instructions and keep more bytes in flight"


def _double_precision(one: Inspected) -> str:
    wide = one.mix.kinds.get("fp64", 0)
    wide += sum(one.path.counts[i.address] for i in _executed(one) if i.root == "F2F" and "F64" in i.parts)
    if not wide or one.dtype == "float64":
        return ""
    return f"{wide} double-precision instructions a thread on {one.dtype} data: is a constant without its f?"


def _division(one: Inspected) -> str:
    code = _executed(one)
    if any(i.root == "CALL" and re.search(r"_(div|rem)_[us]64", i.operands[-1]) for i in code):
        what, cost = "64-bit", 100
    elif any(i.root in ("I2F", "UI2F") and "RP" in i.parts for i in code):  # only a division rounds up
        what, cost = "integer", 20
    else:
        return ""
    return f"{what} division by a number that the compiler does not know costs some {cost} instructions"


def _repeated_accesses(one: Inspected) -> str:
    launch = one.traced
    moved = one.mix.moved("LDG", "STG", "LDGSTS") * launch.blocks * launch.threads / launch.nbytes
    if moved < 1.2:
        return ""
    return f"global memory is asked for {moved:.1f} times the bytes of the arrays; the caches must serve the rest"


def _low_occupancy(one: Inspected) -> str:
    got = one.occupancy
    if not got.blocks:
        return f"no block fits on an SM: too much {got.limit}"
    if got.share >= LOW:
        return ""
    return f"{got.warps} of {got.most} warps are resident, limited by {got.limit}"


def _few_blocks(one: Inspected) -> str:
    sms = one.card.sms if one.card else 0
    if one.traced.blocks >= sms:
        return ""
    return f"with {one.traced.blocks} blocks, {sms - one.traced.blocks} of {sms} SMs have no work"


def _idle_lanes(one: Inspected) -> str:
    if one.traced.threads % 32 == 0:
        return ""
    return f"{one.traced.threads} threads a block are no multiple of 32: lanes of the last warp idle"


def _indexing(one: Inspected) -> str:
    kinds = one.mix.kinds
    share = (kinds.get("integer", 0) + kinds.get("multiply", 0) + kinds.get("move", 0)) / one.mix.total
    if share < 0.6 or one.instructions < 20:
        return ""
    return f"{100 * share:.0f} % of the instructions compute indices and move values; more elements a thread share them"


def _tensor_cores(one: Inspected) -> str:
    return "tensor cores are used, whose time is not in the bounds" if one.mix.kinds.get("tensor") else ""


def _executed(one: Inspected) -> list[Instruction]:
    return [instruction for instruction in one.code.instructions if one.path.counts[instruction.address]]


_RULES = (
    _spills, _local_memory, _narrow_accesses, _double_precision, _division, _repeated_accesses, _low_occupancy,
    _few_blocks, _idle_lanes, _indexing, _tensor_cores,
)  # fmt: skip
