"""The findings of `cudalab inspect` as tables for a terminal, as annotated machine code, and as JSON."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from rich.table import Table
from rich.text import Text

from cudalab.base import numbers
from cudalab.base.text import visible
from cudalab.report.columns import NOT_MEASURED
from cudalab.report.table import Indented, plain, screen
from cudalab.tools.inspect import Inspected, Whole, diagnosis, wholes
from cudalab.tools.inspect.instruction_mix import KINDS, OTHER
from cudalab.tools.inspect.sass import Instruction

Row = tuple[str, list[str]]
Shown = Inspected | Whole  # a column
LABEL, COLUMN = 25, 13  # least widths of the column of names and of an entry's column, in characters
GAP: Row = ("", [])  # an empty line
NOTE = (
    "predicted is the largest of the times above it: a lower bound, which assumes that all other work overlaps it. "
    "The instructions of one thread in the middle of the grid are counted."
)
SUM_NOTE = (
    "all launches: what adds up over the launches of an entry, which run one after another. Each moves the arrays that "
    "it takes; what the L2 cache keeps from one launch to the next may take less time than predicted."
)


def render(found: list[Inspected], width: int | None, color: bool, sass: bool = False) -> str:
    """Draw a table for each kernel, size, dtype and architecture, a sentence, hints and assumptions for each entry."""
    out = io.StringIO()
    console = screen(out, width, color)
    groups: dict[tuple[str, ...], list[Inspected]] = {}
    for one in found:
        groups.setdefault((one.kernel, one.size, one.dtype, one.architecture), []).append(one)
    for i, group in enumerate(groups.values()):
        if i:
            console.print()
        console.print(plain(_title(group[0]), "bold"))
        shown = wholes(group)
        each = max(COLUMN, *(len(line) + 1 for one in shown for line in _head(one).split("\n")))
        fitting = max((console.width - LABEL) // each, 1)  # entries beside one another
        for start in range(0, len(shown), fitting):
            console.print()
            console.print(_table(shown[start : start + fitting]))
        console.print()
        for part in shown:
            if isinstance(part, Whole):
                console.print(plain(diagnosis.of_whole(part), "bold"))
                continue
            console.print(plain(part.sentence, "bold"))
            for text in part.hints:
                console.print(Indented(plain(f"hint: {text}", "yellow")))
            for text in part.path.notes:
                console.print(Indented(plain(f"assumed: {text}", "dim")))
            if sass:
                console.print(plain("\n".join(code(part)), keep="\n"), soft_wrap=True)
                console.print()
    if any(one.bounds for one in found):
        console.print()
        console.print(plain(f"{NOTE} Memory: {_source(found)}.", "dim"))
    if any(one.step for one in found):
        console.print()
        console.print(plain(SUM_NOTE, "dim"))
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines())


def _title(one: Inspected) -> str:
    shape = " x ".join(map(str, one.shape))
    label = "" if one.size == shape.replace(" ", "") else f"{one.size} "
    return f"{one.kernel}  {label}({shape})  {one.dtype}  {one.architecture}"


def _head(one: Shown) -> str:
    """The name of a column; of an entry with several launches, the launch below it."""
    if isinstance(one, Whole):
        return f"{one.launches[0].entry}\nall launches"
    return f"{one.entry}\n{one.step}" if one.step else one.entry


def _table(group: Sequence[Shown]) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim", pad_edge=False)
    table.add_column("", min_width=LABEL - 1, no_wrap=True)
    for one in group:
        head = Text(visible(_head(one), keep="\n"))
        table.add_column(head, justify="right", min_width=COLUMN - 1, no_wrap=True)
    for name, cells in [*_launch(group), GAP, *_work(group), *_times(group)]:
        style = "bold" if name in ("predicted", "measured, cold") else ""
        table.add_row(*map(plain, (name, *cells)), style=style)
    return table


def _launch(group: Sequence[Shown]) -> list[Row]:
    def row(name: str, cell: Callable[[Inspected], str | int]) -> Row:
        cells = [cell(one) if isinstance(one, Inspected) else "" for one in group]
        return name, [c if isinstance(c, str) else f"{c:,}" for c in cells] if any(cells) else []

    found = [
        row("threads per block", lambda one: one.traced.threads),
        row("blocks", lambda one: one.traced.blocks),
        row("elements per thread", lambda one: numbers.compact(one.elements)),
        row("registers", lambda one: str(one.resources.registers)),
        row("spill stores, B", lambda one: one.resources.spill_stores),
        row("spill loads, B", lambda one: one.resources.spill_loads),
        row("stack, B", lambda one: one.resources.stack),
        row("shared memory, B", lambda one: one.resources.shared + one.traced.launch.shared),
        row("constant bank, B", lambda one: one.resources.constant),
        row("blocks on an SM", lambda one: str(one.occupancy.blocks)),
        row("warps on an SM", lambda one: f"{one.occupancy.warps} of {one.occupancy.most}"),
        row("limited by", lambda one: one.occupancy.limit),
        row("global loads", lambda one: _accesses(one, "LDG", "LD", "LDGSTS")),
        row("global stores", lambda one: _accesses(one, "STG", "ST")),
    ]
    return [(name, cells) for name, cells in found if cells]  # a number that is 0 for all entries has no row


def _work(group: Sequence[Shown]) -> list[Row]:
    present = {kind for shown in group for one in _launches(shown) for kind in one.mix.kinds}
    kinds = [kind for kind in (*KINDS, OTHER) if kind in present]
    return [
        ("instructions per element", [_number(one.instructions) for one in group]),
        *((f"  {kind}", [_number(_per_element(one, kind)) for one in group]) for kind in kinds),
        ("bytes per element", [_number(one.bytes) for one in group]),
        ("flops per byte", [_number(one.intensity) for one in group]),
    ]


def _launches(one: Shown) -> tuple[Inspected, ...]:
    return one.launches if isinstance(one, Whole) else (one,)


def _per_element(one: Shown, kind: str) -> float:
    if isinstance(one, Whole):
        return one.per_element(lambda launch: launch.mix.kinds.get(kind, 0))
    return one.mix.kinds.get(kind, 0) / one.elements


def _times(group: Sequence[Shown]) -> list[Row]:
    bounds = [one.seconds for one in group]
    names = dict.fromkeys(name for seconds in bounds for name in seconds)
    if not names:
        return []
    found = [
        GAP,
        *((f"{name}, \u00b5s", [_time(seconds.get(name)) for seconds in bounds]) for name in names),
        ("predicted", [_time(one.predicted) for one in group]),
        ("bound by", [_bound(one) for one in group]),
    ]
    measured = [None if isinstance(one, Inspected) and one.step else one.measured for one in group]
    if any(measured):
        found.append(("measured, cold", [_time(seconds) for seconds in measured]))
        ratios = [numbers.factor(one.ratio) if one.ratio else NOT_MEASURED for one in group]
        found.append(("measured / predicted", ratios))
    return found


def _bound(one: Shown) -> str:
    """The resource that takes longest; of several launches the launch."""
    if isinstance(one, Whole):
        return f"launch {one.longest.traced.number}" if one.longest else NOT_MEASURED
    return one.bounds.name if one.bounds else NOT_MEASURED


def _accesses(one: Inspected, *operations: str) -> str:
    found: dict[int, float] = {}
    for access in one.mix.accesses:
        if access.operation in operations:
            found[access.bytes] = found.get(access.bytes, 0) + access.count
    return ", ".join(f"{n:,.0f} x {size} B" for size, n in sorted(found.items())) or NOT_MEASURED


def _number(value: float) -> str:
    if value < 0.005:
        return "0"
    return f"{value:.0f}" if value >= 99.5 else numbers.significant(value, 3 if value >= 1 else 2)


def _time(seconds: float | None) -> str:
    return numbers.significant(1e6 * seconds, 4) if seconds else NOT_MEASURED


def _source(found: list[Inspected]) -> str:
    """The memory's rates, and where they come from."""
    bounds = [one.bounds.memory for one in found if one.bounds]
    rates = sorted(memory.rate for memory in bounds)
    low, high = (numbers.three(rate / 1e9) for rate in (rates[0], rates[-1]))
    sources = " and ".join(dict.fromkeys(memory.source for memory in bounds))
    return f"{low if low == high else f'{low} to {high}'} GB/s, of {sources}"


