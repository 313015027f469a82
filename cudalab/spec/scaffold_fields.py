"""The fields of a first spec, as lines of its text."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from cudalab.spec import c_expression
from cudalab.spec.dtype import DTYPES, of_c
from cudalab.spec.dtype_macro import NAME as SCALAR
from cudalab.spec.guessed import ADDS, c_name, number, python_name
from cudalab.spec.guessed_layout import Extent
from cudalab.spec.scaffold_launch import Values
from cudalab.spec.scaffold_plan import Plan
from cudalab.spec.unfilled import MARK as HOLE

HEADERS = {"float16": "cuda_fp16.h", "bfloat16": "cuda_bf16.h"}  # that scalar_t needs for these dtypes
WIDE = "computed in float32, rounded once"
EXACT = "whole numbers are exact"
INDICES = "256"  # what indices are below, where they go into an output of which the kernel knows no length
_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Told:
    """What a file says beside its functions.

    `constants`: the types of its `__constant__` variables by name. `dispatched`: the dtypes for which its host code
    launches each function, where it says so.
    """

    text: str  # with the headers
    code: str  # its own, without comments
    summary: str
    constants: Mapping[str, str]
    dispatched: Mapping[str, tuple[str, ...]]


@dataclass
class Subject:
    """What a spec is about. `inputs`, `outputs` and `workspace`: names in the spec by names in C."""

    plan: Plan
    told: Told
    values: Values = field(default_factory=Values)
    functions: dict[str, str] = field(default_factory=dict)  # the launch function by entry

    def __post_init__(self) -> None:
        self.first = self.plan.first
        self.inputs = {name: python_name(name) for name in self.plan.inputs}
        self.outputs = {name: python_name(name) for name in self.plan.outputs}
        self.workspace = {name: python_name(name) for name in self.plan.workspace}

    @cached_property
    def checked(self) -> list[str]:
        """The outputs that are random: the mask, if one is returned, else all."""
        if not any(form.random for form in self.plan.steps):
            return []
        masks = [name for name, (form, p) in self.plan.outputs.items() if form.kind(p) in ("bool", "uint8", "int8")]
        return masks if masks and len(masks) < len(self.outputs) else list(self.outputs)

    @property
    def judged_by(self) -> list[str]:
        """The scalars that decide a result: all but those that only choose random numbers."""
        every = self.values.scalars.items()
        return [name for name, (_, kind) in every if not self.checked or DTYPES[kind].floating]

    def dtype_of(self, name: str) -> str:
        """The dtype of an array where it is not the kernel's; else ""."""
        form, parameter = {**self.plan.inputs, **self.plan.outputs, **self.plan.workspace}[name]
        kind = form.kind(parameter)
        return "" if kind in (SCALAR, self.first.dtype) else kind

    @cached_property
    def dtypes(self) -> list[str]:
        if self.plan.dtypes:
            return list(self.plan.dtypes)
        if self.first.dtype != SCALAR:
            return [self.first.dtype]
        return [d for d in self.dispatched or ("float32", *HEADERS) if d not in self.lacking] or ["float32"]

    @property
    def dispatched(self) -> tuple[str, ...]:
        """The dtypes for which the host code launches the first function."""
        return self.told.dispatched.get(self.first.signature.path.rpartition("::")[2], ())

    @property
    def lacking(self) -> dict[str, str]:
        """The dtypes that scalar_t cannot be, with the header that this needs."""
        return {dtype: header for dtype, header in HEADERS.items() if header not in self.told.text}

    @cached_property
    def shapes(self) -> dict[str, str]:
        """The shape of each array by its name in C, "" to ask; {} where all arrays have the shape of the size."""
        known, names = self.plan.shapes, [*self.inputs, *self.outputs, *self.workspace]
        if not any(known.get(name) for name in names):
            base = _by_name(self.plan) if self.first.rows else dict.fromkeys(self.inputs if self.workspace else (), "n")
            return base | dict.fromkeys(self.workspace, "")
        given = {name: _words(known.get(name)) for name in self.inputs}
        usual = next((text for text in given.values() if _NAME.search(text)), "n")
        some = any(map(_NAME.search, given.values()))  # else only elements 0, 1 and so on are named
        found = {name: text if text and some else usual for name, text in given.items()}
        defined = set(_NAME.findall(" ".join(found.values())))
        for name in names[len(self.inputs) :]:
            text = _words(known.get(name))
            for word in set(self.plan.ranges.values()) - defined:
                text = re.sub(rf"\b{word}\b", INDICES, text)
            if name not in found:
                own = self.lengths if name in self.outputs else {}
                found[name] = text if set(_NAME.findall(text)) <= defined | set(own) else ""
        return {} if len(set(found.values())) == 1 and found[names[0]].isidentifier() else found

    @cached_property
    def lengths(self) -> dict[str, str]:
        """The dtypes of whole numbers that the kernel takes by value, by name: an output may be as long, as of a top-k.

        None that an array is named after.
        """
        first, arrays = self.first, {**self.inputs, **self.outputs, **self.workspace}
        given = {c_name(p): number(first.type_of(p)) for p in first.parameters if not p.pointer}
        return {name: kind for name, kind in given.items() if kind not in ("", "bool") and name not in arrays.values()}

    @property
    def dimensions(self) -> list[str]:
        """The names that a size gives lengths to."""
        found = dict.fromkeys(word for name in self.inputs for word in _NAME.findall(self.shapes.get(name, "")))
        return list(found) or ["n"]


