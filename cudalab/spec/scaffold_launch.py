"""The launch functions of a first spec: grid, block and arguments, from what the body of a kernel tells."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

from cudalab.spec import c_expression, host_launch
from cudalab.spec.cuda_source import Parameter
from cudalab.spec.dtype import DTYPES
from cudalab.spec.dtype_macro import NAME as SCALAR
from cudalab.spec.guessed import COLUMNS, ROWS, SIZES, Form, c_name, element, number, python_name
from cudalab.spec.guessed_threads import THREADS

RESIDENT = 64  # blocks that every GPU holds at once, for kernels whose grid waits for itself
VALUES = (  # what numbers of these names usually are
    (r"(\w*_)?eps(ilon)?", 1e-5), (r"(\w*_)?p|(\w*_)?prob(ability)?|(drop(out)?_?)?(rate|ratio)|dropout(_p)?", 0.25),
    (r"(beta|b)_?1", 0.9), (r"(beta|b)_?2", 0.999), (r"lr|learning_?rate", 1e-3), (r"weight_?decay|wd", 0.01),
    (r"momentum|decay", 0.9), (r"(negative_?)?slope", 0.01), (r"alpha", 1.5), (r"beta", -0.5),
    (r"(\w*_)?scale|factor|temperature", 0.7),
)  # fmt: skip
WHOLE = ((r"(\w*_)?seed\d*", 7), (r"(philox_?|rng_?)?(offset|subsequence|counter)", 3))  # of random numbers
_HANDLE = re.compile(r"\b(?:cuda(?:Texture|Surface)Object_t|CUtensorMap)\b")  # of what the host makes


EXPECTED = "the grid and block that the kernel expects"


@dataclass
class Values:
    """What a kernel takes beside its arrays, by the names of the spec; filled as launches are written."""

    scalars: dict[str, tuple[str, str]] = field(default_factory=dict)  # the value as text ("" to ask), the dtype

    def take(self, form: Form, parameter: Parameter, kind: str, given: str = "") -> str:
        """Add a parameter, and give its name. `given`: the number that the host code passes."""
        name = python_name(c_name(parameter))
        self.scalars.setdefault(name, (given or _value(name, kind, form), kind))
        return name


def _value(name: str, kind: str, form: Form) -> str:
    if kind == "bool":
        return "True"
    known = VALUES if DTYPES[kind].floating else WHOLE if form.random or "seed" in name.lower() else ()
    return next((repr(value) for pattern, value in known if re.fullmatch(pattern, name, re.IGNORECASE)), "")


@dataclass(frozen=True)
class Launched:
    """A launch as text: what it passes, and what its author must say."""

    code: str  # Launch(...)
    arrays: tuple[str, ...]
    scalars: tuple[str, ...]
    asks: tuple[str, ...]
    read: str = ""  # where grid and block were read


def launched(form: Form, named: Mapping[str, str], values: Values, follows: Set[str], entry: str) -> Launched:
    """One launch. `named`: the arrays of the spec by their names in C.

    `follows`: numbers whose type is the kernel's dtype; `entry`: text of an argument that chooses the function.
    """
    asks, arguments, taken = list[str](), list[str](), list[str]()
    lengths = Lengths(form, named)
    host = _Host(form, named)
    scalar_of = next((named[c_name(p)] for p in form.pointers if form.kind(p) == SCALAR), "")
    for parameter in form.parameters:
        name, kind = c_name(parameter), form.kind(parameter)
        if parameter.pointer:
            arguments.append(named[name])
            continue
        whole = number(form.type_of(parameter))
        if kind == SCALAR or (kind and not whole):
            taken.append(values.take(form, parameter, "float32" if kind == SCALAR else kind, host.number(name)))
            of = scalar_of if kind == SCALAR else named[c_name(form.inputs[0])] if name in follows else ""
            arguments.append(f"{of}.dtype.type({taken[-1]})" if of else taken[-1])
        elif not whole:
            of = form.type_of(parameter).replace('"', "'")
            if _HANDLE.search(of):
                wanted = f"{name}: a launch passes no {of}; let the kernel read an array in its place"
            else:
                wanted = f"{name} of type {of}: a NumPy scalar of its size"
                asks.append(f"{name}; if {of} is a struct, let the kernel take its members as parameters")
            arguments.append(f'todo("{wanted}")')
        elif name in form.layout.chosen:
            arguments.append(f"np.{whole}({form.layout.chosen[name]})")
        elif length := lengths.express(name) or host.length(name):
            arguments.append(f"np.{whole}({length})")
        elif guess := _by_name(form, name, named):
            arguments.append(f"np.{whole}({guess})")
            asks += [f"is {name} {guess}?"] * form.mentions(name)
        elif whole != "bool" and not form.mentions(name):  # whose value makes no difference
            arguments.append(f"np.{whole}(0)")
        else:
            taken.append(values.take(form, parameter, whole, host.number(name)))
            arguments.append(taken[-1])
    grid, block, asked = _grid(form, lengths)
    shared, more = _shared(form, lengths, scalar_of)
    read = host.sizes(arguments, scalar_of)
    if read and not asked and all(map(str.isdigit, read[0])):  # of one size; the body tells of every size
        read = None
    if read:
        grid, threads, bytes_ = read
        block, asked = threads, []
        shared, more = (
            (f", shared={bytes_}", []) if bytes_ else ("", []) if not form.signature.shared else (shared, more)
        )
    cooperative = ", cooperative=True" if re.search(r"\bthis_grid\s*\(|\bgrid_group\b", form.signature.body) else ""
    if cooperative:
        grid = [f"min({one}, {RESIDENT})" if one.startswith("blocks(") else one for one in grid]
    made = f"({', '.join(arguments)}{',' * (len(arguments) == 1)})"
    code = f"Launch({_tuple(grid)}, {_tuple(block)}, {made}{shared}{cooperative}{entry})"
    arrays = tuple(dict.fromkeys(word for word in named.values() if re.search(rf"\b{word}\b", code)))
    said = f"read from line {form.launch.line}" if read and form.launch else ""
    return Launched(code, arrays, tuple(dict.fromkeys(taken)), (*asks, *asked, *more, *host.asks(not read)), said)


@dataclass(frozen=True)
class _Host:
    """What the host code of the `.cu` says of a launch."""

    form: Form
    named: Mapping[str, str]

    @property
    def _pairs(self) -> list[tuple[Parameter, ast.expr | None]]:
        launch = self.form.launch
        same = launch is not None and len(launch.arguments) == len(self.form.parameters)
        return list(zip(self.form.parameters, launch.arguments, strict=True)) if launch and same else []

    @cached_property
    def _tensors(self) -> dict[str, str]:
        pairs = ((p, host_launch.tensor(node)) for p, node in self._pairs if p.pointer)
        return {name: self.named[c_name(p)] for p, name in pairs if name}

    def _argument(self, name: str) -> ast.expr | None:
        launch = self.form.launch
        return next((launch.value(node) for p, node in self._pairs if launch and c_name(p) == name), None)

    def _translation(self, values: Mapping[str, str], item: str = "") -> host_launch.Translation:
        places = {self.named[name]: self.form.places(name) for name in self.form.shapes if name in self.named}
        known = self.form.launch.known if self.form.launch else {}
        return host_launch.Translation(self._tensors, values, known, item, places)

    def number(self, name: str) -> str:
        """The number that is passed for a parameter; "" if it is none."""
        return host_launch.literal(self._argument(name))

    def length(self, name: str) -> str:
        """The size of an array that is passed for a parameter, as an expression; "" if it is none."""
        node = self._argument(name)
        of = "" if node is None or self.number(name) else self._translation({}).translate(node)
        return of if re.search(r"\.(?:shape|size)\b", of) else ""

    def sizes(self, arguments: Sequence[str], scalar_of: str) -> tuple[list[str], list[str], str] | None:
        """Grid, block and bytes of shared memory; None if one is not simple. `arguments`: those of the Launch."""
        launch = self.form.launch
        if launch is None or launch.grid is None or launch.block is None:
            return None
        values = {
            ast.unparse(node): length[1]
            for (p, node), text in zip(self._pairs, arguments, strict=False)
            if node is not None and not p.pointer and (length := re.fullmatch(r"np\.\w+\((.*)\)", text))
        }
        translated = self._translation(values, f"{scalar_of}.dtype.itemsize" if scalar_of else "")
        grid, block = (list(map(translated.translate, sides)) for sides in (launch.grid, launch.block))
        shared = translated.translate(launch.shared)
        if not all(grid) or not all(block) or (launch.shared is not None and not shared):
            return None
        return _short(grid), _short(block), "" if shared == "0" else shared

    def asks(self, unread: bool) -> list[str]:
        """What its author is told of a launch that is not simple."""
        launch = self.form.launch
        said = f"line {launch.line} launches it <<<{launch.written}>>>" if launch else ""
        return [said.replace('"', "'")] if said and unread else []


def _short(sides: list[str]) -> list[str]:
    """The sides of a grid or block without those of 1 at its end."""
    while len(sides) > 1 and sides[-1] == "1":
        sides.pop()
    return sides


def _tuple(items: Iterable[str]) -> str:
    made = list(items)
    return f"({', '.join(made)}{',' * (len(made) == 1)})"


@dataclass(frozen=True)
class Lengths:
    """Lengths as expressions of the arrays' shapes."""

    form: Form
    named: Mapping[str, str]

    def express(self, size: str) -> str:
        """A size as an expression such as `x.shape[1]`; "" if no array has it."""
        first = [c_name(p) for p in (*self.form.inputs, *self.form.outputs)]
        shapes = {name: self.form.shapes[name] for name in dict.fromkeys(first) if name in self.form.shapes}
        for name, extent in shapes.items():
            if size in extent.words:
                return _side(self.named[name], extent.words.index(size), len(extent.words))
        for name, extent in shapes.items():
            for i, word in enumerate(extent.words):
                if word == f"{size}+1":
                    return f"{_side(self.named[name], i, len(extent.words))} - 1"
                if found := re.fullmatch(rf"(\d+)\*{size}", word):
                    return f"{_side(self.named[name], i, len(extent.words))} // {found[1]}"
                if found := re.fullmatch(rf"{size}//(\d+)", word):
                    return f"{_side(self.named[name], i, len(extent.words))} * {found[1]}"
        over = self.form.layout.strides.get(size)
        return self.written(over) if over and over != size else ""

    def written(self, word: str) -> str:
        """A word of shapes as an expression; "" if no array tells a name in it."""
        for array, extent in self.form.shapes.items():
            if array in self.named and len(extent.words) > 1 and sorted(word.split("*")) == sorted(extent.words):
                return f"{self.named[array]}.size"
        values = {name: self.express(name) for name in set(re.findall(r"[A-Za-z_]\w*", word))}
        if not all(values.values()):
            return ""
        whole = word.isidentifier()
        return re.sub(
            r"[A-Za-z_]\w*",
            lambda name: values[name[0]] if whole or " " not in values[name[0]] else f"({values[name[0]]})", word,
        )  # fmt: skip


