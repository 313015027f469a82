"""What the parameters of a `__global__` function seem to be: inputs, outputs, scalars, lengths. For a first spec."""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from cudalab.spec import c_expression, host_launch
from cudalab.spec.body_text import vector_bytes
from cudalab.spec.cuda_source import Parameter
from cudalab.spec.dtype import DTYPES, of_c
from cudalab.spec.dtype_macro import NAME as SCALAR  # the dtype of the kernel, where it has several
from cudalab.spec.guessed_layout import UNKNOWN, Extent, Layout, matrices
from cudalab.spec.guessed_threads import THREADS
from cudalab.spec.host_launch import HostLaunch
from cudalab.spec.kernel_body import ATOMIC, PASSED, READ, UPDATE, WRITE, Body
from cudalab.spec.signatures import Signature

SIZES = ("n", "N", "size", "length", "len", "count", "total", "numel", "num_elements")
ROWS = re.compile(r"(?i)n?_?(num_?)?(rows?|m|height|h|batch|batch_size|b|tokens)|M")
COLUMNS = re.compile(r"(?i)n?_?(num_?)?(cols?|columns?|width|w|hidden|hidden_size|dim|d|features|vocab|classes)|C")
TAKEN = ("np", "Budget", "In", "Kernel", "Launch", "Out", "Scalar", "Work", "blocks", "inputs", "reference", "todo")
ADDS = ("atomicAdd", "atomicSub", "atomicInc", "atomicOr", "atomicXor")  # begin with 0

_WORKSPACE = re.compile(
    r"(?i)(d_)?(work(space)?|ws|scratch|te?mp|partials?|ticket|semaphores?|locks?)(_?buf(fer)?)?\d*"
)
_RANDOM = re.compile(r"\bcurand|(?i:philox)|\brand(?:om)?\w*\s*\(")
_SIDE = re.compile(r"(\w+)\.size\((-?\d)\)")
_VECTOR = re.compile(r"(u?)(char|short|int|longlong|long|float|double)[1-4]")
_OTHERS = {
    SCALAR: SCALAR, "char": "int8", "half2": "float16", "__half2": "float16", "nv_bfloat162": "bfloat16",
    "__nv_bfloat162": "bfloat16",
}  # fmt: skip


def element(ctype: str) -> str:
    """The dtype of an array's elements, of a vector type that of its parts; SCALAR; "" if it is not known."""
    if vector := _VECTOR.fullmatch(ctype):
        sign = "unsigned " if vector[1] else "signed " if vector[2] == "char" else ""
        ctype = sign + vector[2].replace("longlong", "long long")
    kind = of_c(ctype)
    return kind.name if kind else _OTHERS.get(ctype, "")


def number(ctype: str) -> str:
    """The dtype of an integer or a bool that is passed by value; "" for another type."""
    kind = of_c(ctype)
    return kind.name if kind is not None and kind.numpy.kind in "iub" else ""


def c_name(parameter: Parameter) -> str:
    """The name of a parameter, the last word of its declaration."""
    words = re.findall(r"[A-Za-z_]\w*", parameter.text.partition("[")[0].partition("=")[0])
    return words[-1] if words else "unnamed"


def python_name(name: str) -> str:
    """A name as Python can have it in a spec."""
    return f"{name}_" if keyword.iskeyword(name) or name in TAKEN else name


def name_of(parameter: Parameter) -> str:
    """The name of a parameter as Python can have it in a spec."""
    return python_name(c_name(parameter))