def fields(subject: Subject) -> list[str]:
    """The lines of all fields after the summary."""
    plan, first = subject.plan, subject.first
    lines = [*_dtypes(subject), *_sizes(len(subject.dimensions), "load_matrix_sync" in first.signature.body)]
    lines += ["reference=reference,"] * (not subject.checked)
    if first.signature.template and not first.signature.instance:
        lines.append(f"# {HOLE}: the arguments of the template <{', '.join(first.signature.template)}>")
    if plan.uncertain:
        lines.append(
            f"# {HOLE}: do these compute the same? Remove those that do not: an operation has a .cu of its own"
        )
    lines += _dict("entries", [f'"{entry.name}": {subject.functions[entry.name]}' for entry in plan.entries])
    lines += [*_budgets(subject), *_inputs(subject), *_shapes(subject), *_outputs(subject)]
    if plan.kept:
        kept = ", ".join(subject.workspace[name] for name in plan.kept)
        lines.append(f"# {HOLE}: is {kept} a result as well? Then it goes to outputs=, with an item of the reference")
    lines += _dict("workspace", [_work(subject, name) for name in subject.workspace])
    if scalars := [_scalar(name, value, kind) for name, (value, kind) in subject.values.scalars.items()]:
        lines += ["scalars={", *(f"    {line}" for line in scalars), "},"]
    lines += _constants(subject)
    return lines + _aligned(subject)


def _aligned(subject: Subject) -> list[str]:
    """The alignment that loads of several elements need; a number if it is the same for all arrays."""
    names, found = {**subject.inputs, **subject.outputs}, dict[str, int]()
    for form in (form for entry in subject.plan.entries for form in entry.forms):
        for name, size in form.aligned.items():
            if name in names:
                found[names[name]] = max(size, found.get(names[name], 0))
    if not found:
        return []
    every = len(found) == len(set(names.values())) and len(set(found.values())) == 1
    said = str(min(found.values())) if every else "{" + ", ".join(f'"{n}": {size}' for n, size in found.items()) + "}"
    return [f"aligned={said},  # bytes: loads of several elements need such addresses"]


