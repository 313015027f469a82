"""A sentence about what bounds an entry, and hints about known costs that its code has."""

from __future__ import annotations

import re

from cudalab.base import numbers
from cudalab.tools.inspect.basic_blocks import BasicBlocks
from cudalab.tools.inspect.cards import Card
from cudalab.tools.inspect.finding import Inspected, Whole
from cudalab.tools.inspect.instruction_mix import kind
from cudalab.tools.inspect.sass import Instruction

NEAR = 1.1  # the sentence names two bounds if their ratio is below this
LOW = 0.5  # share of resident warps below which latency is hard to hide
BOUND = {
    "memory": "memory", "issue": "instruction issue", "fp32": "the float32 and multiply units", "alu": "the ALU",
    "special": "the special-function unit", "fp16x2": "the half-precision units", "fp64": "the float64 units",
    "shuffle": "shuffles", "load/store": "the load/store units", "start": "how fast blocks start",
    "latency": "the latency of a load in each short-lived block",
}  # fmt: skip
_NOT_CALLED = {
    "if", "for", "while", "return", "sizeof", "float", "double", "int", "long", "scalar_t", "switch", "bool",
}  # fmt: skip


def sentence(one: Inspected) -> str:
    """Such as: gelu_vec, bfloat16: 17 instructions and 4 bytes per element; on an H200 bound by memory; ..."""
    cost = f"{_counted(one.instructions, 'instruction')} and {_counted(one.bytes, 'byte')} per element"
    said = f"{one.name}, {one.dtype}: {cost}"
    if one.bounds is None or one.card is None:
        return f"{said}{_costly_line(one)}; give --card to see what bounds it"
    seconds, name = one.bounds.seconds, one.bounds.name
    said += f"; on {_a(one.card)} bound by {BOUND[name]}"
    if name == "memory":
        other = one.bounds.computing
        share = seconds[other] / seconds["memory"]
        if share > 1 / NEAR:
            return f"{said} and, equally, by {BOUND[other]}{_costly_line(one)}"
        return f"{said}; next is {BOUND[other]}, with {100 * share:.0f} % of its time"
    times = seconds[name] / seconds["memory"]
    if times < NEAR:
        return f"{said} and, equally, by memory{_costly_line(one)}"
    return f"{said}, which takes {times:.2f} times as long as memory{_costly_line(one)}"


def of_whole(whole: Whole) -> str:
    """Such as: sum, float32: 2 launches, 5.2 instructions and 4 bytes per element; on an H200 at least 56 µs; ..."""
    first, longest, predicted = whole.launches[0], whole.longest, whole.predicted
    cost = f"{_counted(whole.instructions, 'instruction')} and {_counted(whole.bytes, 'byte')} per element"
    said = f"{first.entry}, {first.dtype}: {len(whole.launches)} launches, {cost}"
    if not predicted or not longest or not longest.predicted or not longest.card:
        return f"{said}; give --card to see what bounds them"
    share = numbers.of_all(longest.predicted / predicted)
    time = f"at least {numbers.significant(1e6 * predicted, 4)} \u00b5s"
    return f"{said}; on {_a(longest.card)} {time}, {share} of it in launch {longest.step}"


def _a(card: Card) -> str:
    return f"{'an' if card.name[0] in 'AEFHILMNORSX' else 'a'} {card.name}"


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


def _counted(number: float, word: str) -> str:
    text = _short(number)
    return f"{text} {word}{'' if text == '1' else 's'}"


def hints(one: Inspected) -> list[str]:
    """The hints that apply, and the remark."""
    return [text for text in (*(rule(one) for rule in _RULES), one.remark) if text]


def _spills(one: Inspected) -> str:
    stored, loaded = one.resources.spill_stores, one.resources.spill_loads
    if not stored and not loaded:
        return ""
    bytes = _counted(stored, "byte")
    return f"registers are spilled: {bytes} stored, {loaded} loaded; fewer live values or a smaller block help"