@dataclass(frozen=True)
class Form:
    """What the parameters of an entry seem to be. `numbers`: the constants of the `.cu` by name."""

    signature: Signature
    numbers: Mapping[str, int] = field(default_factory=dict, compare=False)
    launches: tuple[HostLaunch, ...] = field(default=(), compare=False)  # of the host code

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return self.signature.parameters

    @property
    def launch(self) -> HostLaunch | None:
        """Return the launch in the host code: that with its template's arguments, else the first."""
        same = (one for one in self.launches if one.template == self.signature.instance)
        return next(same, self.launches[0] if self.launches else None)

    @property
    def pointers(self) -> list[Parameter]:
        return [p for p in self.parameters if p.pointer]

    @cached_property
    def constants(self) -> dict[str, int]:
        """The constants of the `.cu` and of the template's arguments, by name."""
        given = {name: c_expression.parsed(value) for name, value in self.signature.arguments.items()}
        known = {name: node for name, node in given.items() if node and c_expression.names(node) <= set(self.numbers)}
        own = {name: c_expression.computed(node, self.numbers) for name, node in known.items()}
        return {**self.numbers, **{name: value for name, value in own.items() if value is not None}}

    @cached_property
    def body(self) -> Body:
        kinds = {c_name(p): self.kind(p) for p in self.pointers}
        items = {name: DTYPES[kind].itemsize if kind in DTYPES else 0 for name, kind in kinds.items()}
        wide = {
            c_name(p): size // item
            for p in self.pointers
            if (size := vector_bytes(self.type_of(p))) and (item := items[c_name(p)])
        }
        if self.signature.shared:
            items.setdefault(c_name(self.signature.shared), 0)
        return Body(self.signature.body, items, wide, self.constants)

    @cached_property
    def shared_length(self) -> tuple[str, str] | None:
        """The elements of the dynamic shared memory, see `Layout.held`, and their dtype; None if it is not known."""
        if not self.signature.shared:
            return None
        name, kind = c_name(self.signature.shared), element(self.type_of(self.signature.shared))
        casts = re.findall(rf"([\w:]+)\s*\*\s*>?\s*\(?\s*\(*\s*{name}\b\s*\)*\s*(\+?)", self.body.code)
        if casts:
            kind = (
                element(self.signature.arguments.get(casts[0][0], casts[0][0]))
                if len(casts) == 1 and not casts[0][1]
                else ""
            )
        elif kind in ("int8", "uint8"):
            kind = ""  # bytes that the kernel divides
        length = self.layout.held(name) if kind else ""
        return (length, kind) if length else None

    @cached_property
    def sizes(self) -> list[str]:
        """The integers that it takes by value."""
        return [c_name(p) for p in self.parameters if not p.pointer and number(self.type_of(p)) not in ("", "bool")]

    @cached_property
    def layout(self) -> Layout:
        node = c_expression.parsed(self.signature.bounds) if self.signature.bounds else None
        most = c_expression.computed(node, self.constants) if node is not None else None
        rows = [name for name in self.sizes if ROWS.fullmatch(name)] + ["N"] * ("N" in self.sizes)
        return Layout(self.body, self.sizes, most or THREADS, rows=rows)

    @cached_property
    def shapes(self) -> dict[str, Extent]:
        """The dimensions of arrays by their names in C, where the body tells them."""
        found = dict(self.layout.shapes)
        if "load_matrix_sync" in self.body.code:
            order = {word: next((s for s in self.sizes if s.upper() == word), word) for word in "MNK"}
            found |= matrices(self.layout, order)
        self._complete(found)
        self._as_vectors(found)
        self._as_tensors(found)
        return found

    def _as_vectors(self, found: dict[str, Extent]) -> None:
        """Give what is read in pairs, `mask[2 * i + 1]`, the shape of an array of float2: `2*cols`, not `cols 2`."""
        vectors = {found[array].words for array in self.aligned if array in found}
        for array, extent in found.items():
            *outer, last, lanes = ("", *extent.words) if len(extent.words) < 2 else extent.words
            if lanes.isdigit() and (joined := (*outer, f"{lanes}*{last}")) in vectors:
                found[array] = Extent(joined, extent.sure)

    @cached_property
    def _passed(self) -> dict[str, ast.expr]:
        """What the host code passes for each parameter, by its name in C, where that is simple."""
        launch = self.launch
        if not launch or len(launch.arguments) != len(self.parameters):
            return {}
        values = map(launch.value, launch.arguments)
        return {c_name(p): node for p, node in zip(self.parameters, values, strict=True) if node is not None}

    def _as_tensors(self, found: dict[str, Extent]) -> None:
        """Give tensors as many dimensions as the host code asks for: `n * c` blocks of `x.size(0)` and `x.size(1)`.

        The body may know their product alone, such as `blockIdx.z`. A product that is passed, such as `h * w`, stays
        one dimension. Arrays of its shape get that of the tensor.
        """
        for array, extent in list(found.items()):
            tensor = host_launch.tensor(self._passed.get(array))
            asked = self.launch.sizes(tensor) if self.launch and tensor else []
            named = dict[int, tuple[int, str]]()  # by the first dimension: how many, and their name
            for name, node in self._passed.items():
                sizes = sorted(map(ast.unparse, c_expression.factors(node)))
                at = asked.index(sizes[0]) if sizes[0] in asked and (name in extent.words or not sizes[1:]) else -1
                if at >= 0 and sizes == asked[at : at + len(sizes)]:
                    named.setdefault(at, (len(sizes), name))
            last = [word for word in extent.words if self._side(word) == (tensor, -1)]
            left = [word for word in extent.words if word not in {*last, *(name for _, name in named.values())}]
            words, at = list[str](), 0
            while at < len(asked):
                many, name = named.get(at) or (1, left.pop(0) if left else UNKNOWN)
                words.append(name)
                at += many
            words += last
            if len(words) > len(extent.words) and all(words) and not left:
                same = [other for other, one in found.items() if one.words == extent.words]
                found.update(dict.fromkeys(same, Extent(tuple(words), sure=False)))

    def places(self, array: str) -> dict[int, int]:
        """Which dimension of an array is each of its tensor's, as far as the host code does not contradict.

        Where `x.size(2) * x.size(3)` is passed as `hw`, `x.size(2)` is not in `c hw`, and `x.size(0)` not in `rows hw`.
        """
        words, at, fits = self.shapes[array].words, 0, True
        tensor = host_launch.tensor(self._passed.get(array))
        said, free = dict[int, int](), dict[int, int]()
        for place, word in enumerate(words):
            value = self._passed.get(word, ast.Constant(0))
            of, side = self._side(word) or ("", 0)
            parts = sorted(map(ast.unparse, c_expression.factors(value)))
            if of and of == tensor:
                said[side] = place
                fits = fits and side in (at, place - len(words))
            elif len(parts) > 1:
                fits = fits and parts == [f"{tensor}.size({at + i})" for i in range(len(parts))]
            else:
                fits = fits and (bool(of) or isinstance(value, (ast.Constant, ast.Name)))
                free[at] = place
            at += len(parts)
        if not fits:
            return said
        every = {**free, **said}
        return {**{side - at: place for side, place in every.items() if side >= 0}, **every}

    def _side(self, name: str) -> tuple[str, int] | None:
        """The tensor and the dimension whose size a parameter is."""
        found = _SIDE.fullmatch(ast.unparse(self._passed[name])) if name in self._passed else None
        return (found[1], int(found[2])) if found else None

    def _complete(self, found: dict[str, Extent]) -> None:
        """Give the one dimension that is not known the one size that no array has."""
        open_ = {array for array, extent in found.items() if not all(extent.words)}
        used = {
            name for extent in found.values() for word in extent.words for name in re.findall(r"[A-Za-z_]\w*", word)
        }
        left = [name for name in self.sizes if name not in used and name not in self.layout.strides]
        for array in open_:
            words = tuple(word or (left[0] if len(left) == 1 else "") for word in found[array].words)
            found[array] = Extent(words, sure=False)

    @cached_property
    def outputs(self) -> list[Parameter]:
        """The pointers to what is not const and seems to be written; the last pointer, where none is."""
        free = [p for p in self.pointers if not p.constant]
        if not self.signature.body.strip("{} \n") and len(free) < len(self.pointers):
            return free
        return [p for p in free if self.uses(p).written] or (free if len(free) < len(self.pointers) else free[-1:])

    @property
    def inputs(self) -> list[Parameter]:
        """The other pointers, and outputs that are updated in place; one that is alone is taken as such."""
        own = {id(p) for p in self.outputs}
        found = [p for p in self.pointers if id(p) not in own or self.uses(p).in_place]
        return found or self.outputs[:1]

    def uses(self, parameter: Parameter) -> Uses:
        """How the body uses an array."""
        name = c_name(parameter)
        return Uses(
            name, tuple((a.kind, a.at, a.function) for a in self.body.accesses if a.array == name), self.body.code
        )

    def mentions(self, name: str) -> bool:
        """Whether the body names a parameter; a function without a body may."""
        return not self.signature.body.strip("{} \n") or bool(re.search(rf"\b{name}\b", self.body.code))

    @property
    def random(self) -> bool:
        """Whether it draws random numbers."""
        return bool(_RANDOM.search(self.body.code))

    @property
    def scalars(self) -> list[Parameter]:
        kinds = ("float", "bfloat", SCALAR)
        return [p for p in self.parameters if not p.pointer and self.kind(p).startswith(kinds)]

    @property
    def rows(self) -> bool:
        """Whether it counts rows and columns, not elements."""
        return any(COLUMNS.fullmatch(name_of(p)) for p in self.parameters if not p.pointer)

    @property
    def alike(self) -> tuple[list[str], list[str]]:
        """What two forms have in common that can be entries of one spec: their arrays."""
        return [self.kind(p) for p in self.inputs], [self.kind(p) for p in self.outputs]

    def after(self, first: Form) -> str:
        """The array that it reads and that `first` writes, as the next step of an operation does; else ""."""
        own = {name_of(p) for p in self.outputs}
        written = {name_of(p) for p in first.outputs if not first.uses(p).in_place} - own
        return next((name_of(p) for p in self.inputs if name_of(p) in written), "")

    def recast(self, first: Form) -> bool:
        """Whether it is `first` in another dtype: its parameters have the same names, its arrays other dtypes."""
        names, own = ([name_of(p) for p in form.parameters] for form in (first, self))
        return names == own and self.dtype != first.dtype

    @property
    def dtype(self) -> str:
        """The dtype of the kernel: SCALAR if an array has it, else that of the first floating-point array.

        Without one it is that of the first output, and float32 if that is not known.
        """
        kinds = [self.kind(p) for p in self.pointers]
        floating = [
            kind for kind in [*map(self.kind, self.outputs), *kinds] if kind in DTYPES and DTYPES[kind].floating
        ]
        return SCALAR if SCALAR in kinds else next(iter(floating), "") or self.kind(self.outputs[0]) or "float32"

    def type_of(self, parameter: Parameter) -> str:
        return self.signature.type_of(parameter)

    def kind(self, parameter: Parameter) -> str:
        """Return the dtype of a parameter, or of what it points to, see `element`."""
        by_value = not parameter.pointer and _VECTOR.fullmatch(self.type_of(parameter))
        return "" if by_value else element(self.type_of(parameter))

    def own_kind(self, parameter: Parameter) -> str:
        """The dtype of an array where it is not the kernel's; else ""."""
        kind = self.kind(parameter)
        return "" if kind == self.dtype else kind

    @property
    def aligned(self) -> dict[str, int]:
        """The alignment of arrays whose loads are of several elements, in bytes; none if it looks at addresses."""
        if "uintptr_t" in self.body.code or "__isAligned" in self.body.code:
            return {}
        items = {c_name(p): DTYPES[k].itemsize if (k := self.kind(p)) in DTYPES else 4 for p in self.pointers}
        found = dict[str, int]()
        for access in self.body.accesses:
            tile = access.function in ("load_matrix_sync", "store_matrix_sync")
            size = 32 if tile else access.lanes * items.get(access.array, 0) if access.lanes > 1 else 0
            if size and access.array in items:
                found[access.array] = max(size, found.get(access.array, 0))
        return found


