"""A first spec for a `.cu`: what its signatures say, and TODO where only its author knows."""

from __future__ import annotations

import keyword
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cudalab.base.errors import InputError
from cudalab.spec import cuda_source, signatures
from cudalab.spec.cuda_source import Parameter
from cudalab.spec.dtype import DTYPES
from cudalab.spec.kernel import Kernel
from cudalab.spec.signatures import Signature

ALIASES = {
    "scalar_t": "float32", "half": "float16", "nv_bfloat16": "bfloat16", "half2": "float16", "__half2": "float16",
    "__nv_bfloat162": "bfloat16", "float2": "float32", "float4": "float32", "double2": "float64", "int2": "int32",
    "int4": "int32", "signed int": "int32", "int32_t": "int32", "long": "int64", "int64_t": "int64",
    "long long int": "int64", "uint8_t": "uint8", "uchar4": "uint8", "char": "int8", "signed char": "int8",
    "int8_t": "int8", "char4": "int8", "bool": "bool", "__nv_fp8_e4m3": "float8_e4m3fn",
    "__nv_fp8_e5m2": "float8_e5m2", "cuComplex": "complex64", "cuFloatComplex": "complex64",
}  # fmt: skip
ELEMENTS = {kind.ctype: name for name, kind in DTYPES.items()} | {c: n for c, n in ALIASES.items() if n in DTYPES}
NUMBERS = {
    "int": "np.int32", "signed int": "np.int32", "int32_t": "np.int32", "unsigned": "np.uint32",
    "unsigned int": "np.uint32", "uint32_t": "np.uint32", "long": "np.int64", "long long": "np.int64",
    "int64_t": "np.int64", "long long int": "np.int64", "unsigned long": "np.uint64", "unsigned long long": "np.uint64",
    "size_t": "np.uint64", "uint64_t": "np.uint64", "bool": "np.bool_",
}  # fmt: skip
SIZES = ("n", "N", "size", "length", "len", "count", "total", "numel", "num_elements")
ROWS = re.compile(r"(?i)n?_?(num_?)?(rows?|m|height|h|batch|batch_size|b)|M")
COLUMNS = re.compile(r"(?i)n?_?(num_?)?(cols?|columns?|width|w|hidden|hidden_size|dim|d|features|vocab|classes)|C")
TAKEN = ("np", "Budget", "Kernel", "Launch", "Out", "Scalar", "blocks", "draw", "inputs", "reference", "todo")
THREADS = 256
HOLE = "TODO"
VECTOR = """\
    sizes={"small": (1 << 16,), "large": (1 << 24,)},
    edges=((1,), (31,), (257,), (1023,)),  # awkward shapes for the check"""
MATRIX = """\
    sizes={"small": (64, 256), "large": (4096, 4096)},
    edges=((1, 1), (3, 31), (2, 257), (5, 1023)),  # awkward shapes for the check"""
SEVERAL = f"""\
    # {HOLE}: which of these are results? An array that the kernel uses for itself goes to
    # workspace={{"name": Work("float32")}}."""
FURTHER = """
# Entries of these have other arrays: {names}. If they are steps of one operation, one entry launches them in order:
#     return (Launch(grid, block, args, entry="{first}"), Launch(grid, block, args, entry="{second}"))
"""
TODO = """

def todo(what):
    raise NotImplementedError(f"fill in {name}.py: {{what}}")
"""
TEMPLATE = """\
\"\"\"{name}: {hole}, what it computes.\"\"\"

import numpy as np

from cudalab import {imports}
{todo}

{head}
    # {hole}: what is right, in NumPy, written the obvious way. It gets float64 and returns {outputs}.
    # An output that the kernel reads before it writes it is updated in place: name it as a parameter too.
    raise NotImplementedError("write reference in {name}.py: what {name} computes, in NumPy")


{functions}

{further}
{name} = Kernel(
    file=__file__,
    summary="{hole}: one line",
    dtypes=("{dtype}",),{doubt}
{shapes}
    reference=reference,
    {template}entries={{{entries}}},
    budgets={{"{dtype}": Budget(4, why="{hole}: why so many ULP")}},
{more})
# Further fields: torch=, triton= and rivals= give rows to compare with; pointwise=True says that an element of
# {output} depends on no other element. All fields: docs/kernel.md.
"""


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
        return written if len(written) < len(self.pointers) else written[-1:]

    @property
    def inputs(self) -> list[Parameter]:
        """The other pointers; one that is alone is updated in place."""
        own = {id(p) for p in self.outputs}
        return [p for p in self.pointers if id(p) not in own] or self.outputs[:1]

    @property
    def scalars(self) -> list[Parameter]:
        return [p for p in self.parameters if not p.pointer and self.kind(p).startswith(("float", "bfloat"))]

    @property
    def rows(self) -> bool:
        """Whether it counts rows and columns, not elements."""
        return any(COLUMNS.fullmatch(name_of(p)) for p in self.parameters if not p.pointer)

    @property
    def alike(self) -> tuple[list[str], list[str]]:
        """What two forms have in common that can be entries of one spec: their arrays."""
        return [self.kind(p) for p in self.inputs], [self.kind(p) for p in self.outputs]

    def type_of(self, parameter: Parameter) -> str:
        return self.signature.type_of(parameter)

    def kind(self, parameter: Parameter) -> str:
        """The dtype of a parameter, or of what it points to; "" if it has none that is known."""
        return ELEMENTS.get(self.type_of(parameter), "")


