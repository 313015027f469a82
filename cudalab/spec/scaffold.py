"""A first spec for a `.cu`: what its signatures say, and TODO where only its author knows."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from pathlib import Path

from cudalab.base.errors import InputError
from cudalab.spec import cuda_source, launch_check, signatures
from cudalab.spec.cuda_source import Parameter
from cudalab.spec.dtype import DTYPES
from cudalab.spec.dtype_macro import NAME as SCALAR
from cudalab.spec.guessed import COLUMNS, ROW, ROWS, SIZES, Form, element, name_of, number
from cudalab.spec.kernel import Kernel
from cudalab.spec.unfilled import MARK as HOLE

THREADS = 256
HEADERS = {"float16": "cuda_fp16.h", "bfloat16": "cuda_bf16.h"}  # that scalar_t needs for these dtypes
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
STEP = f"""
# {HOLE}: {{second}} reads {{between}}, which {{first}} writes. If they are steps of one operation, one entry launches
# them in order, the results of the last are the outputs, and workspace={{{{"{{between}}": Work()}}}} makes room for
# {{between}}, with its shape in shapes=:
#     return (Launch(grid, block, args, entry="{{first}}"), Launch(grid, block, args, entry="{{second}}"))
"""
RECAST = f"""
# {HOLE}: {{second}} seems to be {{first}} in another dtype. For both, give their dtypes in dtypes= and budgets=, and
# let one entry choose by the dtype of {{x}}; a number of that dtype is {{x}}.dtype.type(value):
#     return Launch(grid, block, args, entry={{{{{{by_dtype}}}}}}[{{x}}.dtype.name])
"""
READ_FIRST = (
    "# If the kernel reads an output before it writes it, as in y[i] += x[i], add the output to the parameters."
)
IN_PLACE = "# {names}: updated in place. As a parameter, each has the values from before the launch."
A_NUMBER = "or a number, as in Scalar(0.5)"
TEMPLATE_OF = "the arguments of the template <{}>"
ALONE = "# {name} is taken as updated in place. If the kernel only writes it, use its shape alone."
TEMPLATE = """\
\"\"\"{name}: {hole}, what it computes.\"\"\"

import numpy as np

from cudalab import {imports}


{head}
    # NumPy, written the obvious way. It gets float64 and returns {outputs}.
    {in_place}
    return todo("reference: what {name} computes, in NumPy")  # {hole}


{functions}