def _local_memory(one: Inspected) -> str:
    if one.resources.spill_stores or not one.mix.kinds.get("local"):
        return ""
    return (
        f"{one.resources.stack} bytes of local memory per thread: does an array have an index known only at run time?"
    )


def _narrow_accesses(one: Inspected) -> str:
    widths = [a.bytes for a in one.mix.accesses if a.operation in ("LDG", "STG")]
    if not widths or max(widths) >= 8 or one.mix.moved("LDG", "STG") < 4:
        return ""
    each = " and ".join(f"{n}" for n in sorted(set(widths)))
    each += " byte" if each == "1" else " bytes"
    return f"global memory is accessed {each} at a time; 16 need fewer instructions and keep more bytes in flight"


def _double_precision(one: Inspected) -> str:
    wide = one.mix.kinds.get("fp64", 0)
    wide += sum(one.path.counts[i.address] for i in _executed(one) if i.root == "F2F" and "F64" in i.parts)
    if not wide or one.dtype == "float64":
        return ""
    return f"{wide} double-precision instructions per thread on {one.dtype} data: does a constant lack its f suffix?"


def _division(one: Inspected) -> str:
    code = _executed(one)
    called = [i for i in code if i.root == "CALL" and re.search(r"_(div|rem)_[us]64", i.operands[-1])]
    inline = [i for i in code if i.root in ("I2F", "UI2F") and "RP" in i.parts]  # only a division rounds up
    if inline:  # of a loop it may be in front, and the product with the reciprocal inside
        inline += [i for i in code if i.opcode.startswith("IMAD.HI") and not any("0x" in o for o in i.operands)]
    for what, cost, divisions in (("64-bit", 100, called), ("integer", 20, inline)):
        for division in divisions:
            if not _once_a_thread(one, division):
                where = f" at {division.file}:{division.line}" if division.line else ""
                unknown = "by a number that the compiler does not know"
                return f"{what} division{where} {unknown} costs about {cost} instructions"
    return ""


def _once_a_thread(one: Inspected, division: Instruction) -> bool:
    """Whether most accesses repeat in loops that do not divide: the division, as that of a trip count, is outside."""
    blocks, place = BasicBlocks(one.code), one.code.index[division.address]
    repeated = {True: 0, False: 0}
    for access in _executed(one):
        if kind(access) in ("global load", "global store", "atomic"):
            repeated[blocks.repeats(one.code.index[access.address], place)] += one.path.counts[access.address]
    return repeated[True] > repeated[False]


def _repeated_accesses(one: Inspected) -> str:
    launch = one.traced
    moved = one.mix.moved("LDG", "STG", "LDGSTS") * launch.blocks * launch.threads / launch.nbytes
    if moved < 1.2:
        return ""
    return f"loads and stores request {moved:.1f} times the bytes of the arrays; the caches must serve the rest"


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
    return f"with {_counted(one.traced.blocks, 'block')}, {sms - one.traced.blocks} of {sms} SMs have no work"


def _idle_lanes(one: Inspected) -> str:
    if one.traced.threads % 32 == 0:
        return ""
    return f"{one.traced.threads} threads per block: not a multiple of 32, so lanes of the last warp are idle"


def _indexing(one: Inspected) -> str:
    kinds = one.mix.kinds
    share = (kinds.get("integer", 0) + kinds.get("multiply", 0) + kinds.get("move", 0)) / one.mix.total
    if share < 0.6 or one.instructions < 20:
        return ""
    return (
        f"{100 * share:.0f} % of the instructions compute indices and move values; with more elements per thread "
        f"they cost less"
    )


def _tensor_cores(one: Inspected) -> str:
    return "tensor cores are used; the bounds do not include their time" if one.mix.kinds.get("tensor") else ""


def _executed(one: Inspected) -> list[Instruction]:
    return [instruction for instruction in one.code.instructions if one.path.counts[instruction.address]]


_RULES = (
    _spills, _local_memory, _narrow_accesses, _double_precision, _division, _repeated_accesses, _low_occupancy,
    _few_blocks, _idle_lanes, _indexing, _tensor_cores,
)  # fmt: skip