def name_of(parameter: Parameter) -> str:
    """The name of a parameter, the last word of its declaration, as Python can have it in a spec."""
    words = re.findall(r"[A-Za-z_]\w*", parameter.text.partition("[")[0].partition("=")[0])
    name = words[-1] if words else ""
    return f"{name}_" if keyword.iskeyword(name) or name in TAKEN else name


def of_file(path: Path) -> str:
    """The text of a spec for the `.cu` at `path`. Raises SpecError if it cannot be read, InputError without entries."""
    forms = [Form(signature) for signature in signatures.signatures(cuda_source.read(path))]
    if not forms:
        raise InputError(f"{path} has no __global__ function; the spec names what is launched")
    usable = [form for form in forms if any(not p.constant for p in form.pointers)]
    usable = [form for form in usable if not form.signature.template] or usable
    if not usable:
        raise InputError(
            f"{path}: no __global__ function has an input and an output: pointers to const are inputs, such as "
            "const float* x, other pointers are outputs"
        )
    return _spec(path.stem, usable)


def _spec(name: str, forms: Sequence[Form]) -> str:
    first = forms[0]
    inputs, outputs = [name_of(p) for p in first.inputs], [name_of(p) for p in first.outputs]
    scalars = {name_of(p): first.kind(p) for p in first.scalars}
    entries = [form for form in forms if form.alike == first.alike]
    others = [form for form in forms if form.alike != first.alike]
    known = first.kind(first.outputs[0])
    launches = "\n\n\n".join(_launch(form, inputs, outputs) for form in entries)
    own = _own_inputs(first, known or "float32")
    used = {"Budget", "Kernel", "Launch", *(["blocks"] if "blocks(" in launches else []), *(["draw"] if own else [])}
    used |= {*(["Out"] if outputs[1:] else []), *(["Scalar"] if scalars else [])}
    more = ["    inputs=inputs,"] * bool(own)
    if first.rows:
        shapes = _shapes(inputs, outputs)
        doubt = [f"    # {HOLE}: the shape of each array"] if len(shapes) > 2 else []
        more += [*doubt, f"    shapes={_dict(shapes)},"]
    if outputs[1:]:
        kinds = {n: first.kind(p) for n, p in zip(outputs, first.outputs, strict=True)}
        made = ", ".join(f'"{n}": Out({_other(kind, known)})' for n, kind in kinds.items())
        more += [SEVERAL, f"    outputs={{{made}}},"]
    elif outputs[0] != "y":
        in_place = f"  # {HOLE}: is it updated in place?" if outputs[0] in inputs else ""
        more.append(f'    output="{outputs[0]}",{in_place}')
    if scalars:
        line = f'        "{{0}}": Scalar(lambda: todo("the value of {{0}}"), "{{1}}"),  # {HOLE}'
        more += ["    scalars={", *(line.format(n, kind) for n, kind in scalars.items()), "    },"]
    template = ", ".join(first.signature.template)
    unknown = [first.type_of(p) for p in first.outputs if not first.kind(p)]
    return TEMPLATE.format(
        name=name,
        hole=HOLE,
        imports=", ".join(sorted(used)),
        head=_wrapped(f"def reference({', '.join([*inputs, *scalars])}):", "              "),
        outputs=outputs[0] if len(outputs) == 1 else f"({', '.join(outputs)})",
        output=outputs[0],
        todo=TODO.format(name=name) if scalars else "",
        functions="\n\n\n".join(filter(None, [launches, own])),
        further=_further(entries, others),
        dtype=known or "float32",
        doubt=f"  # {HOLE}: is {unknown[0]} this dtype?" if unknown else "",
        shapes=MATRIX if first.rows else VECTOR,
        entries=", ".join(f'"{form.signature.entry}": {_function(form)}' for form in entries),
        template=f"# {HOLE}: the arguments of the template <{template}>\n    " if template else "",
        more="".join(f"{line}\n" for line in more),
    )


def _further(entries: Sequence[Form], others: Sequence[Form]) -> str:
    """A hint for functions that cannot be entries of the same spec."""
    if not others:
        return ""
    names = [form.signature.entry for form in others]
    return FURTHER.format(names=", ".join(names), first=entries[0].signature.entry, second=names[0])


def _other(kind: str, known: str) -> str:
    return f'dtype="{kind}"' if kind and kind != (known or "float32") else ""


