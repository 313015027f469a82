"""The plan of a run: which kernels, sizes, dtypes and variants the words of its options mean."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from cudalab import backends
from cudalab.backends import Backend
from cudalab.base.errors import InputError, unknown
from cudalab.base.globs import fits, halves, match, split
from cudalab.checks import characters, hard_inputs, inputs, misaligned
from cudalab.engine.messages import Task
from cudalab.spec import find, rival, sizes
from cudalab.spec.dtype import DTYPES, DType, dtype
from cudalab.spec.inputs import CHARACTERS
from cudalab.spec.kernel import Arrays, Kernel, Shape, labelled

Form = tuple[str, Mapping[str, int]]  # an entry, and the values of all of its kernel's tunables

HUGE = "huge"  # the `values` of a group whose arrays are reserved and not made (engine/huge.py)
MODES = ("launch", "graph", "api")


@dataclass(frozen=True)
class Group:
    """Cases that share their arrays and their rounds: one kernel at one size and dtype."""

    kernel: Kernel
    size: str
    shape: Shape
    dtype: DType
    values: str = ""  # which of cudalab.checks.hard_inputs or CHARACTERS the inputs are; "": those that the spec makes
    awkward: bool = False  # only for variants that compute their own indices
    offsets: tuple[int, ...] = ()  # bytes from the usual alignment to the start of each input, then of the output
    alias: str = ""  # the kernel's name in the results, where two kernels of a run share theirs
    forms: tuple[Form, ...] = ()  # entries with launch parameters that replace the kernel's usual variants
    rivals: tuple[str, ...] = ()  # those that the command line added to the kernel's own, as `rival.parsed` reads them

    @property
    def name(self) -> str:
        return self.alias or self.kernel.name

    @property
    def files(self) -> dict[str, Path]:
        """The `.cu`, the spec and the files of its forms, by the names under which the results keep their digests."""
        found = {f"{self.name}.cu": self.kernel.cu, f"{self.name}.py": Path(self.kernel.file)}
        rivals = {name: rival.of(one).file for name, one in self.kernel.rivals.items()}
        found |= {f"{self.name}.rival.{name}.py": file for name, file in rivals.items() if file}
        return found | {f"{self.name}.{form}.py": file for form, file in self.kernel.form_files.items()}

    def variants(self) -> Iterator[Variant]:
        """Every variant on every device, in the order of the backends."""
        for name, backend in backends.by_name().items():
            if backend.own_indexing or not self.awkward:
                yield from _made(name, backend, self)

    @property
    def file(self) -> str:
        """Path of the spec."""
        return self.kernel.file

    @property
    def parts(self) -> int:
        """Number of parts that the inputs come in: all values of 32 bits do not fit into memory at once."""
        return hard_inputs.parts(self._kinds[0]) if self.values == hard_inputs.EVERY else 1

    @cached_property
    def _kinds(self) -> tuple[DType, ...]:
        """The inputs' dtypes, of a group with hard values."""
        return inputs.floating(self.kernel, self.dtype)

    def arrays(self, seed: int, part: int = 0) -> Arrays:
        """The inputs, by name; the same for the same seed."""
        names = self.kernel.input_names
        if self.values == hard_inputs.EVERY:
            return {names[0]: hard_inputs.every(self._kinds[0], part).reshape(self._cut(self.parts))}
        if self.values == hard_inputs.SAMPLE:
            return {names[0]: hard_inputs.sample(self._kinds[0], math.prod(self.shape), seed).reshape(self.shape)}
        if self.values == hard_inputs.PAIRS:
            found = (hard_inputs.pairs(kind, i, seed) for i, kind in enumerate(self._kinds))
            return {name: array.reshape(self.shape) for name, array in zip(names, found, strict=True)}
        if self.values == hard_inputs.EACH:
            n = math.prod(self.shape) // len(names)
            found = (hard_inputs.each(kind, n, len(names), i, seed) for i, kind in enumerate(self._kinds))
            return {name: array.reshape(self.shape) for name, array in zip(names, found, strict=True)}
        if self.values in CHARACTERS:
            return characters.arrays(self.kernel, self.shape, self.dtype, self.values, seed)
        return self.kernel.make(self.shape, self.dtype, seed)

    def _cut(self, parts: int) -> Shape:
        return (*self.shape[:-1], self.shape[-1] // parts)

    def task(self, omit: tuple[str, ...] = (), timed: bool = True) -> Task:
        """Implements `Rows.task`."""
        return Task.of("cudalab.engine.worker:cases", Work.on(self, omit, timed), self.files)

    def __str__(self) -> str:
        return f"{self.name} {self.size} {self.dtype.name}"


class Work(msgspec.Struct):
    """A group as JSON, for another process. `omit`: labels of variants to leave out; `timed` False: check only."""

    kernel: str  # path of the spec
    size: str
    shape: tuple[int, ...]
    dtype: str
    values: str
    awkward: bool
    offsets: tuple[int, ...]
    alias: str = ""
    forms: tuple[Form, ...] = ()
    rivals: tuple[str, ...] = ()
    parameters: dict[str, int] = {}  # of the kernel's tunables, where each has one value
    omit: tuple[str, ...] = ()
    timed: bool = True

    @classmethod
    def on(cls, group: Group, omit: tuple[str, ...] = (), timed: bool = True) -> Work:
        return cls(
            group.kernel.file, group.size, group.shape, group.dtype.name, group.values, group.awkward, group.offsets,
            group.name, group.forms, group.rivals, _fixed(group.kernel), omit, timed,
        )  # fmt: skip

    def group(self) -> Group:
        kernel = find.kernel(self.kernel)
        return Group(
            beside(kernel.with_parameters(self.parameters) if self.parameters else kernel, self.rivals), self.size,
            self.shape, dtype(self.dtype), self.values, self.awkward, self.offsets, self.alias, self.forms, self.rivals,
        )  # fmt: skip


def _fixed(kernel: Kernel) -> dict[str, int]:
    return kernel.parameters if all(len(values) == 1 for values in kernel.tunables.values()) else {}


@dataclass(frozen=True)
class Variant:
    """One form of a kernel under one backend: a row of the results."""

    backend_name: str
    backend: Backend
    name: str  # of the entry, where the backend has several
    devices: tuple[str, ...]
    parameters: Mapping[str, int] | None = None  # None: those tuned for this GPU, or the default

    why = ""  # see `Way`

    @property
    def label(self) -> str:
        name = labelled(self.name, self.parameters)
        return f"{self.backend_name}:{name}" if name else self.backend_name


class Way(Protocol):
    """What a selection chooses from: variants of a kernel or of a study."""

    @property
    def label(self) -> str: ...

    @property
    def devices(self) -> tuple[str, ...]:
        """Where it runs: "cuda", "cpu"."""

    @property
    def why(self) -> str:
        """Why it does not run on other devices, if there is more to say than their names."""


W_co = TypeVar("W_co", bound=Way, covariant=True)


class Rows(Protocol[W_co]):
    """Cases that are measured together: a `Group` of a kernel, or a workload of a study."""

    @property
    def name(self) -> str: ...

    @property
    def size(self) -> str: ...

    @property
    def shape(self) -> Shape: ...

    @property
    def dtype(self) -> DType: ...

    @property
    def parts(self) -> int: ...

    @property
    def file(self) -> str: ...

    @property
    def files(self) -> dict[str, Path]: ...

    def variants(self) -> Iterable[W_co]: ...

    def task(self, omit: tuple[str, ...] = (), timed: bool = True) -> Task:
        """What makes a worker return the cases. `omit`: labels of variants to leave out; not `timed`: check only."""


@dataclass(frozen=True)
class Selection:
    """Which variants take part: globs on `backend`, `entry` or `backend:entry`, or on the labels of a study."""

    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()

    @classmethod
    def of(cls, only: str, skip: str) -> Selection:
        """From comma-separated globs; `check` refuses those that fit nothing."""
        return cls(_named("only", only), _named("skip", skip))

    @classmethod
    def parse(cls, only: str, skip: str) -> Selection:
        """As `of`, where the kernels are not known yet: raises NotFound for a glob that fits no backend."""
        found = cls.of(only, skip)
        for pattern in (*found.only, *found.skip):
            if not fnmatch.filter(backends.by_name(), halves(pattern)[0] or pattern):
                raise unknown("backend", pattern, backends.by_name())
        return found

    def variants(self, group: Rows[W_co], device: str = "") -> Iterator[W_co]:
        """The chosen variants of `group` on a kind of device ("": on any), in their order."""
        yield from (v for v in group.variants() if (not device or device in v.devices) and self._takes(v))

    def check(self, groups: Collection[Rows[Way]]) -> None:
        """Raise NotFound for a glob that fits no variant of these groups, InputError if they leave none."""
        every = {v.label: v for group in groups for v in Selection().variants(group)}
        for pattern in (*self.only, *self.skip):
            backend, _ = halves(pattern)
            if backend and not fnmatch.filter(backends.by_name(), backend):
                raise unknown("backend", backend, backends.by_name())
            if backend and not any(match(label, pattern) for label in every):
                raise unknown("variant", pattern, every)
            if not any(fits(label, (pattern,)) for label in (*every, *backends.by_name())):
                entries = dict.fromkeys(label.partition(":")[2] for label in every if ":" in label)
                raise unknown("backend or entry", pattern, (*backends.by_name(), *entries))
        if not any(self._takes(v) for v in every.values()):
            raise InputError("no variant is left to run; check --only and --skip against `cudalab list`")

    def _takes(self, variant: Way) -> bool:
        return (not self.only or fits(variant.label, self.only)) and not fits(variant.label, self.skip)


def _made(name: str, backend: Backend, group: Group) -> Iterator[Variant]:
    def made(variant: str, values: Mapping[str, int] | None = None) -> Variant:
        only_on = getattr(backend, "only_on", lambda kernel, variant: backend.devices)
        return Variant(name, backend, variant, only_on(group.kernel, variant), values)

    variants = backend.variants(group.kernel)
    if group.forms:
        yield from (made(entry, values) for entry, values in group.forms if entry in variants)
    else:
        yield from map(made, variants)


def named(names: Collection[str]) -> dict[str, Kernel]:
    """The kernels of these names or paths, each once, by their names in the results; no names: all of the lab's.

    Where two files have the same name, such as two versions in two folders, the folder's name is added.
    """
    chosen = {k.file: k for k in (find.chosen(names) or find.kernels().values())}
    stems = [k.name for k in chosen.values()]
    found: dict[str, Kernel] = {}
    for path, kernel in chosen.items():
        name = kernel.name if stems.count(kernel.name) == 1 else f"{Path(path).parent.name}/{kernel.name}"
        found[name if name not in found else path] = kernel
    return found


def beside(kernel: Kernel, rivals: tuple[str, ...]) -> Kernel:
    """The kernel with the rivals that the command line gives beside its own. Raises InputError."""
    return replace(kernel, rivals={**kernel.rivals, **rival.parsed(rivals, find.loaded)}) if rivals else kernel


def groups(names: Collection[str], size_text: str, dtype_text: str, rivals: str = "") -> list[Group]:
    """One group for every kernel, size and dtype, kernel by kernel.

    `dtype_text` is a comma-separated list, "all", or empty for each kernel's first. Raises for a size or dtype that
    the kernels do not have.
    """
    found: list[Group] = []
    for name, kernel, dtypes in _with_dtypes(names, dtype_text, rivals):
        shapes = sizes.usual(kernel.sizes) if size_text == sizes.USUAL else sizes.parse(size_text, kernel.sizes)
        for shape in shapes.values():
            kernel.accepts(shape)
        found += [
            Group(kernel, label, s, d, alias=name, rivals=split(rivals)) for label, s in shapes.items() for d in dtypes
        ]
    return found


def with_parameters(groups: list[Group], parameters: Mapping[str, int]) -> list[Group]:
    """The groups with these values of their kernels' tunables, and the default of the others.

    Raises NotFound for a name that no kernel has, SpecError for a value that a kernel does not declare.
    """
    known = {name: None for group in groups for name in group.kernel.tunables}
    for name in parameters:
        if name not in known:
            have = " and ".join(dict.fromkeys(group.name for group in groups))
            raise unknown(f"tunable of {have}", name, known) if known else InputError(f"{have} declares no tunables")
    chosen = [{n: v for n, v in parameters.items() if n in group.kernel.tunables} for group in groups]
    return [
        replace(group, kernel=group.kernel.with_parameters(own)) if own else group
        for group, own in zip(groups, chosen, strict=True)
    ]


def checks(
    names: Collection[str],
    dtype_text: str,
    exhaustive: bool = False,
    sample: int = hard_inputs.SAMPLE_SIZE,
    rivals: str = "",
    huge: bool = False,
) -> list[Group]:
    """The groups of a check without sizes: hard values, the first size, awkward shapes, arrays off their alignment.

    A function of one array gets every value of 16 bits; of 32 bits `sample` values, or every value if `exhaustive`,
    which takes minutes on a GPU. A function of two arrays gets pairs of special values, and special values in each
    array beside normal values in the other. At awkward shapes pointwise kernels also run in place.
    """
    found: list[Group] = []
    for name, kernel, dtypes in _with_dtypes(names, dtype_text, rivals):
        for kind in dtypes:
            hard = _hard_values(name, kernel, kind, exhaustive, sample) if kernel.pointwise else []
            found += hard
            label, shape = next(iter(kernel.sizes.items()))
            found.append(Group(kernel, label, shape, kind, alias=name))
            edges = {"x".join(map(str, edge)): edge for edge in kernel.edges}
            found += [Group(kernel, text, edge, kind, awkward=True, alias=name) for text, edge in edges.items()]
            found += _misaligned(name, kernel, kind)
            found += [] if hard else _characters(name, kernel, kind)  # last: a message begins with usual values
        if huge:
            found.append(Group(kernel, "beyond 2^31", (), dtypes[0], values=HUGE, awkward=True, alias=name))
    return [replace(group, rivals=split(rivals)) for group in found]


def _hard_values(name: str, kernel: Kernel, kind: DType, exhaustive: bool, sample: int) -> list[Group]:
    def group(label: str, n: int, which: str) -> Group:
        rows = 1 << max(n.bit_length() // 2, 0)
        shape = {None: (n,), 1: (n,)}.get(kernel.rank, (*(1,) * ((kernel.rank or 0) - 2), n // rows, rows))
        return Group(kernel, label, shape, kind, values=which, alias=name)

    kinds = inputs.floating(kernel, kind)
    if not kinds or len(kinds) > 2:
        return []
    bits = 8 * kinds[0].itemsize
    if len(kinds) == 2 and kinds[0] != kinds[1]:
        return [group("hard values of each", 2 << 16, hard_inputs.EACH)]
    if len(kinds) == 2:
        label, n = ("all values", 1 << bits) if bits <= 16 else ("every exponent", min(sample, hard_inputs.EACH_SIZE))
        pairs = group("special pairs", hard_inputs.pairs_size(kinds[0]), hard_inputs.PAIRS)
        return [pairs, group(f"{label} of each", 2 * n, hard_inputs.EACH)]
    if bits <= 16 or (exhaustive and bits == 32):
        return [group("all values", 1 << bits, hard_inputs.EVERY)]
    return [group("every exponent", sample, hard_inputs.SAMPLE)]


def _characters(name: str, kernel: Kernel, kind: DType) -> list[Group]:
    """Groups with inputs of one character each, where some input is free, at the largest of the small shapes."""
    shapes = sorted((shape for shape in (*kernel.edges, *kernel.sizes.values()) if math.prod(shape)), key=math.prod)
    small = [shape for shape in shapes if math.prod(shape) <= characters.LARGEST]
    chosen = characters.chosen(kernel)
    if not small or not chosen or not characters.apply(kernel, small[-1], kind):
        return []
    text = "x".join(map(str, small[-1]))
    return [
        Group(kernel, f"{text}, {which}", small[-1], kind, values=which, awkward=True, alias=name) for which in chosen
    ]


def _misaligned(name: str, kernel: Kernel, kind: DType) -> list[Group]:
    """Groups with arrays off their alignment: all arrays, and each array alone, at the largest of the small shapes.

    Also all arrays at the smallest shape, which may end before the first aligned address, and at the first size, whose
    launch may be another one.
    """
    shapes = sorted((edge for edge in kernel.edges if 0 < math.prod(edge) <= 1 << 16), key=math.prod)
    if not shapes:
        return []
    kinds = kernel.input_kinds(kind)
    own = {name: kernel.kind_of(name, kind).itemsize for name in (*kernel.outs, *kernel.workspace)}
    sizes = {name: kinds[name].itemsize if name in kinds else own[name] for name in kernel.array_names}
    cases = misaligned.offsets({name: max(size, kernel.alignment(name)) for name, size in sizes.items()})
    chosen = [(shapes[0], next(iter(cases)))] if len(shapes) > 1 else []
    first = next(iter(kernel.sizes.values()))
    chosen += [(first, next(iter(cases)))] if 0 < math.prod(first) <= 1 << 20 and first not in shapes else []
    chosen += [(shapes[-1], what) for what in cases]
    return [
        Group(
            kernel, f"{'x'.join(map(str, shape))}, {what}", shape, kind, awkward=True, offsets=cases[what], alias=name
        )
        for shape, what in chosen
    ]


def _with_dtypes(names: Collection[str], text: str, rivals: str) -> Iterator[tuple[str, Kernel, list[DType]]]:
    """Name, kernel and its chosen dtypes, of each kernel that has any of them."""
    kernels = {name: beside(kernel, split(rivals)) for name, kernel in named(names).items()}
    wanted = _dtypes(text)
    some = False
    for name, kernel in kernels.items():
        have = list(wanted) or kernel.dtypes[:1]
        lacking = [d for d in have if wanted.get(d) and d not in kernel.dtypes]
        if lacking and len(kernels) == 1:
            raise unknown(f"dtype of {name}", lacking[0], kernel.dtypes)
        if dtypes := [dtype(d) for d in have if d in kernel.dtypes]:
            some = True
            yield name, kernel, dtypes
    if not some:
        raise InputError(f"none of {', '.join(kernels)} has dtype {text}")


def _dtypes(text: str) -> dict[str, bool]:
    """The dtypes that the words of an option fit; whether one is named itself, and not only fitted by a glob or all."""
    found: dict[str, bool] = {}
    for word in _named("dtypes", text):
        glob = "*" if word == "all" else word
        fitting = fnmatch.filter(DTYPES, glob) if any(c in glob for c in "*?[") else [dtype(word).name]
        if not fitting:
            raise unknown("dtype", word, DTYPES)
        found |= {name: name == word or found.get(name, False) for name in fitting}
    return found


def chosen_modes(text: str) -> tuple[str, ...]:
    """Modes from a comma-separated list; raises NotFound for another word."""
    for mode in split(text):
        if mode not in MODES:
            raise unknown("mode", mode, MODES)
    if not split(text):
        raise InputError(f"no mode given; use {', '.join(MODES)}")
    return split(text)


def modes_for(kind: str) -> tuple[str, ...]:
    """The modes that measure a kind of time; "": the main kind."""
    more = {"graph": "graph", "graph_cold": "graph", "api": "api"}.get(kind)
    return ("launch", more) if more else ("launch",)


def _named(option: str, text: str) -> tuple[str, ...]:
    """The words of an option. Raises InputError if the text has no word, such as a lone comma."""
    words = split(text)
    if text and not words:
        raise InputError(f"{option} is {text!r}, which names nothing; leave it out, or see `cudalab list`")
    return words