def code(one: Inspected) -> list[str]:
    """The instructions that the thread executes, how often, and their source lines."""
    source = one.text.splitlines()
    lines: list[str] = []
    place: tuple[str, int] = ("", 0)
    skipped: list[Instruction] = []
    for instruction in one.code.instructions:
        count = one.path.counts[instruction.address]
        if not count:
            skipped.append(instruction)
            continue
        lines += _left_out(skipped)
        skipped = []
        if (instruction.file, instruction.line) != place:
            place = file, number = instruction.file, instruction.line
            own = file == f"{one.kernel}.cu" and 1 <= number <= len(source)
            lines.append(f"{file}:{number}  {source[number - 1].strip()}" if own else f"{file}:{number}")
        idle = "  ; predicated off" if one.path.idle[instruction.address] == count else ""
        lines.append(f"{count:>9,} x  {instruction.address:04x}  {instruction.text}{idle}")
    return lines + _left_out(skipped)


def _left_out(skipped: list[Instruction]) -> list[str]:
    real = [i for i in skipped if i.root != "NOP"]
    word = "instruction" if len(real) == 1 else "instructions"
    return [f"{'':13}{real[0].address:04x}  ... {len(real)} {word} that this thread skips"] if real else []


def as_json(found: list[Inspected]) -> str:
    """All findings but the code: an object for each entry, dtype and architecture; times in seconds.

    Of an entry with several launches there is one for each launch, then their sum, which has `launches`: how many.
    """
    shown = [_sum_as_dict(one) if isinstance(one, Whole) else _as_dict(one) for one in wholes(found)]
    return msgspec.json.format(msgspec.json.encode(shown), indent=1).decode()