{further}
{name} = Kernel(
    file=__file__,
    summary="{hole}: one line",
    dtypes=({dtypes}),{doubt}
{shapes}
    reference=reference,
    {template}entries={{{entries}}},
    budgets={{{budgets}}},
{more})
# Further fields: torch=, triton= and rivals= give rows to compare with; pointwise=True says that an element of
# {output} depends only on the inputs' elements at its index. All fields: docs/kernel.md.
"""


def of_file(path: Path) -> str:
    """The text of a spec for the `.cu` at `path`. Raises SpecError if it cannot be read, InputError without entries."""
    text = cuda_source.read(path)
    forms = [Form(signature) for signature in signatures.signatures(text)]
    if not forms:
        raise InputError(f"{path} has no __global__ function; add one: a spec needs a function to launch")
    writing = [form for form in forms if any(not p.constant for p in form.pointers)]
    if not writing:
        raise InputError(
            f"{path}: no __global__ function writes to an array: pointers to const are inputs, such as const float* x, "
            "other pointers are outputs, such as float* y"
        )
    usable = [form for form in writing if not any(p.to_pointers for p in form.pointers)]
    if not usable:
        deep = next(p for p in writing[0].pointers if p.to_pointers)
        raise InputError(f"{path}: {writing[0].signature.entry} takes {deep.text!r}; {launch_check.POINTERS}")
    included = b" ".join([text.encode(), *cuda_source.local_headers(text, path).values()]).decode(errors="replace")
    return _spec(path.stem, sorted(usable, key=lambda form: bool(form.signature.template)), included)


def _spec(name: str, forms: Sequence[Form], text: str) -> str:
    first = forms[0]
    inputs, outputs = [name_of(p) for p in first.inputs], [name_of(p) for p in first.outputs]
    scalars = {name_of(p): first.kind(p).replace(SCALAR, "float32") for p in first.scalars}
    same = [form for form in forms if bool(form.signature.template) == bool(first.signature.template)]
    entries = [form for form in same if form.alike == first.alike and not form.after(first)]
    others = [form for form in forms if form not in entries]
    launches = "\n\n\n".join(_launch(form, inputs, outputs) for form in entries)
    own = _own_inputs(first)
    updated = [name_of(p) for p in first.outputs if first.uses(p).in_place]
    alone = outputs[0] in inputs and not updated
    several = {n: _out(first, p) for n, p in zip(outputs, first.outputs, strict=True)}
    used = {"Budget", "Kernel", "Launch", "todo", *(["blocks"] if "blocks(" in launches else [])}
    used |= {*(["draw"] if own else []), *(["Scalar"] if scalars else [])}
    more = ["    inputs=inputs,"] * bool(own)
    if first.rows:
        shapes = _shapes(first, inputs, outputs)
        doubt = f'    # {HOLE}: the shape of each array; "rows" is one value per row'
        more += [doubt, f"    shapes={_dict(shapes)},"]
    if outputs[1:] or several[outputs[0]]:
        used.add("Out")
        made = ", ".join(f'"{n}": Out({said})' for n, said in several.items())
        more += [SEVERAL] * bool(outputs[1:]) + [f"    outputs={{{made}}},"]
    elif outputs[0] != "y" or alone:
        asked = f"  # {HOLE}: is it updated in place?" if alone else ""
        more.append(f'    output="{outputs[0]}",{asked}')
    if scalars:
        line = f'        "{{0}}": Scalar(lambda: todo("the value of {{0}}"), "{{1}}"),  # {HOLE}: {A_NUMBER}'
        more += ["    scalars={", *(line.format(n, kind) for n, kind in scalars.items()), "    },"]
    template = ", ".join(first.signature.template)
    dtypes, doubt_of_dtypes = _dtypes(first, text)
    return TEMPLATE.format(
        name=name,
        hole=HOLE,
        imports=", ".join(sorted(used, key=lambda word: (word.islower(), word))),
        head=_wrapped(f"def reference({', '.join([*inputs, *scalars])}):", "              "),
        in_place=_of_place(updated, outputs[0] if alone else ""),
        outputs=outputs[0] if len(outputs) == 1 else f"({', '.join(outputs)})",
        output=outputs[0],
        functions="\n\n\n".join(filter(None, [launches, own])),
        further=_further(entries, others),
        dtypes=", ".join(f'"{dtype}"' for dtype in dtypes) + "," * (len(dtypes) == 1),
        doubt=doubt_of_dtypes,
        shapes=MATRIX if first.rows else VECTOR,
        entries=", ".join(f'"{form.signature.entry}": {_function(form)}' for form in entries),
        budgets=_budgets(dtypes),
        template="" if first.signature.instance or not template else f"# {HOLE}: {TEMPLATE_OF.format(template)}\n    ",
        more="".join(f"{line}\n" for line in more),
    )


def _dtypes(first: Form, text: str) -> tuple[list[str], str]:
    """The dtypes of a kernel, and what only its author knows of them. Those of `scalar_t` have their headers."""
    if first.dtype == SCALAR:
        found = ["float32", *(dtype for dtype, header in HEADERS.items() if header in text)]
        lacking = [f"{dtype} needs <{header}>" for dtype, header in HEADERS.items() if header not in text]
        return found, f"  # {HOLE}: what may scalar_t be?{' ' * bool(lacking)}{', '.join(lacking)}"
    unknown = [first.type_of(p) for p in first.outputs if not first.kind(p)]
    return [first.dtype], f"  # {HOLE}: is {unknown[0]} this dtype?" if unknown else ""


def _budgets(dtypes: Sequence[str]) -> str:
    """One budget by dtype: none for integers; in 16 bits that of a kernel that computes in float32 and rounds once."""
    made = []
    for dtype in dtypes:
        ulp, why = (1, "is it computed in float32 and rounded once?") if dtype in HEADERS else (4, "why so many ULP")
        ulp, why = (ulp, why) if DTYPES[dtype].floating else (0, "is it exact?")
        made.append(f'"{dtype}": Budget({ulp}, why="{HOLE}: {why}")')
    return made[0] if len(made) == 1 else "".join(f"\n        {line}," for line in made) + "\n    "


def _further(entries: Sequence[Form], others: Sequence[Form]) -> str:
    """Hints for functions that are no entries of the same spec: a next step, the same in other dtypes, others."""
    form, first = entries[0], entries[0].signature.entry
    steps = [other for other in others if other.after(form)]
    recast = [other for other in others if other not in steps and other.recast(form)]
    said = "".join(
        STEP.format(first=first, second=step.signature.entry, between=step.after(form)) for step in steps
    )  # fmt: skip
    if recast:
        by_dtype = ", ".join(f'"{one.dtype}": "{one.signature.entry}"' for one in (form, *recast))
        names = ", ".join(one.signature.entry for one in recast)
        said += RECAST.format(first=first, second=names, x=name_of(form.inputs[0]), by_dtype=by_dtype)
    if rest := [other.signature.entry for other in others if other not in (*steps, *recast)]:
        said += FURTHER.format(names=", ".join(rest), first=first, second=rest[0])
    return said


def _of_place(updated: list[str], alone: str) -> str:
    """What the reference says of outputs that are updated in place; `alone` is taken as one."""
    if updated:
        return IN_PLACE.format(names=", ".join(updated))
    return ALONE.format(name=alone) if alone else READ_FIRST


def _out(form: Form, parameter: Parameter) -> str:
    """The arguments of an output's Out."""
    kind = form.own_kind(parameter)
    summed = form.uses(parameter).summed  # with what it holds before
    return ", ".join([f'dtype="{kind}"'] * bool(kind) + ["fill=0"] * summed)