def _dtypes(subject: Subject) -> list[str]:
    """The dtypes of a kernel, and what only its author knows of them."""
    first, above, doubt = subject.first, list[str](), ""
    if first.dtype == SCALAR and not subject.plan.dtypes:
        wanted = subject.dispatched or HEADERS
        lacking = ", ".join(f"{one} needs <{header}>" for one, header in subject.lacking.items() if one in wanted)
        also = f"; {lacking}" if lacking else ""
        if subject.dispatched:
            above = [f"# those of AT_DISPATCH in the host code{also}"]
        else:
            doubt = f"  # what scalar_t may be{also}"
    elif unknown := [first.type_of(p) for p in first.outputs if not first.kind(p)]:
        doubt = f"  # {HOLE}: is {unknown[0]} this dtype?"
    return [*above, f"dtypes=({', '.join(map(_quoted, subject.dtypes))}{',' * (len(subject.dtypes) == 1)}),{doubt}"]


def _budgets(subject: Subject) -> list[str]:
    """Return one budget by dtype: 0 for whole numbers; in 16 bits that of a kernel that computes in float32.

    Where all outputs keep a dtype of their own, one budget for all.
    """
    if len(subject.checked) == len(subject.outputs):
        return ['budgets=Budget(0, why="check= decides"),']
    dtypes = subject.dtypes
    results = [form.kind(p) for form, p in subject.plan.outputs.values()]
    whole = all(kind in DTYPES and not DTYPES[kind].floating for kind in results)
    if whole or not DTYPES[dtypes[0]].floating:
        return [f'budgets=Budget(0, why="{EXACT}"),']
    own = {subject.dtype_of(name) for name in subject.outputs}
    if "" not in own:
        dtypes = [min(own, key=lambda kind: (kind not in HEADERS, kind))]  # what rounds most
    made = {
        dtype: f'Budget(1, why="{WIDE}")' if dtype in HEADERS
        else 'Budget(4, why="as above")' if DTYPES[dtype].floating
        else f'Budget(0, why="{EXACT}")'
        for dtype in dtypes
    }  # fmt: skip
    wide = dtypes[0] in HEADERS
    asked = f'"{HOLE}: {"is it " if wide else ""}{WIDE if wide else "why so many ULP"}{"?" * wide}"'
    made[dtypes[0]] = f"Budget({1 if wide else 4}, why={asked})"
    if "" not in own:
        return [f"budgets={made[dtypes[0]]},"]
    return _dict("budgets", [f'"{dtype}": {text}' for dtype, text in made.items()])


def _shapes(subject: Subject) -> list[str]:
    if not subject.shapes:
        return []
    known, names = subject.plan.shapes, {**subject.workspace, **subject.outputs, **subject.inputs}
    sure = [n for n, extent in known.items() if extent and extent.sure and _words(extent) == subject.shapes.get(n)]
    sure += [name for name, text in subject.shapes.items() if INDICES in text.split()]
    doubtful = [names[name] for name, text in subject.shapes.items() if text and name not in sure]
    first, items, asks = next(iter(subject.inputs.values())), [], list[bool]()
    for name, text in subject.shapes.items():
        asked = f'lambda {first}: todo("the shape of {names[name]}, such as ({first}[0],)")'
        items.append(f'"{names[name]}": ' + (f'"{text}"' if text else asked))
        asks.append(not text)
    doubt = [f"# {HOLE}: the shape of {', '.join(doubtful)}: is it so? Each word is a dimension"] * bool(doubtful)
    if not any(asks):
        return [*doubt, *_dict("shapes", items)]
    lines = [f"    {item}," + f"  # {HOLE}" * ask for item, ask in zip(items, asks, strict=True)]
    return [*doubt, "shapes={", *lines, "},"]


def _inputs(subject: Subject) -> list[str]:
    """The inputs that have another dtype than the kernel's, or that are indices."""
    if offsets(subject):
        return ["inputs=inputs,"]
    made = list[str]()
    for name, mine in subject.inputs.items():
        kind = subject.dtype_of(name)
        if end := high_of(subject, name):
            high = end if end.isdigit() else _quoted(end)
            made.append(f'"{mine}": In({_quoted(kind or subject.dtypes[0])}, 0, {high})')
        elif kind:
            made.append(f'"{mine}": In("{kind}")')
    return _dict("inputs", made)


