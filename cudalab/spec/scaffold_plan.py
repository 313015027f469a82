"""What a first spec is about: which functions are its entries, which are steps, and what arrays they have."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from cudalab.spec.cuda_source import Parameter
from cudalab.spec.dtype import DTYPES
from cudalab.spec.dtype_macro import NAME as SCALAR
from cudalab.spec.guessed import Form, c_name, element, python_name
from cudalab.spec.guessed_layout import Extent

_BETWEEN = re.compile(r"(?i)work|ws|scratch|te?mp|part|buf|bl(oc)?k|inter|hist|local|cache")
_CAMEL = re.compile(r"([a-z0-9])([A-Z])")
_HOW = re.compile(
    r"v|k|x|kernel|plain|naive|simple|base(line)?|basic|ref(erence)?|fast(er)?|opt(imi[sz]ed)?|slow|vec(tor(i[sz]ed)?)?|"
    r"float|half|double|int|bf|fp|f|h|d|packed|unroll(ed)?|tile[ds]?|tiling|shared|smem|shmem|global|gmem|reg(ister)?s?|"
    r"warps?|blocks?|threads?|rows?|grid|stride[ds]?|loop|wide|scalar|cluster|coop(erative)?|online|full|atomics?|"
    r"coalesced|cached?|async|pipelined?|wmma|mma|tensor|cores?|cub|shfl|shuffle|one|two|pass|persistent|forward|fwd|"
    r"version|ver|step|new|old|short|long|eight"
)
MOST = 64  # functions that may be entries of one spec


@dataclass(frozen=True)
class Entry:
    """A row of the spec: one function, one for each dtype, or several that are launched in order."""

    name: str
    forms: tuple[Form, ...]  # the steps
    by_dtype: dict[str, Form] = field(default_factory=dict)  # the functions, where the dtype chooses one

    @property
    def follows(self) -> set[str]:
        """The numbers whose type is that of the arrays, where the dtype chooses the function: names in C."""
        first, *others = self.by_dtype.values() or self.forms
        pairs = [zip(first.parameters, other.parameters, strict=True) for other in others]
        return {c_name(p) for some in pairs for p, q in some if not p.pointer and first.kind(p) != element(q.ctype)}


@dataclass(frozen=True)
class Plan:
    """The entries of a spec. `others`: functions that are none of them. `uncertain`: whether they compute the same."""

    name: str
    entries: tuple[Entry, ...]
    others: tuple[Form, ...] = ()
    dtypes: tuple[str, ...] = ()  # of the template's instances, where it has several
    uncertain: bool = False

    @property
    def first(self) -> Form:
        return self.entries[0].forms[0]

    @cached_property
    def steps(self) -> tuple[Form, ...]:
        return self.entries[0].forms

    @cached_property
    def between(self) -> list[str]:
        """The arrays that a later step reads and none writes again: names in C."""
        found = list[str]()
        for i, form in enumerate(self.steps):
            read = {c_name(p) for other in self.steps[i + 1 :] for p in other.inputs}
            again = {c_name(p) for other in self.steps[i + 1 :] for p in other.outputs}
            names = [c_name(p) for p in form.outputs]
            found += [name for name in names if name in read - again and name not in found]
        return found

    @cached_property
    def workspace(self) -> dict[str, tuple[Form, Parameter]]:
        """Arrays that the kernel uses for itself, by their names in C; what the last step writes is none of steps'."""
        found = dict[str, tuple[Form, Parameter]]()
        for form in self.steps:
            own = {c_name(p): (form, p) for p in form.outputs}
            used = [name for name, (_, p) in own.items() if form.uses(p).workspace]
            some = used if len(used) < len(own) else []
            found |= {name: pair for name, pair in own.items() if name in self.between or name in some}
        return found

    @cached_property
    def outputs(self) -> dict[str, tuple[Form, Parameter]]:
        """The results by their names in C, each with the step that writes it."""
        found = {c_name(p): (form, p) for form in self.steps for p in form.outputs}
        return {name: pair for name, pair in found.items() if name not in self.workspace}

    @cached_property
    def inputs(self) -> dict[str, tuple[Form, Parameter]]:
        """What the kernel reads that no earlier step has written; the first result, if that is nothing."""
        found, written = dict[str, tuple[Form, Parameter]](), set(self.workspace)
        for form in self.steps:
            for p in form.inputs:
                name, alone = c_name(p), form.inputs == form.outputs
                if name not in written and (name not in self.outputs or form.uses(p).in_place or alone):
                    found.setdefault(name, (form, p))
            written |= {c_name(p) for p in form.outputs}
        return found or dict([next(iter(self.outputs.items()))])

    @property
    def kept(self) -> list[str]:
        """The arrays between steps that may be results too, as their names in C tell of no workspace."""
        return [name for name in self.between if name in self.workspace and not _BETWEEN.search(name)]

    @property
    def updated(self) -> list[str]:
        """The outputs that are updated in place, by their names in the spec."""
        return [
            python_name(name)
            for name, (form, p) in self.outputs.items()
            if name in self.inputs and form.uses(p).in_place
        ]

    @cached_property
    def shapes(self) -> dict[str, Extent | None]:
        """The dimensions of every array by its name in C, in the names of the first step; None where not known."""
        found, renamed = dict[str, Extent | None](), dict[str, str]()
        for form in self.steps:
            for name, extent in form.shapes.items():
                known = found.get(name)
                if known and len(known.words) == len(extent.words):
                    renamed |= {
                        mine: first
                        for mine, first in zip(extent.words, known.words, strict=True)
                        if mine.isidentifier() and first
                    }
            for p in form.pointers:
                own = form.shapes.get(c_name(p))
                words = tuple(renamed.get(word, word) for word in own.words) if own else ()
                if not found.get(c_name(p)):
                    found[c_name(p)] = Extent(words, own.sure) if own else None
        return found

    @cached_property
    def ranges(self) -> dict[str, str]:
        """The arrays of indices, by their names in C: what they are below."""
        found = dict[str, str]()
        for form in self.steps:
            found |= form.layout.gathered
        return found

    @cached_property
    def offsets(self) -> dict[str, str]:
        """The arrays that say where parts of others begin, by their names in C: the dimension of those others."""
        found = dict[str, str]()
        for form in self.steps:
            found |= form.layout.offsets
        return found