def _sum_as_dict(whole: Whole) -> dict[str, Any]:
    one = whole.launches[0]
    found: dict[str, Any] = {
        "kernel": one.kernel, "entry": one.entry, "dtype": one.dtype, "architecture": one.architecture,
        "size": one.size, "shape": one.shape, "source_sha256": one.digest, "launches": len(whole.launches),
        "bytes_per_element": whole.bytes, "instructions_per_element": whole.instructions,
        "flops_per_byte": whole.intensity, "diagnosis": diagnosis.of_whole(whole),
    }  # fmt: skip
    if whole.predicted is not None and one.card:
        found["card"] = one.card.name
        found["seconds"], found["predicted"] = whole.seconds, whole.predicted
        found["measured"], found["ratio"] = whole.measured, whole.ratio
    return found


def _as_dict(one: Inspected) -> dict[str, Any]:
    launch, got, bounds = one.traced.launch, one.occupancy, one.bounds
    found: dict[str, Any] = {
        "kernel": one.kernel, "entry": one.entry, "dtype": one.dtype, "architecture": one.architecture,
        "size": one.size, "shape": one.shape, "source_sha256": one.digest,
        "launch": {"function": launch.entry, "number": one.traced.number, "of": one.traced.of, "grid": launch.grid,
                   "block": launch.block, "shared": launch.shared},
        "resources": msgspec.to_builtins(one.resources),
        "occupancy": {"blocks": got.blocks, "warps": got.warps, "of_warps": got.most, "limit": got.limit},
        "elements_per_thread": one.elements, "bytes_per_element": one.bytes,
        "instructions_per_element": one.instructions, "flops_per_byte": one.intensity,
        "instructions_per_thread": {"total": one.mix.total, "kinds": one.mix.kinds, "units": one.mix.pipes,
                                    "opcodes": one.mix.opcodes},
        "accesses_per_thread": msgspec.to_builtins(one.mix.accesses),
        "source_lines": msgspec.to_builtins(one.mix.lines[:10]),
        "assumed": list(one.path.notes), "diagnosis": one.sentence, "hints": one.hints,
    }  # fmt: skip
    if bounds and one.card:
        found["card"] = one.card.name
        found["seconds"] = dict(bounds.seconds)
        found["memory_rate"] = {"bytes_per_second": bounds.memory.rate, "source": bounds.memory.source}
        found["predicted"], found["bound_by"] = bounds.predicted, bounds.name
        if not one.step:
            found["measured"], found["ratio"] = one.measured, one.ratio
    return found