def high_of(subject: Subject, name: str) -> str:
    """What the values of an array of indices are below: a dimension or a number; "" for another array."""
    end = subject.plan.ranges.get(name, "")
    return end if not end or end in subject.dimensions or end.isdigit() else INDICES


def offsets(subject: Subject) -> dict[str, str]:
    """The inputs that say where parts of others begin, by their names in C: the dimension of those others."""
    found = {name: word for name, word in subject.plan.offsets.items() if word in subject.dimensions}
    return {name: word for name, word in found.items() if re.fullmatch(r"\w+\+1", subject.shapes.get(name, ""))}


def _outputs(subject: Subject) -> list[str]:
    """`outputs`, or `output`: their dtypes, what they begin with, and who judges them."""
    made, asks = dict[str, str](), list[str]()
    for name in sorted(subject.outputs, key=lambda name: name not in subject.checked):  # a check comes first
        form, parameter = subject.plan.outputs[name]
        uses, mine = form.uses(parameter), subject.outputs[name]
        own = [f'dtype="{kind}"'] if (kind := subject.dtype_of(name)) else []
        own += ["fill=0"] * bool(uses.atomics)
        if others := uses.atomics - set(ADDS):
            asks.append(f"# {HOLE}: {mine} holds 0 before a launch; is that right for {min(others)}?")
        if len(subject.outputs) > 1 and uses.read_back and not uses.in_place:
            asks.append(f"# {HOLE}: is {mine} a result? If the kernel uses it for itself, it goes to workspace=")
        if subject.checked:
            own.insert(0, f"check=check_{mine}" if name in subject.checked else f"reference_{mine}")
        made[mine] = f"Out({', '.join(own)})"
    first = next(iter(made))
    if len(made) > 1 or made[first] != "Out()":
        return [*asks, *_dict("outputs", [f'"{name}": {text}' for name, text in made.items()])]
    alone = first in subject.inputs.values() and first not in subject.plan.updated
    asked = f"  # {HOLE}: is it updated in place?" if alone else ""
    return [*asks, *[f'output="{first}",{asked}'] * (first != "y" or alone)]


def _work(subject: Subject, name: str) -> str:
    form, parameter = subject.plan.workspace[name]
    own = [_quoted(kind)] if (kind := subject.dtype_of(name)) else []
    own += ["fill=0"] * form.uses(parameter).counted
    return f'"{subject.workspace[name]}": Work({", ".join(own)})'


def _scalar(name: str, value: str, kind: str) -> str:
    own = "" if kind == "float32" else f', "{kind}"'
    if value:
        return f'"{name}": Scalar({value}{own}),'
    example = "0.5" if DTYPES[kind].floating else "3"
    line = f'"{name}": Scalar(lambda: todo("the value of {name}"){own}),'
    return f"{line}  # {HOLE}: or a number, as in Scalar({example}{own})"


def _constants(subject: Subject) -> list[str]:
    lines = [f'    "{name}": {value},{asked}' for name, value, asked in _values_of_constants(subject)]
    return ["constants={", *lines, "},"] if lines else []


def constants(subject: Subject) -> str:
    """Lines that make values for `__constant__` variables: random ones, which have no symmetry."""
    made = []
    for name, shape, dtype in _drawn(subject):
        size = f"({', '.join(map(str, shape))}{',' * (len(shape) == 1)})"
        made.append(f'{_upper(name)} = np.random.default_rng(1).normal(size={size}).astype("{dtype}")\n')
    return "".join(made) + "\n\n" * bool(made)


