"""What a run of kernels is made of: groups of cases, and the variants of each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import cast

import msgspec

from cudalab import backends
from cudalab.backends import Backend
from cudalab.base.errors import message_of
from cudalab.checks import characters, counters, hard_inputs, inputs, thresholds
from cudalab.engine.messages import Sent, Task
from cudalab.results.record import ENTRIES, OLD
from cudalab.spec import find, imported, rival
from cudalab.spec.dtype import DType, dtype
from cudalab.spec.inputs import CHARACTERS
from cudalab.spec.kernel import Arrays, Kernel, Shape, labelled

Form = tuple[str, Mapping[str, int]]  # an entry, and the values of all of its kernel's tunables

MANY = "many blocks"  # the `values` of a group whose grid has many blocks (checks/many_blocks.py)
SAME = "same"  # the `values` of a group whose inputs are one value throughout (checks/counters.py)
HUGE = "huge"  # the `values` of a group whose arrays are reserved and not made (engine/huge.py)


@dataclass(frozen=True)
class Group:
    """Cases that share their arrays and their rounds: one kernel at one size and dtype."""

    kernel: Kernel
    size: str
    shape: Shape
    dtype: DType
    values: str = ""  # which of checks.hard_inputs or CHARACTERS the inputs are; "" or MANY: those that the spec makes
    awkward: bool = False  # only for variants that compute their own indices
    offsets: tuple[int, ...] = ()  # bytes from the usual alignment to the start of each input, then of the output
    alias: str = ""  # the kernel's name in the results, where two kernels of a run share theirs
    forms: tuple[Form, ...] = ()  # entries with launch parameters that replace the kernel's usual variants
    rivals: tuple[str, ...] = ()  # those that the command line added to the kernel's own, as `rival.parsed` reads them
    scalars: tuple[tuple[str, int], ...] = ()  # lengths that the kernel has in place of the spec's, by name
    why: tuple[tuple[str, str], ...] = ()  # variants by name with the reason why they are skipped; no others run
    old: str = ""  # path of an earlier `.cu` (engine/against.py), whose entries are variants too
    fit: float = 0.0  # the share of the memory that it is to fill: engine/fit.py chooses its shape
    fitted: str = ""  # what there is to say of the shape that was chosen
    timed: bool = True  # False: it is only checked

    @property
    def name(self) -> str:
        return self.alias or self.kernel.name

    @property
    def files(self) -> dict[str, Path]:
        """The `.cu`, the spec, what it imports and its forms, by the names under which results keep their digests."""
        found = {f"{self.name}.cu": self.kernel.cu, f"{self.name}.py": Path(self.kernel.file)}
        found |= {f"{self.name}.import.{m}.py": file for m, file in imported.files(Path(self.kernel.file)).items()}
        rivals = {name: rival.rival_of(one).file for name, one in self.kernel.rivals.items()}
        found |= {f"{self.name}.rival.{name}.py": file for name, file in rivals.items() if file}
        found |= {f"{self.name}.old.cu": Path(self.old)} if self.old else {}
        return found | {f"{self.name}.{form}.py": file for form, file in self.kernel.form_files.items()}

    def variants(self) -> Iterator[Variant]:
        """Yield every variant on every device, in the order of the backends."""
        for name, backend in backends.by_name().items():
            if backend.own_indexing or not self.awkward:
                yield from _made(name, backend, self)

    @property
    def file(self) -> str:
        """Return the path of the spec."""
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
            drawn = hard_inputs.sample(self._kinds[0], math.prod(self.shape), seed).reshape(self.shape)
            return thresholds.placed(self.kernel, self.dtype, self._kinds, {names[0]: drawn})
        if self.values == hard_inputs.PAIRS:
            found = (hard_inputs.pairs(kind, i, seed) for i, kind in enumerate(self._kinds))
            return {name: array.reshape(self.shape) for name, array in zip(names, found, strict=True)}
        if self.values == hard_inputs.EACH:
            n = math.prod(self.shape) // len(names)
            found = (hard_inputs.each(kind, n, len(names), i, seed) for i, kind in enumerate(self._kinds))
            arrays = {name: array.reshape(self.shape) for name, array in zip(names, found, strict=True)}
            return thresholds.placed(self.kernel, self.dtype, self._kinds, arrays)
        if self.values in CHARACTERS:
            return characters.arrays(self.kernel, self.shape, self.dtype, self.values, seed)
        if self.values == SAME:
            return counters.arrays(self.kernel, self.shape, self.dtype, seed)
        return self.kernel.make(self.shape, self.dtype, seed)

    def _cut(self, parts: int) -> Shape:
        return (*self.shape[:-1], self.shape[-1] // parts)

    def task(self, omit: tuple[str, ...] = (), timed: bool = True) -> Task:
        """Implements `Rows.task`."""
        return Task.of("cudalab.engine.worker:cases", Work.on(self, omit, timed), self.files)

    def sent(self) -> Sent:
        """Implements `Rows.sent`."""
        return Sent.of("cudalab.engine.groups:received", Work.on(self))

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
    why: tuple[tuple[str, str], ...] = ()
    scalars: tuple[tuple[str, int], ...] = ()
    old: str = ""

    @classmethod
    def on(cls, group: Group, omit: tuple[str, ...] = (), timed: bool = True) -> Work:
        return cls(
            group.kernel.file, group.size, group.shape, group.dtype.name, group.values, group.awkward, group.offsets,
            group.name, group.forms, group.rivals, _fixed(group.kernel), omit, timed and group.timed,
            group.why, group.scalars, group.old,
        )  # fmt: skip

    def group(self) -> Group:
        kernel = find.kernel(self.kernel)
        kernel = kernel.with_parameters(self.parameters) if self.parameters else kernel
        kernel = kernel.at_lengths(dict(self.scalars), self.size, self.shape) if self.scalars else kernel
        return Group(
            beside(kernel, self.rivals), self.size, self.shape, dtype(self.dtype), self.values, self.awkward,
            self.offsets, self.alias, self.forms, self.rivals, self.scalars, self.why, self.old, timed=self.timed,
        )  # fmt: skip


def received(payload: msgspec.Raw) -> Group:
    """The group of `Group.sent`."""
    return msgspec.json.decode(payload, type=Work).group()


def _fixed(kernel: Kernel) -> dict[str, int]:
    return kernel.parameters if all(len(values) == 1 for values in kernel.tunables.values()) else {}


def beside(kernel: Kernel, rivals: tuple[str, ...]) -> Kernel:
    """The kernel with the rivals that the command line gives beside its own. Raises InputError."""
    return replace(kernel, rivals={**kernel.rivals, **rival.parsed(rivals, find.loaded)}) if rivals else kernel


@dataclass(frozen=True)
class Variant:
    """One form of a kernel under one backend: a row of the results."""

    backend_name: str
    backend: Backend
    name: str  # of the entry, where the backend has several
    devices: tuple[str, ...]
    parameters: Mapping[str, int] | None = None  # None: those tuned for this GPU, or the default
    old: bool = False  # whether it is an entry of the group's earlier `.cu`

    why = ""  # see `Way`

    @property
    def label(self) -> str:
        name = labelled(self.name, self.parameters) + (OLD if self.old else "")
        return f"{self.backend_name}:{name}" if name else self.backend_name


def _made(name: str, backend: Backend, group: Group) -> Iterator[Variant]:
    def variant_of(variant: str, values: Mapping[str, int] | None = None, old: bool = False) -> Variant:
        only_on = getattr(backend, "only_on", lambda kernel, variant: backend.devices)
        return Variant(name, backend, variant, only_on(group.kernel, variant), values, old)

    variants: tuple[str, ...] = ("",)
    try:
        variants = backend.variants(group.kernel)
    except Exception as error:  # of another package
        backend = cast("Backend", backends.Broken(f"the backend {name} cannot say its variants: {message_of(error)}"))
    if group.forms:
        yield from (variant_of(entry, values) for entry, values in group.forms if entry in variants)
    else:
        for variant in variants:
            yield variant_of(variant)
            if group.old and name in ENTRIES:
                yield variant_of(variant, old=True)
