"""What the parameters of a `__global__` function seem to be: inputs, outputs, scalars, lengths. For a first spec."""

from __future__ import annotations

import keyword
import re
from dataclasses import dataclass
from functools import cached_property

from cudalab.spec.cuda_source import Parameter
from cudalab.spec.dtype import of_c
from cudalab.spec.dtype_macro import NAME as SCALAR  # the dtype of the kernel, where it has several
from cudalab.spec.signatures import Signature

SIZES = ("n", "N", "size", "length", "len", "count", "total", "numel", "num_elements")
ROWS = re.compile(r"(?i)n?_?(num_?)?(rows?|m|height|h|batch|batch_size|b)|M")
COLUMNS = re.compile(r"(?i)n?_?(num_?)?(cols?|columns?|width|w|hidden|hidden_size|dim|d|features|vocab|classes)|C")
ROW = re.compile(r"row|r|blockIdx\.[xy]")  # the index of one value a row
TAKEN = ("np", "Budget", "Kernel", "Launch", "Out", "Scalar", "blocks", "draw", "inputs", "reference", "todo")

_ASSIGNED = re.compile(r"(?:\.\w+\s*)?=(?!=)")
_UPDATED = re.compile(r"(?:\.\w+\s*)?(?:(?:[-+*/%&|^]|<<|>>)=|\+\+|--)")
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
    """The NumPy type of an integer or a bool that is passed by value; "" for another type."""
    kind = of_c(ctype)
    if kind is None or kind.numpy.kind not in "iub":
        return ""
    return "np.bool_" if kind.numpy.kind == "b" else f"np.{kind.name}"


def c_name(parameter: Parameter) -> str:
    """The name of a parameter, the last word of its declaration."""
    words = re.findall(r"[A-Za-z_]\w*", parameter.text.partition("[")[0].partition("=")[0])
    return words[-1] if words else ""


def name_of(parameter: Parameter) -> str:
    """The name of a parameter as Python can have it in a spec."""
    name = c_name(parameter)
    return f"{name}_" if keyword.iskeyword(name) or name in TAKEN else name


@dataclass(frozen=True)
class Uses:
    """How the body of a function uses an array, where its text says so: under its own name, as in `y[i] += x[i]`."""

    name: str
    body: str

    @cached_property
    def _elements(self) -> list[tuple[int, str, str]]:
        """Where each element is named, its index, and the code that follows."""
        found = []
        for match in re.finditer(rf"\b{self.name}\s*\[", self.body):
            depth, end = 1, match.end()
            while depth and end < len(self.body):
                depth += (self.body[end] == "[") - (self.body[end] == "]")
                end += 1
            index = " ".join(self.body[match.end() : end - 1].split())
            found.append((match.start(), index, self.body[end : end + 80].lstrip()))
        return found

    @property
    def indices(self) -> set[str]:
        """The indices of its elements; none where the name is moved to another element, as by `x += row * cols`."""
        moved = re.search(rf"\b{self.name}\s*[-+]?=(?!=)", self.body)
        return set() if moved else {index for _, index, _ in self._elements if not index.isdigit()}

    @property
    def written(self) -> bool:
        return any(_ASSIGNED.match(after) or _UPDATED.match(after) for _, _, after in self._elements) or self.summed

    @property
    def in_place(self) -> bool:
        """Whether an element is read before the first is written."""
        writes = [at for at, _, after in self._elements if _ASSIGNED.match(after)]
        if not writes:
            return any(_UPDATED.match(after) for _, _, after in self._elements)
        first = self.body.find(";", writes[0])  # what is assigned is read before
        return any(at < first for at, _, after in self._elements if not _ASSIGNED.match(after))

    @property
    def summed(self) -> bool:
        """Whether atomicAdd alone touches it."""
        every = len(re.findall(rf"\b{self.name}\b", self.body))
        return every > 0 and every == len(re.findall(rf"\batomicAdd\s*\(\s*&?\s*\(?\s*{self.name}\b", self.body))


@dataclass(frozen=True)
class Form:
    """What the parameters of an entry seem to be."""

    signature: Signature

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return self.signature.parameters

    @property
    def pointers(self) -> list[Parameter]:
        return [p for p in self.parameters if p.pointer]

    @property
    def outputs(self) -> list[Parameter]:
        """Every pointer to what is not const; the last pointer, where none is to const."""
        written = [p for p in self.pointers if not p.constant]
        if len(written) < len(self.pointers):
            return written
        return [p for p in written if self.uses(p).written] or written[-1:]

    @property
    def inputs(self) -> list[Parameter]:
        """The other pointers, and outputs that are updated in place; one that is alone is taken as such."""
        own = {id(p) for p in self.outputs}
        found = [p for p in self.pointers if id(p) not in own or self.uses(p).in_place]
        return found or self.outputs[:1]

    def uses(self, parameter: Parameter) -> Uses:
        """How the body uses an array."""
        return Uses(c_name(parameter), self.signature.body)

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
        written = {name_of(p) for p in first.outputs} - {name_of(p) for p in first.inputs} - own
        return next((name_of(p) for p in self.inputs if p.constant and name_of(p) in written), "")

    def recast(self, first: Form) -> bool:
        """Whether it is `first` in another dtype: its parameters have the same names, its arrays other dtypes."""
        names, own = ([name_of(p) for p in form.parameters] for form in (first, self))
        return names == own and self.dtype != first.dtype

    @property
    def dtype(self) -> str:
        """The dtype of the kernel: SCALAR if an array has it, else that of the first output, float32 if not known."""
        kinds = [self.kind(p) for p in self.pointers]
        return SCALAR if SCALAR in kinds else self.kind(self.outputs[0]) or "float32"

    def type_of(self, parameter: Parameter) -> str:
        return self.signature.type_of(parameter)

    def kind(self, parameter: Parameter) -> str:
        """The dtype of a parameter, or of what it points to, see `element`."""
        by_value = not parameter.pointer and _VECTOR.fullmatch(self.type_of(parameter))
        return "" if by_value else element(self.type_of(parameter))

    def own_kind(self, parameter: Parameter) -> str:
        """The dtype of an array where it is not the kernel's; else ""."""
        kind = self.kind(parameter)
        return "" if kind == self.dtype else kind
