"""A first spec for a `.cu`: what its signatures say, and TODO where only its author knows."""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cudalab.base.errors import InputError
from cudalab.spec import cuda_source
from cudalab.spec.cuda_source import Parameter
from cudalab.spec.dtype import DTYPES
from cudalab.spec.kernel import Kernel

ELEMENTS = {kind.ctype: name for name, kind in DTYPES.items()} | {
    "scalar_t": "float32", "half": "float16", "nv_bfloat16": "bfloat16", "long": "int64", "int64_t": "int64",
    "int32_t": "int32", "signed int": "int32", "uint8_t": "uint8", "float2": "float32", "float4": "float32",
}  # fmt: skip
NUMBERS = {
    "int": "np.int32", "signed int": "np.int32", "int32_t": "np.int32", "unsigned": "np.uint32",
    "unsigned int": "np.uint32", "uint32_t": "np.uint32", "long": "np.int64", "long long": "np.int64",
    "int64_t": "np.int64", "long long int": "np.int64", "unsigned long": "np.uint64", "unsigned long long": "np.uint64",
    "size_t": "np.uint64", "uint64_t": "np.uint64", "float": "np.float32", "double": "np.float64",
}  # fmt: skip
ROWS = re.compile(r"(?i)n?_?(rows?|m|height|h|batch|b)")
COLUMNS = re.compile(r"(?i)n?_?(cols?|columns?|width|w|hidden|dim|d|features|vocab|classes)")
TAKEN = ("np", "Budget", "Kernel", "Launch", "blocks", "draw", "inputs", "reference")  # names in the spec itself
THREADS = 256
HOLE = "TODO"
VECTOR = """\
    sizes={"small": (1 << 16,), "large": (1 << 24,)},
    edges=((1,), (31,), (257,), (1023,)),  # awkward shapes for the check"""
MATRIX = """\
    sizes={"small": (64, 256), "large": (4096, 4096)},
    edges=((1, 1), (3, 31), (2, 257), (5, 1023)),  # awkward shapes for the check"""
TEMPLATE = """\
\"\"\"{name}: {hole}, what it computes.\"\"\"

import numpy as np

from cudalab import {imports}


def reference({inputs}):
    # {hole}: what is right, in NumPy, written the obvious way. It gets float64 and returns {output}.
    raise NotImplementedError("write reference in {name}.py: what {name} computes, in NumPy")


{functions}


{name} = Kernel(
    file=__file__,
    summary="{hole}: one line",
    dtypes=("{dtype}",),{doubt}
{shapes}
    reference=reference,
    entries={{{entries}}},
    budgets={{"{dtype}": Budget(4, why="{hole}: why so many ULP")}},
{more})
# Further fields: torch=, triton= and rivals= give rows to compare with; pointwise=True says that an element of
# {output} depends on no other element. All fields: docs/kernel.md.
"""


@dataclass(frozen=True)
class Form:
    """What the parameters of an entry seem to be."""

    entry: str
    parameters: tuple[Parameter, ...]

    @property
    def pointers(self) -> list[Parameter]:
        return [p for p in self.parameters if p.pointer]

    @property
    def output(self) -> Parameter:
        """The last pointer to what is not const."""
        return [p for p in self.pointers if not p.constant][-1]

    @property
    def inputs(self) -> list[Parameter]:
        return [p for p in self.pointers if p is not self.output]

    @property
    def rows(self) -> bool:
        """Whether it counts rows and columns, not elements."""
        return any(COLUMNS.fullmatch(name_of(p)) for p in self.parameters if not p.pointer)


def name_of(parameter: Parameter) -> str:
    """The name of a parameter, the last word of its declaration, as Python can have it in a spec."""
    words = re.findall(r"[A-Za-z_]\w*", parameter.text.partition("[")[0])
    name = words[-1] if words else ""
    return f"{name}_" if keyword.iskeyword(name) or name in TAKEN else name


def of_file(path: Path) -> str:
    """The text of a spec for the `.cu` at `path`. Raises SpecError if it cannot be read, InputError without entries."""
    code = cuda_source.read(path)
    forms = [Form(entry, cuda_source.parameters(code, entry)) for entry in cuda_source.entries(code)]
    if not forms:
        raise InputError(f"{path} has no __global__ function that is not a template; the spec names what is launched")
    usable = [form for form in forms if any(not p.constant for p in form.pointers) and form.inputs]
    if not usable:
        raise InputError(
            f"{path}: no __global__ function has an input and an output: pointers to const are inputs, such as "
            "const float* x, the last other pointer is the output"
        )
    return _spec(path.stem, usable)