def _shapes(inputs: list[str], outputs: list[str]) -> dict[str, str]:
    """Of matrices: the first input and the first output; a further input is a row's, a further output a column's."""
    found = dict.fromkeys([inputs[0], outputs[0]], "rows cols")
    return found | dict.fromkeys(inputs[1:], "cols") | dict.fromkeys(outputs[1:], "rows")


def _dict(values: dict[str, str]) -> str:
    lines, made = [""], (f'"{name}": "{value}"' for name, value in values.items())
    for item in made:
        lines[-1:] = [f"{lines[-1]}{item}, "] if len(lines[-1]) < 80 else [lines[-1], f"{item}, "]
    return "{" + "\n            ".join(line.rstrip() for line in lines).rstrip(",") + "}"


def _function(form: Form) -> str:
    return f"launch_{form.signature.path.replace('::', '_')}"


def _launch(form: Form, inputs: list[str], outputs: list[str]) -> str:
    """The launch function of an entry; its arrays have the names that the first entry gives them."""
    named = {id(p): name for p, name in zip(form.outputs, outputs, strict=True)}
    named |= {id(p): name for p, name in zip(form.inputs, inputs, strict=True)}
    x, notes, arguments = inputs[0], list[str](), list[str]()
    written, scalars = {id(p) for p in form.outputs}, {id(p): name_of(p) for p in form.scalars}
    for parameter in form.parameters:
        name = name_of(parameter)
        if id(parameter) in named:
            arguments.append(named[id(parameter)])
            if id(parameter) not in written and not parameter.constant:
                notes.append(
                    f"{name} is not const, and an input must come back unchanged; if written, put it in outputs="
                )
            continue
        number = NUMBERS.get(form.type_of(parameter), "")
        if id(parameter) in scalars:
            arguments.append(name)
        elif number == "np.bool_":
            arguments.append("np.bool_(True)")
            notes.append(f"the value of {name}")
        elif ROWS.fullmatch(name) and form.rows:
            arguments.append(f"{number or 'np.int32'}({x}.shape[0])")
        elif COLUMNS.fullmatch(name):
            arguments.append(f"{number or 'np.int32'}({x}.shape[1])")
        elif name == "N" and form.rows:  # N rows of C
            arguments.append(f"{number or 'np.int32'}({x}.shape[0])")
        else:
            arguments.append(f"{number or 'np.int32'}({x}.size)")
            if name not in SIZES:
                notes.append(f"is {name} the number of elements?")
        if not number and id(parameter) not in scalars:
            notes.append(f"{name} is a {form.type_of(parameter)}")
    grid = f"({x}.shape[0],)" if form.rows else f"(blocks({x}.size, {THREADS}),)"
    said = [f"    # {HOLE}: {note}" for note in [*notes, "the grid and block that the kernel expects"]]
    taken = dict.fromkeys([*inputs, *outputs, *scalars.values()])
    tuple_of = f"({', '.join(arguments)}{',' * (len(arguments) == 1)})"
    return "\n".join(
        [
            _wrapped(f"def {_function(form)}({', '.join(taken)}):", "        "),
            *said,
            _wrapped(f"    return Launch({grid}, ({THREADS},), {tuple_of})", "        "),
        ]
    )


def _wrapped(code: str, indent: str) -> str:
    """Code in brackets, without texts, in lines of usual length."""
    own = re.match(" *", code)
    assert own
    return textwrap.fill(
        code.strip(), 110, initial_indent=own[0], subsequent_indent=indent, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def _own_inputs(form: Form, dtype: str) -> str:
    """A function that makes the inputs, where one has another dtype than the kernel's; else ""."""
    kinds = {name_of(p): form.kind(p) for p in form.inputs}
    if set(kinds.values()) <= {dtype, ""}:
        return ""
    made = []
    for i, (name, kind) in enumerate(kinds.items()):
        shape = "shape" if i == 0 or not form.rows else "shape[1:]"
        of = "dtype" if kind in ("", dtype) else f'np.dtype("{kind}")'
        made.append(f'"{name}": draw({shape}, {of}, rng)')
    head = f"def inputs(shape, dtype, rng):\n    # {HOLE}: shapes and values of the inputs"
    short = f"    return {{{', '.join(made)}}}"
    return "\n".join(
        [head, short] if len(short) < 110 else [head, "    return {", *(f"        {m}," for m in made), "    }"]
    )


def like(kernel: Kernel, path: Path) -> dict[Path, str]:
    """Path and text of the files of a copy of one of the lab's kernels as `path`, a `.cu`: the pair, and its parts."""
    text = cuda_source.read(kernel.cu)
    files = {path: kernel.cu.read_text(encoding="utf-8")}
    own = Path(kernel.file)
    spec = re.sub(rf"(?m)^{kernel.name} = Kernel\(", f"{path.stem} = Kernel(", own.read_text(encoding="utf-8"))
    files[path.with_suffix(".py")] = spec
    parts = [*cuda_source.local_headers(text, kernel.cu), *kernel.form_files.values()]
    for part in parts:
        files[path.parent / part.relative_to(own.parent)] = part.read_text(encoding="utf-8")
    return files