def _shapes(form: Form, inputs: list[str], outputs: list[str]) -> dict[str, str]:
    """Of matrices: the first input and the first output; a further input is a row's, a further output a column's.

    An array with an index that is a row's number has one element a row. Arrays with the same index have one shape.
    """
    found = {inputs[0]: "rows cols", outputs[0]: "rows cols"}
    for name in (*inputs[1:], *outputs[1:]):
        found.setdefault(
            name, "rows cols" if name in inputs and name in outputs else "cols" if name in inputs else "rows"
        )
    named = dict(zip(inputs, form.inputs, strict=True)) | dict(zip(outputs, form.outputs, strict=True))
    indices = {name: form.uses(named[name]).indices for name in found}
    for i, name in enumerate(found):
        if name != inputs[0] and any(ROW.fullmatch(index) for index in indices[name]):
            found[name] = "rows"
        else:
            alike = [earlier for earlier in list(found)[:i] if indices[earlier] & indices[name]]
            found[name] = found[alike[0]] if alike else found[name]
    return found


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
    of_dtype = next((named[id(p)] for p in form.pointers if form.kind(p) == SCALAR), x)
    written, scalars = {id(p) for p in form.outputs}, {id(p): name_of(p) for p in form.scalars}
    for parameter in form.parameters:
        name = name_of(parameter)
        if id(parameter) in named:
            arguments.append(named[id(parameter)])
            if id(parameter) not in written and not parameter.constant:
                notes.append(
                    f"{name} is not const, but an input must not change; if the kernel writes it, put it in outputs="
                )
            continue
        kind = number(form.type_of(parameter))
        if id(parameter) in scalars:
            of_kernel = form.kind(parameter) == SCALAR
            arguments.append(f"{of_dtype}.dtype.type({name})" if of_kernel else name)
        elif not kind:
            of = form.type_of(parameter)
            arguments.append(f'todo("{name} of type {of}: a NumPy scalar of its size")')
            notes.append(f"{name}; if {of} is a struct, let the kernel take its members as parameters")
        elif kind == "np.bool_":
            arguments.append("np.bool_(True)")
            notes.append(f"the value of {name}")
        elif ROWS.fullmatch(name) and form.rows:
            arguments.append(f"{kind}({x}.shape[0])")
        elif COLUMNS.fullmatch(name):
            arguments.append(f"{kind}({x}.shape[1])")
        elif name == "N" and form.rows:  # N rows of C
            arguments.append(f"{kind}({x}.shape[0])")
        else:
            arguments.append(f"{kind}({x}.size)")
            if name not in SIZES:
                notes.append(f"is {name} the number of elements?")
    grid = f"({x}.shape[0],)" if form.rows else f"(blocks({x}.size, {THREADS}),)"
    shared = ""
    if array := form.signature.shared:
        kind = element(form.type_of(array))
        each = f"{of_dtype}.dtype.itemsize" if kind == SCALAR else str(DTYPES[kind].itemsize) if kind else ""
        bytes_of = f"the bytes of extern __shared__ {array.text}"
        raw = kind in ("", "int8", "uint8")  # bytes that the kernel divides
        shared = f', shared=todo("{bytes_of}")' if raw else f", shared={THREADS} * {each}"
        notes.append(bytes_of + ("" if raw else ": is it one element per thread?"))
    said = [f"    # {HOLE}: {note}" for note in [*notes, "the grid and block that the kernel expects"]]
    taken = dict.fromkeys([*inputs, *outputs, *scalars.values()])
    tuple_of = f"({', '.join(arguments)}{',' * (len(arguments) == 1)})"
    return "\n".join(
        [
            _wrapped(f"def {_function(form)}({', '.join(taken)}):", "        "),
            *said,
            _wrapped(f"    return Launch({grid}, ({THREADS},), {tuple_of}{shared})", "        "),
        ]
    )


def _wrapped(code: str, indent: str) -> str:
    """Code in brackets, in lines of usual length; no line ends within a text."""
    own = re.match(" *", code)
    assert own
    whole = re.sub('"[^"]*"', lambda text: text[0].replace(" ", "\0"), code.strip())
    return textwrap.fill(
        whole, 110, initial_indent=own[0], subsequent_indent=indent, break_long_words=False,
        break_on_hyphens=False,
    ).replace("\0", " ")  # fmt: skip


def _own_inputs(form: Form) -> str:
    """A function that makes the inputs, where one has another dtype than the kernel's; else ""."""
    kinds = {name_of(p): form.own_kind(p) for p in form.inputs}
    if not any(kinds.values()):
        return ""
    made = []
    for i, (name, kind) in enumerate(kinds.items()):
        shape = "shape" if i == 0 or not form.rows else "shape[1:]"
        of = f'np.dtype("{kind}")' if kind else "dtype"
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