def _spec(name: str, forms: Sequence[Form]) -> str:
    first = forms[0]
    inputs, output = [name_of(p) for p in first.inputs], name_of(first.output)
    alike = [form for form in forms if len(form.inputs) == len(inputs)]
    known = ELEMENTS.get(first.output.ctype, "")
    launches = "\n\n\n".join(_launch(form, inputs, output) for form in alike)
    own = _own_inputs(first, known)
    used = {"Budget", "Kernel", "Launch", *(["blocks"] if "blocks(" in launches else []), *(["draw"] if own else [])}
    more = ["    inputs=inputs,"] * bool(own) + [
        "    shapes={},".format(dict.fromkeys(inputs, "rows cols"))
    ] * first.rows
    more += [f'    output="{output}",'] * (output != "y")
    return TEMPLATE.format(
        name=name,
        hole=HOLE,
        imports=", ".join(sorted(used)),
        inputs=", ".join(inputs),
        output=output,
        functions="\n\n\n".join(filter(None, [launches, own])),
        dtype=known or "float32",
        doubt="" if known else f"  # {HOLE}: is {first.output.ctype} this dtype?",
        shapes=MATRIX if first.rows else VECTOR,
        entries=", ".join(f'"{form.entry}": launch_{form.entry}' for form in alike),
        more="".join(f"{line}\n" for line in more),
    )


def _launch(form: Form, inputs: list[str], output: str) -> str:
    """The launch function of an entry; its arrays have the names that the first entry gives them."""
    named = {id(p): name for p, name in zip(form.inputs, inputs, strict=True)} | {id(form.output): output}
    x, notes, arguments = inputs[0], list[str](), list[str]()
    for parameter in form.parameters:
        name = name_of(parameter)
        if id(parameter) in named:
            arguments.append(named[id(parameter)])
            if parameter is not form.output and not parameter.constant:
                notes.append(f"{name} is not const, and an input must come back unchanged")
            continue
        number = NUMBERS.get(parameter.ctype, "")
        if number in ("np.float32", "np.float64"):
            arguments.append(f"{number}(1.0)")
            notes.append(f"the value of {name}")
        elif ROWS.fullmatch(name) and form.rows:
            arguments.append(f"{number or 'np.int32'}({x}.shape[0])")
        elif COLUMNS.fullmatch(name):
            arguments.append(f"{number or 'np.int32'}({x}.shape[1])")
        else:
            arguments.append(f"{number or 'np.int32'}({x}.size)")
            if name not in ("n", "N", "size", "length", "len", "count", "total", "numel"):
                notes.append(f"is {name} the number of elements?")
        if not number:
            notes.append(f"{name} is a {parameter.ctype}")
    grid = f"({x}.shape[0],)" if form.rows else f"(blocks({output}.size, {THREADS}),)"
    said = [f"    # {HOLE}: {note}" for note in [*notes, "the grid and block that the kernel expects"]]
    return "\n".join(
        [
            f"def launch_{form.entry}({', '.join((*inputs, output))}):",
            *said,
            f"    return Launch({grid}, ({THREADS},), ({', '.join(arguments)}{',' * (len(arguments) == 1)}))",
        ]
    )


def _own_inputs(form: Form, dtype: str) -> str:
    """A function that makes the inputs, where one has another dtype than the output, or another shape; else ""."""
    kinds = {name_of(p): ELEMENTS.get(p.ctype, "") for p in form.inputs}
    if len(kinds) == 1 and set(kinds.values()) <= {dtype, ""}:
        return ""
    if set(kinds.values()) <= {dtype, ""} and not form.rows:
        return ""
    made = []
    for i, (name, kind) in enumerate(kinds.items()):
        shape = "shape" if i == 0 or not form.rows else "shape[1:]"
        of = "dtype" if kind in ("", dtype) else f"np.dtype(np.{kind})"
        made.append(f'"{name}": draw({shape}, {of}, rng)')
    head = f"def inputs(shape, dtype, rng):\n    # {HOLE}: shapes and values of the inputs"
    return f"{head}\n    return {{{', '.join(made)}}}"


def like(kernel: Kernel, path: Path) -> dict[Path, str]:
    """Path and text of the files of a copy of one of the lab's kernels as `path`, a `.cu`: the pair, and its parts."""
    text = cuda_source.read(kernel.cu)
    files = {path: kernel.cu.read_text(encoding="utf-8")}
    own = Path(kernel.file)
    spec = re.sub(rf"(?m)^{kernel.name} = Kernel\(", f"{path.stem} = Kernel(", own.read_text(encoding="utf-8"))
    files[path.with_suffix(".py")] = spec
    parts = [*cuda_source.local_headers(text, kernel.cu), *([kernel.triton_file] if kernel.triton_file else [])]
    for part in parts:
        files[path.parent / part.relative_to(own.parent)] = part.read_text(encoding="utf-8")
    return files