@dataclass(frozen=True)
class Uses:
    """How the body of a function uses an array: what it does with it, in order, where, and by which function."""

    name: str
    accesses: tuple[tuple[str, int, str], ...]
    code: str

    @property
    def written(self) -> bool:
        return any(kind in (WRITE, UPDATE, ATOMIC, PASSED) for kind, _, _ in self.accesses)

    @property
    def in_place(self) -> bool:
        """Whether an element is read before the first is written."""
        writes = [at for kind, at, _ in self.accesses if kind == WRITE]
        if not writes:
            return any(kind == UPDATE for kind, _, _ in self.accesses)
        first = self.code.find(";", writes[0])  # what is assigned is read before
        return any(at < first and kind in (READ, UPDATE) for kind, at, _ in self.accesses)

    @property
    def atomics(self) -> set[str]:
        """The atomic functions, where they alone touch it: they begin with what it holds."""
        return (
            {function for *_, function in self.accesses} if {kind for kind, *_ in self.accesses} == {ATOMIC} else set()
        )

    @property
    def counted(self) -> bool:
        """Whether it begins with 0: an atomic function that adds is the first to touch it."""
        return bool(self.accesses) and self.accesses[0][0] == ATOMIC and self.accesses[0][2] in ADDS

    @property
    def read_back(self) -> bool:
        """Whether it reads what it has written."""
        writes = [at for kind, at, _ in self.accesses if kind in (WRITE, ATOMIC)]
        return bool(writes) and any(kind == READ and at > writes[0] for kind, at, _ in self.accesses)

    @property
    def workspace(self) -> bool:
        """Whether the kernel uses it for itself, by its name and its use."""
        return bool(_WORKSPACE.fullmatch(self.name)) and (self.read_back or self.counted)
