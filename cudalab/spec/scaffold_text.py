"""The text of a first spec: its functions, and the kernel."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Mapping
from itertools import chain, count

from cudalab.spec import scaffold_fields
from cudalab.spec.guessed import Form, c_name, python_name
from cudalab.spec.scaffold_fields import Subject, Told
from cudalab.spec.scaffold_inputs import inputs_function
from cudalab.spec.scaffold_launch import Launched, launched, wrapped
from cudalab.spec.scaffold_plan import Entry, Plan
from cudalab.spec.unfilled import MARK as HOLE

TEMPLATE = '''\
"""{summary}{stop}"""

import numpy as np

from cudalab import {imports}


{functions}


{made}{further}{variable} = Kernel(
    file=__file__,
    summary="{summary}",
{fields})
# Further fields: torch=, triton= and rivals= give rows to compare with; pointwise=True says that an element of
# {output} depends only on the inputs' elements at its index. All fields: docs/kernel.md.
'''
PUBLIC = ("Budget", "In", "Kernel", "Launch", "Out", "Scalar", "Work", "blocks", "draw", "todo")
READ_FIRST = (
    "# If the kernel reads an output before it writes it, as in y[i] += x[i], add the output to the parameters."
)
IN_PLACE = "# {}: updated in place. As a parameter, each has the values from before the launch."
ALONE = "# {} is taken as updated in place. If the kernel only writes it, use its shape alone."
CHECK = """\
def check_{name}({taken}):
    # {name} is random: return True, or a text that says what is wrong. For example its mean, with wide bounds.
    return todo("the check of {name}")  # {hole}"""
OTHERS = "Not in this spec, since their arrays or dtypes are others: {}."
NAMED = 20  # functions that are named as not in the spec


def spec(plan: Plan, told: Told) -> str:
    """Return the text of the spec of a plan."""
    subject = Subject(plan, told)
    for name in re.findall(r"\w+", " ".join(subject.shapes.get(output, "") for output in subject.outputs)):
        if name in subject.lengths and name not in subject.dimensions:
            subject.values.scalars.setdefault(name, ("", subject.lengths[name]))
    launches = _launches(subject)
    functions = "\n\n\n".join([*inputs_function(subject), *_judges(subject), *launches])
    made = scaffold_fields.constants(subject)
    fields = "".join(f"    {line}\n" for line in scaffold_fields.fields(subject))
    code = f"Kernel({functions}{fields}"
    return TEMPLATE.format(
        summary=re.sub(r"^[a-z](?![\w.]*(?:[\[(_]| ?=))", lambda first: first[0].upper(), told.summary),
        stop="" if told.summary.endswith("...") else ".",
        imports=", ".join(word for word in PUBLIC if re.search(rf"\b{word}\(", code)),
        functions=functions,
        made=made,
        further=_others([other.signature.entry for other in plan.others]),
        variable=python_name(plan.name),
        fields=fields,
        output=next(iter(subject.outputs.values())),
    )


def _judges(subject: Subject) -> list[str]:
    """The reference; where results are random, a check of those and a reference for each other one."""
    inputs, numbers = list(subject.inputs.values()), subject.judged_by
    if subject.checked:
        checked = [subject.outputs[name] for name in subject.checked]
        given = [*inputs, *checked, *numbers]
        rest = [mine for name, mine in subject.outputs.items() if name not in subject.checked]
        taken = {name: ", ".join(dict.fromkeys([name, *inputs, *numbers])) for name in checked}
        return [
            *(CHECK.format(name=name, taken=taken[name], hole=HOLE) for name in checked),
            *(_reference(f"reference_{name}", given, name, name) for name in rest),
        ]
    outputs, updated = list(subject.outputs.values()), subject.plan.updated
    alone = list(subject.inputs) == list(subject.outputs)
    note = IN_PLACE.format(", ".join(updated)) if updated else ALONE.format(outputs[0]) if alone else READ_FIRST
    returned = outputs[0] if len(outputs) == 1 else f"({', '.join(outputs)})"
    return [_reference("reference", [*inputs, *numbers], returned, subject.plan.name, note)]


