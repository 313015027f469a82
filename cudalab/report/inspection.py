"""What was read from a kernel's machine code: as tables for a terminal, as annotated code, as JSON."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from cudalab.base import numbers
from cudalab.base.text import visible
from cudalab.report.columns import NOT_MEASURED
from cudalab.report.table import plain, screen
from cudalab.tools.inspect import Inspected
from cudalab.tools.inspect.mix import KINDS, OTHER, Access
from cudalab.tools.inspect.sass import Instruction

Row = tuple[str, list[str]]
LABEL, COLUMN = 25, 13  # characters that a row's name and an entry take at least
GAP: Row = ("", [])  # an empty line
NOTE = (
    "predicted is the largest of the times above it: a bound, which assumes that everything else hides behind it. "
    "Counted are the instructions of one thread in the middle of the grid."
)


def render(found: list[Inspected], width: int | None, color: bool, sass: bool = False) -> str:
    """A table for each dtype and architecture, a sentence on each entry, and what was assumed."""
    out = io.StringIO()
    console = screen(out, width, color)
    for i, group in enumerate(_groups(found)):
        if i:
            console.print()
        console.print(plain(_title(group[0]), "bold"))
        for some in _pieces(group, console.width):
            console.print()
            console.print(_table(some))
        console.print()
        for one in group:
            _say(console, one)
            if sass:
                console.print(plain("\n".join(code(one)), keep="\n"), soft_wrap=True)
                console.print()
    if any(one.bounds for one in found):
        console.print()
        console.print(plain(f"{NOTE} Memory: {_source(found)}.", "dim"))
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines())


def _groups(found: list[Inspected]) -> list[list[Inspected]]:
    groups: dict[tuple[str, str], list[Inspected]] = {}
    for one in found:
        groups.setdefault((one.dtype, one.architecture), []).append(one)
    return list(groups.values())


def _title(one: Inspected) -> str:
    shape = " x ".join(map(str, one.shape))
    label = "" if one.size == shape.replace(" ", "") else f"{one.size} "
    return f"{one.kernel}  {label}({shape})  {one.dtype}  {one.architecture}"


def _pieces(group: list[Inspected], width: int) -> Iterator[list[Inspected]]:
    """As many entries at a time as fit beside one another."""
    each = max(COLUMN, *(len(one.entry) + 1 for one in group))
    most = max((width - LABEL) // each, 1)
    for start in range(0, len(group), most):
        yield group[start : start + most]


def _table(group: list[Inspected]) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim", pad_edge=False)
    table.add_column("", min_width=LABEL - 1, no_wrap=True)
    for one in group:
        table.add_column(Text(visible(one.entry)), justify="right", min_width=COLUMN - 1, no_wrap=True)
    for name, cells in rows(group):
        style = "bold" if name in ("predicted", "measured, cold") else ""
        table.add_row(*map(plain, (name, *cells)), style=style)
    return table


def rows(group: list[Inspected]) -> list[Row]:
    """Names and cells, a cell for each entry; rows in which all are zero are left out."""
    return [*_launch(group), GAP, *_work(group), *([GAP, *_times(group)] if any(one.bounds for one in group) else [])]


def _launch(group: list[Inspected]) -> list[Row]:
    return [
        _row("threads a block", group, lambda one: f"{one.case.threads:,}"),
        _row("blocks", group, lambda one: f"{one.case.blocks:,}"),
        _row("elements a thread", group, lambda one: numbers.compact(one.elements)),
        _row("registers", group, lambda one: f"{one.resources.registers}"),
        *_some("spill stores, B", group, lambda one: one.resources.spill_stores),
        *_some("spill loads, B", group, lambda one: one.resources.spill_loads),
        *_some("stack, B", group, lambda one: one.resources.stack),
        *_some("shared memory, B", group, lambda one: one.resources.shared + one.case.launch.shared),
        *_some("constant bank, B", group, lambda one: one.resources.constant),
        _row("blocks on an SM", group, lambda one: f"{one.occupancy.blocks}"),
        _row("warps on an SM", group, lambda one: f"{one.occupancy.warps} of {one.occupancy.most}"),
        _row("limited by", group, lambda one: one.occupancy.limit),
        _row("global loads", group, lambda one: _accesses(one, "LDG", "LD", "LDGSTS")),
        _row("global stores", group, lambda one: _accesses(one, "STG", "ST")),
    ]


def _work(group: list[Inspected]) -> list[Row]:
    kinds = [kind for kind in (*KINDS, OTHER) if any(kind in one.mix.kinds for one in group)]
    return [
        _row("instructions an element", group, lambda one: _number(one.instructions)),
        *((f"  {kind}", [_number(one.mix.kinds.get(kind, 0) / one.elements) for one in group]) for kind in kinds),
        _row("bytes an element", group, lambda one: _number(one.bytes)),
        _row("flops a byte", group, lambda one: _number(one.intensity)),
    ]


def _times(group: list[Inspected]) -> list[Row]:
    bounds = [one.bounds.seconds if one.bounds else {} for one in group]
    names = dict.fromkeys(name for seconds in bounds for name in seconds)
    found = [(f"{name}, \u00b5s", [_time(seconds.get(name)) for seconds in bounds]) for name in names]
    found.append(_row("predicted", group, lambda one: _time(one.bounds.predicted if one.bounds else None)))
    found.append(_row("bound by", group, lambda one: one.bounds.name if one.bounds else NOT_MEASURED))
    if any(one.measured for one in group):
        found.append(_row("measured, cold", group, lambda one: _time(one.measured)))
        found.append(
            _row("measured / predicted", group, lambda one: numbers.factor(one.ratio) if one.ratio else NOT_MEASURED)
        )
    return found


def _row(name: str, group: list[Inspected], cell: Callable[[Inspected], str]) -> Row:
    return name, [cell(one) for one in group]


def _some(name: str, group: list[Inspected], value: Callable[[Inspected], int]) -> list[Row]:
    return [_row(name, group, lambda one: f"{value(one):,}")] if any(map(value, group)) else []


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


def _say(console: Console, one: Inspected) -> None:
    console.print(plain(one.sentence, "bold"))
    for text in one.hints:
        console.print(Padding(plain(f"hint: {text}", "yellow"), (0, 0, 0, 2)))
    for text in one.path.notes:
        console.print(Padding(plain(f"assumed: {text}", "dim"), (0, 0, 0, 2)))


def _source(found: list[Inspected]) -> str:
    bounds = [one.bounds.memory for one in found if one.bounds]
    rates = sorted(memory.rate for memory in bounds)
    low, high = (numbers.three(rate / 1e9) for rate in (rates[0], rates[-1]))
    sources = " and ".join(dict.fromkeys(memory.source for memory in bounds))
    return f"{low if low == high else f'{low} to {high}'} GB/s, of {sources}"


def code(one: Inspected) -> list[str]:
    """The machine code with how often the thread executes each instruction; what it does not is left out."""
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
            place = instruction.file, instruction.line
            lines.append(_source_line(one, source, *place))
        idle = "  ; never in effect" if one.path.idle[instruction.address] == count else ""
        lines.append(f"{count:>9,} x  {instruction.address:04x}  {instruction.text}{idle}")
    return lines + _left_out(skipped)


def _left_out(skipped: list[Instruction]) -> list[str]:
    real = [i for i in skipped if i.root != "NOP"]
    return [f"{'':13}{real[0].address:04x}  ... {len(real)} instructions that it does not execute"] if real else []


def _source_line(one: Inspected, source: list[str], file: str, number: int) -> str:
    own = file == f"{one.kernel}.cu" and 1 <= number <= len(source)
    return f"{file}:{number}  {source[number - 1].strip()}" if own else f"{file}:{number}"


def as_json(found: list[Inspected]) -> str:
    """Everything but the code, an object for each entry, dtype and architecture; times in seconds."""
    return msgspec.json.format(msgspec.json.encode([as_dict(one) for one in found]), indent=1).decode()


def as_dict(one: Inspected) -> dict[str, Any]:
    """One entry's findings as plain values."""
    launch, got, bounds = one.case.launch, one.occupancy, one.bounds
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
        "accesses_per_thread": [_access(a) for a in one.mix.accesses],
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


def _access(access: Access) -> dict[str, Any]:
    return {"operation": access.operation, "bytes": access.bytes, "count": access.count}