def _side(array: str, i: int, sides: int) -> str:
    return f"{array}.size" if sides == 1 else f"{array}.shape[{i}]"


def _by_name(form: Form, name: str, named: Mapping[str, str]) -> str:
    """What a size usually is by its name, where the body tells nothing of the arrays."""
    x = named[c_name(form.inputs[0])]
    if form.shapes:
        return f"{x}.size" if name in SIZES else ""
    if form.rows and (ROWS.fullmatch(name) or name == "N"):
        return f"{x}.shape[0]"
    if COLUMNS.fullmatch(name):
        return f"{x}.shape[1]"
    return f"{x}.size" if name in SIZES else ""


def _grid(form: Form, lengths: Lengths) -> tuple[list[str], list[str], list[str]]:
    """Grid and block, and what is not certain of them."""
    layout, x = form.layout, lengths.named[c_name(form.inputs[0])]
    block = layout.block
    blind = not layout.threaded and not any(layout.uses(f"blockIdx.{d}") for d in "xyz")
    if blind or not form.body.accesses:
        return [f"{x}.shape[0]" if form.rows else f"blocks({x}.size, {THREADS})"], [str(THREADS)], [EXPECTED]
    grid, asks = list[str](), list[str]()
    for direction in "xyz":
        if not layout.uses(f"blockIdx.{direction}"):
            grid.append("1")
            continue
        word, each = layout.counts.get(direction) or (layout.free.get(direction, ""), 1)
        tiles = _tiles(form, direction) if not word else None
        word, each = tiles or (word, each)
        length = lengths.written(word) if word else ""
        if not length:
            asks.append(f"the blocks in {direction}")
            length, each = f'todo("how many blocks in {direction}")', 1
        grid.append(length if each == 1 else f"blocks({length}, {each})")
    while len(grid) > 1 and grid[-1] == "1":
        grid.pop()
    if not layout.threaded:
        asks.append(f"the threads of a block; {block[0]} is a guess")
    elif over := layout.whole_block:
        asks.append(f"a block of {' x '.join(map(str, block))} threads: does it cover {over}?")
    return grid, list(map(str, block)), asks