def _values_of_constants(subject: Subject) -> list[tuple[str, str, str]]:
    """The `__constant__` variables that the file gives no values: name, value, and a mark where that is not known."""
    drawn = {name for name, _, _ in _drawn(subject)}
    found = []
    for name, kind, lengths in _uninitialised(subject.told):
        declared = " ".join(f"__constant__ {kind} {name.rpartition('::')[2]}{lengths}".split())
        asked = f'lambda: todo("the values of {declared}, as a NumPy array")'
        found.append((name, _upper(name), "") if name in drawn else (name, asked, f"  # {HOLE}"))
    return found


def _drawn(subject: Subject) -> list[tuple[str, list[int], str]]:
    """Those that are floating-point arrays of known lengths: name, shape, dtype."""
    found = []
    for name, kind, lengths in _uninitialised(subject.told):
        nodes = [subject.first.body.read(text, 0) for text in re.findall(r"\[([^\]]*)\]", lengths)]
        shape = [_whole(node) for node in nodes]
        dtype = of_c(kind)
        if dtype and dtype.floating and not dtype.complex and dtype.itemsize > 2 and all(shape):
            found.append((name, shape, dtype.name))
    return found


def _uninitialised(told: Told) -> list[tuple[str, str, str]]:
    """Name, type and the text of the lengths."""
    found = []
    for name, kind in told.constants.items():
        base = name.rpartition("::")[2]
        declared = re.search(rf"__constant__[^;=]*?\b{base}\b\s*((?:\[[^\]]*\]\s*)*)\s*([={{;,])", told.code)
        if declared and declared[2] not in "={":
            found.append((name, kind, declared[1]))
    return found


def _upper(name: str) -> str:
    return re.sub(r"\W+", "_", name.rpartition("::")[2]).upper()


def _whole(node: ast.expr | None) -> int:
    return 0 if node is None else c_expression.whole(c_expression.polynomial(node)) or 0


def _quoted(text: str) -> str:
    return f'"{text}"'


def _dict(name: str, items: list[str]) -> list[str]:
    """A dict of the spec, in one line if that is short; nothing if it is empty."""
    if not items:
        return []
    line = f"{name}={{{', '.join(items)}}},"
    return [line] if len(line) < 106 else [f"{name}={{", *(f"    {item}," for item in items), "},"]


def _words(extent: Extent | None) -> str:
    return " ".join(extent.words) if extent and all(extent.words) else ""


def _by_name(plan: Plan) -> dict[str, str]:
    """Shapes of matrices of which only the signature is known: a further input is a row's, an output a matrix."""
    found = {name: "rows cols" if i == 0 or name in plan.outputs else "cols" for i, name in enumerate(plan.inputs)}
    for i, name in enumerate(plan.outputs):
        found.setdefault(name, "rows cols" if i == 0 else "rows")
    return found


_SIZES = {  # by the number of dimensions: small, large, edges
    1: ([1 << 16], 1 << 24, [[1], [31], [257], [1023]]),
    2: ([64, 256], 4096, [[1, 1], [3, 31], [2, 257], [5, 1023]]),
    3: ([24, 40, 64], 256, [[1, 1, 1], [3, 5, 31], [2, 17, 65]]),
}
_TILES = [64, 96, 128], 1024, [[16, 16, 16], [32, 48, 80], [48, 16, 112]]


def _sizes(sides: int, tiles: bool) -> list[str]:
    """Sizes and edges: awkward shapes, of multiples of 16 where the kernel takes whole tiles."""
    many = [4, 6, 10, 33], 64 if sides == 4 else 12, [[1], [3, 5, 7, 9], [2, 4, 3, 17]]
    small, large, edges = _TILES if tiles else _SIZES.get(sides, many)

    def shape(lengths: list[int]) -> str:
        power = [f"1 << {n.bit_length() - 1}" if n >= 1 << 16 and n & (n - 1) == 0 else str(n) for n in lengths]
        return f"({', '.join(power[i % len(power)] for i in range(sides))}{',' * (sides == 1)})"

    return [
        f'sizes={{"small": {shape(small)}, "large": {shape([large])}}},',
        f"edges=({', '.join(map(shape, edges))}),  # awkward shapes for the check",
    ]
