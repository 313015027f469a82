"""The findings of `cudalab inspect` as tables for a terminal, as annotated machine code, and as JSON."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import msgspec
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from cudalab.base import numbers
from cudalab.base.text import visible
from cudalab.report.columns import NOT_MEASURED
from cudalab.report.table import plain, screen
from cudalab.tools.inspect import Inspected
from cudalab.tools.inspect.instruction_mix import KINDS, OTHER
from cudalab.tools.inspect.sass import Instruction

Row = tuple[str, list[str]]
LABEL, COLUMN = 25, 13  # least widths of the column of names and of an entry's column, in characters
GAP: Row = ("", [])  # an empty line
NOTE = (
    "predicted is the largest of the times above it: a bound, which assumes that everything else hides behind it. "
    "Counted are the instructions of one thread in the middle of the grid."
)


def render(found: list[Inspected], width: int | None, color: bool, sass: bool = False) -> str:
    """A table for each kernel, size, dtype and architecture, then a sentence, hints and assumptions for each entry."""
    out = io.StringIO()
    console = screen(out, width, color)
    groups: dict[tuple[str, ...], list[Inspected]] = {}
    for one in found:
        groups.setdefault((one.kernel, one.size, one.dtype, one.architecture), []).append(one)
    for i, group in enumerate(groups.values()):
        if i:
            console.print()
        console.print(plain(_title(group[0]), "bold"))
        each = max(COLUMN, *(len(one.entry) + 1 for one in group))
        fitting = max((console.width - LABEL) // each, 1)  # entries beside one another
        for start in range(0, len(group), fitting):
            console.print()
            console.print(_table(group[start : start + fitting]))
        console.print()
        for one in group:
            console.print(plain(one.sentence, "bold"))
            for text in one.hints:
                console.print(Padding(plain(f"hint: {text}", "yellow"), (0, 0, 0, 2)))
            for text in one.path.notes:
                console.print(Padding(plain(f"assumed: {text}", "dim"), (0, 0, 0, 2)))
            if sass:
                console.print(plain("\n".join(code(one)), keep="\n"), soft_wrap=True)
                console.print()
    if any(one.bounds for one in found):
        console.print()
        console.print(plain(f"{NOTE} Memory: {_source(found)}.", "dim"))
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines())


def _title(one: Inspected) -> str:
    shape = " x ".join(map(str, one.shape))
    label = "" if one.size == shape.replace(" ", "") else f"{one.size} "
    return f"{one.kernel}  {label}({shape})  {one.dtype}  {one.architecture}"


def _table(group: list[Inspected]) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim", pad_edge=False)
    table.add_column("", min_width=LABEL - 1, no_wrap=True)
    for one in group:
        table.add_column(Text(visible(one.entry)), justify="right", min_width=COLUMN - 1, no_wrap=True)
    for name, cells in [*_launch(group), GAP, *_work(group), *_times(group)]:
        style = "bold" if name in ("predicted", "measured, cold") else ""
        table.add_row(*map(plain, (name, *cells)), style=style)
    return table


def _launch(group: list[Inspected]) -> list[Row]:
    def row(name: str, cell: Callable[[Inspected], str | int]) -> Row:
        cells = [cell(one) for one in group]
        return name, [c if isinstance(c, str) else f"{c:,}" for c in cells] if any(cells) else []

    found = [
        row("threads a block", lambda one: one.traced.threads),
        row("blocks", lambda one: one.traced.blocks),
        row("elements a thread", lambda one: numbers.compact(one.elements)),
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


def _work(group: list[Inspected]) -> list[Row]:
    kinds = [kind for kind in (*KINDS, OTHER) if any(kind in one.mix.kinds for one in group)]
    return [
        ("instructions an element", [_number(one.instructions) for one in group]),
        *((f"  {kind}", [_number(one.mix.kinds.get(kind, 0) / one.elements) for one in group]) for kind in kinds),
        ("bytes an element", [_number(one.bytes) for one in group]),
        ("flops a byte", [_number(one.intensity) for one in group]),
    ]


def _times(group: list[Inspected]) -> list[Row]:
    if not any(one.bounds for one in group):
        return []
    bounds = [one.bounds.seconds if one.bounds else {} for one in group]
    names = dict.fromkeys(name for seconds in bounds for name in seconds)
    found = [
        GAP,
        *((f"{name}, \u00b5s", [_time(seconds.get(name)) for seconds in bounds]) for name in names),
        ("predicted", [_time(one.bounds.predicted if one.bounds else None) for one in group]),
        ("bound by", [one.bounds.name if one.bounds else NOT_MEASURED for one in group]),
    ]
    if any(one.measured for one in group):
        found.append(("measured, cold", [_time(one.measured) for one in group]))
        ratios = [numbers.factor(one.ratio) if one.ratio else NOT_MEASURED for one in group]
        found.append(("measured / predicted", ratios))
    return found


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
        idle = "  ; never in effect" if one.path.idle[instruction.address] == count else ""
        lines.append(f"{count:>9,} x  {instruction.address:04x}  {instruction.text}{idle}")
    return lines + _left_out(skipped)


def _left_out(skipped: list[Instruction]) -> list[str]:
    real = [i for i in skipped if i.root != "NOP"]
    return [f"{'':13}{real[0].address:04x}  ... {len(real)} instructions that it does not execute"] if real else []


def as_json(found: list[Inspected]) -> str:
    """All findings but the code: an object for each entry, dtype and architecture; times in seconds."""
    return msgspec.json.format(msgspec.json.encode([_as_dict(one) for one in found]), indent=1).decode()


def _as_dict(one: Inspected) -> dict[str, Any]:
    launch, got, bounds = one.traced.launch, one.occupancy, one.bounds
    found: dict[str, Any] = {
        "kernel": one.kernel, "entry": one.entry, "dtype": one.dtype, "architecture": one.architecture,
        "size": one.size, "shape": one.shape, "source_sha256": one.digest,
        "launch": {"grid": launch.grid, "block": launch.block, "shared": launch.shared},
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
        found["measured"], found["ratio"] = one.measured, one.ratio
    return found