def _tiles(form: Form, direction: str) -> tuple[str, int] | None:
    """Return the dimension that the blocks in a direction go over with tiles of wmma, and the side of a tile."""
    for access in form.body.accesses:
        if access.function != "store_matrix_sync" or access.index is None or access.array not in form.shapes:
            continue
        words = form.shapes[access.array].words
        over, rest = c_expression.without(c_expression.polynomial(access.index), words[-1])
        block = f"blockIdx_{direction}"
        for word, index in ((words[0], over), (words[-1], rest)):
            if each := next((factor for product, factor in index.items() if product == (block,)), 0):
                return word, each
    return None


def _shared(form: Form, lengths: Lengths, scalar_of: str) -> tuple[str, list[str]]:
    """The dynamic shared memory of a launch."""
    array = form.signature.shared
    if not array:
        return "", []
    said = f"the bytes of extern __shared__ {array.text}".replace('"', "'")
    threads = prod(form.layout.block)
    if (found := form.shared_length) and (scalar_of or found[1] != SCALAR):
        word, kind = found
        item = f"{scalar_of}.dtype.itemsize" if kind == SCALAR else str(DTYPES[kind].itemsize)
        length = str(threads) if word == "block" else word if word.isdigit() else lengths.written(word)
        if length:
            return f", shared={length} * {item}", []
    kind = element(form.type_of(array))
    unknown = kind in ("", "int8", "uint8") or (kind == SCALAR and not scalar_of)
    if unknown or any(access.array == c_name(array) for access in form.body.accesses):
        return f', shared=todo("{said}")', [said]
    item = f"{scalar_of}.dtype.itemsize" if kind == SCALAR else str(DTYPES[kind].itemsize)
    return f", shared={max(threads, 256)} * {item}", [f"{said}: is it one element per thread?"]


def wrapped(code: str, indent: str) -> str:
    """Code in brackets, in lines of usual length; no line ends within a text."""
    own = re.match(" *", code)
    assert own
    whole = re.sub('"[^"]*"', lambda text: text[0].replace(" ", "\0"), code.strip())
    return textwrap.fill(
        whole, 110, initial_indent=own[0], subsequent_indent=indent, break_long_words=False,
        break_on_hyphens=False,
    ).replace("\0", " ")  # fmt: skip