def planned(name: str, forms: Sequence[Form]) -> Plan:
    """Which of the functions are entries of one spec, and how."""
    expanded, dtypes = _instances(forms[:MOST])
    first = expanded[0]
    further = forms[MOST:]
    steps = _chain(first, expanded[1:])
    if steps:
        others = [*_without(expanded, [first, *steps]), *further]
        return Plan(name, (Entry(first.signature.entry, (first, *steps)),), tuple(others), dtypes)
    alike = [
        form for form in expanded if form.alike == first.alike and form.dtype == first.dtype and _sides(form, first)
    ]
    entries = [Entry(form.signature.entry, (form,)) for form in alike]
    recast = {form.dtype: form for form in expanded if form.recast(first) and not form.signature.template}
    recast = {
        kind: form
        for kind, form in recast.items()
        if {kind, first.dtype} <= set(DTYPES) and len(alike) == 1 and not first.signature.template
    }
    if recast:
        functions = {one.dtype: one for one in (first, *recast.values())}
        entries = [Entry(first.signature.entry, (first,), functions)]
        dtypes = tuple(functions)
    others = [*_without(expanded, [*alike, *recast.values()]), *further]
    return Plan(name, tuple(entries), tuple(others), dtypes, not _one_purpose(form.signature.path for form in alike))


def _without(forms: Iterable[Form], some: Sequence[Form]) -> list[Form]:
    taken = set(map(id, some))
    return [form for form in forms if id(form) not in taken]


def _chain(first: Form, others: Iterable[Form]) -> list[Form]:
    """The functions that go on with what earlier ones have written."""
    found = list[Form]()
    for form in others:
        if any(form.after(earlier) for earlier in (first, *found)) and form.signature.path != first.signature.path:
            found.append(form)
    return found


def _sides(form: Form, first: Form) -> bool:
    """Whether their arrays have as many dimensions, and as many elements for each block, where the bodies tell."""
    pairs = zip((*form.inputs, *form.outputs), (*first.inputs, *first.outputs), strict=False)
    known = [(form.shapes.get(c_name(a)), first.shapes.get(c_name(b))) for a, b in pairs]
    blocks = [(a.words, b.words) for a, b in known if a and b and "//" in " ".join((*a.words, *b.words))]
    return all(len(a.words) == len(b.words) for a, b in known if a and b) and all(a == b for a, b in blocks)


def _one_purpose(paths: Iterable[str]) -> bool:
    """Whether functions seem to compute the same: their names differ in words that say how, such as `vec` or `v2`."""
    names = [path.rpartition("::")[2] for path in dict.fromkeys(paths)]
    words = [
        {w for w in re.findall(r"[a-z]+", _CAMEL.sub(r"\1_\2", name).lower()) if not _HOW.fullmatch(w)}
        for name in names
    ]
    return all(one == words[0] for one in words)


def _instances(forms: Sequence[Form]) -> tuple[list[Form], tuple[str, ...]]:
    """The functions with each instance of a template on its own; and the dtypes that instances have.

    Instances that differ in the one type of their arrays alone are one function of scalar_t.
    """
    found, dtypes = list[Form](), list[str]()
    generic = not any(not form.signature.template for form in forms)
    for form in forms:
        every = [replace(form, signature=replace(form.signature, instance=one)) for one in form.signature.instances]
        if not every:
            found.append(form)
            continue
        types = {p.ctype for p in form.pointers if p.ctype in form.signature.arguments}
        kinds = list(dict.fromkeys(element(one.signature.arguments[kind]) for one in every for kind in types))
        if generic and len(types) == 1 and len(kinds) > 1 and set(kinds) <= set(DTYPES):
            dtypes += [kind for kind in kinds if kind not in dtypes]
            every = [_of_scalar(one, next(iter(types))) for one in every]
        found += [one for i, one in enumerate(every) if one not in every[:i]]
    return found, tuple(dtypes)


def _of_scalar(form: Form, name: str) -> Form:
    given = {**form.signature.arguments, name: SCALAR}
    return replace(form, signature=replace(form.signature, instance=tuple(given.values())))