def _reference(function: str, taken: list[str], returned: str, computes: str, note: str = "") -> str:
    head = wrapped(f"def {function}({', '.join(dict.fromkeys(taken))}):", "              ")
    said = f"    # NumPy, written the obvious way. It gets float64 and returns {returned}.\n"
    said += f"    {note}\n" * bool(note)
    return f'{head}\n{said}    return todo("reference: what {computes} computes, in NumPy")  # {HOLE}'


def _launches(subject: Subject) -> list[str]:
    """The launch functions; entries with the same text share one."""
    found = dict[str, str]()  # the name of a function by the rest of its text
    for entry in subject.plan.entries:
        text = _launch(subject, entry)
        name = found.setdefault(text, _function(entry, found.values()))
        subject.functions[entry.name] = name
    made = [f"def {name}{text}".partition("\n") for text, name in found.items()]
    return [f"{wrapped(head, '        ')}\n{body}" for head, _, body in made]


def _function(entry: Entry, taken: Collection[str]) -> str:
    """A new name for the launch function of an entry."""
    several = len(entry.forms) > 1
    own = ["launch" if several else f"launch_{_word(entry.forms[0].signature.path)}", f"launch_{_word(entry.name)}"]
    return next(name for name in chain(own, (f"{own[1]}_{i}" for i in count(2))) if name not in taken)


def _word(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")


def _launch(subject: Subject, entry: Entry) -> str:
    """Parameters and body of the launch function of an entry."""
    x = next(iter(subject.inputs.values()))
    chosen = ""
    if entry.by_dtype:
        chosen = ", ".join(f'"{dtype}": "{form.signature.entry}"' for dtype, form in entry.by_dtype.items())
        chosen = f", entry={{{chosen}}}[{x}.dtype.name]"
    several = len(entry.forms) > 1
    made = list[Launched]()
    for form in entry.forms:
        chosen = f', entry="{form.signature.entry}"' if several else chosen
        follows = entry.follows if entry.by_dtype else set()
        made.append(launched(form, _names_of(subject, form), subject.values, follows, chosen))
    used = {name for one in made for name in one.arrays} | ({x} if entry.by_dtype else set())
    every = dict.fromkeys([*subject.inputs.values(), *subject.outputs.values(), *subject.workspace.values()])
    taken = [name for name in every if name in used] + [name for one in made for name in one.scalars]
    asks = "".join(f"    # {HOLE}: {ask}\n" for one in made for ask in one.asks)
    asks += "".join(f"    # Grid and block: {one.read}.\n" for one in made if one.read)
    body = wrapped(f"    return {made[0].code}", "        ")
    if several:
        body = "    return (\n" + "\n".join(wrapped(f"        {one.code},", "            ") for one in made) + "\n    )"
    return f"({', '.join(dict.fromkeys(taken))}):\n{asks}{body}"


def _names_of(subject: Subject, form: Form) -> Mapping[str, str]:
    """The arrays of the spec by the names that a function gives them: its own, or those in the same place."""
    own = {**subject.workspace, **subject.outputs, **subject.inputs}
    if all(c_name(p) in own for p in form.pointers):
        return {c_name(p): own[c_name(p)] for p in form.pointers}
    first = subject.first
    pairs = [*zip(form.outputs, first.outputs, strict=False), *zip(form.inputs, first.inputs, strict=False)]
    return {c_name(mine): own[c_name(other)] for mine, other in pairs}


def _others(names: list[str]) -> str:
    """A comment that names the functions that are not in the spec."""
    if not names:
        return ""
    more = f" and {len(names) - NAMED} more" * (len(names) > NAMED)
    text = OTHERS.format(", ".join(names[:NAMED]) + more)
    return textwrap.fill(text, 118, initial_indent="# ", subsequent_indent="# ") + "\n"
