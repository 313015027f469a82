"""From words to work: which kernels, sizes, dtypes and variants a run is to measure."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from cudalab import registry, sizes
from cudalab.backends import Backend
from cudalab.check import every_pattern
from cudalab.dtypes import DType, dtype
from cudalab.errors import InputError, unknown
from cudalab.spec import Arrays, Kernel, Shape

MODES = ("launch", "graph")


@dataclass(frozen=True)
class Group:
    """Cases that share their arrays and their rounds: one kernel at one size and dtype."""

    kernel: Kernel
    size: str
    shape: Shape
    dtype: DType
    patterns: bool = False  # the input is every value of a 16-bit dtype
    awkward: bool = False  # of interest to variants that compute their own indices

    def arrays(self, seed: int) -> Arrays:
        """The inputs, by name; the same for the same seed."""
        if self.patterns:
            return {self.kernel.input_names[0]: every_pattern(self.dtype)}
        return self.kernel.make(self.shape, self.dtype, seed)

    def __str__(self) -> str:
        return f"{self.kernel.name} {self.size} {self.dtype.name}"


@dataclass(frozen=True)
class Variant:
    """What one backend makes of a kernel."""

    backend_name: str
    backend: Backend
    name: str  # an entry's, where the backend has several

    @property
    def label(self) -> str:
        return f"{self.backend_name}:{self.name}" if self.name else self.backend_name


@dataclass(frozen=True)
class Selection:
    """Which variants take part: globs on `backend` or `backend:variant`."""

    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()

    @classmethod
    def parse(cls, only: str, skip: str) -> Selection:
        """From comma-separated globs; raises NotFound for one that fits no backend."""
        for pattern in (*split(only), *split(skip)):
            if not fnmatch.filter(registry.backends(), pattern.partition(":")[0]):
                raise unknown("backend", pattern, registry.backends())
        return cls(split(only), split(skip))

    def variants(self, group: Group, device: str) -> Iterator[Variant]:
        """The chosen variants for `group` on a kind of device, in the order of the backends."""
        for name, backend in registry.backends().items():
            if device in backend.devices and (backend.own_indexing or not group.awkward):
                found = (Variant(name, backend, v) for v in backend.variants(group.kernel))
                yield from (v for v in found if self._takes(v))

    def _takes(self, variant: Variant) -> bool:
        def fits(patterns: tuple[str, ...]) -> bool:
            return any(fnmatch.fnmatchcase(n, p) for n in (variant.backend_name, variant.label) for p in patterns)

        return (not self.only or fits(self.only)) and not fits(self.skip)


def groups(names: Collection[str], size_text: str, dtype_text: str) -> list[Group]:
    """Every (kernel, size, dtype) that is asked for, kernel by kernel.

    `names` may be empty (all of the lab's); `dtype_text` is a comma-separated list, "all", or empty for each
    kernel's first. Raises for a size or dtype that the kernels do not have.
    """
    kernels = [registry.kernel(n) for n in names] or list(registry.kernels().values())
    wanted = tuple(dtype(n).name for n in split(dtype_text)) if dtype_text != "all" else ()
    found: list[Group] = []
    for kernel in kernels:
        shapes = sizes.parse(size_text, kernel.sizes)
        for shape in shapes.values():
            kernel.accepts(shape)
        have = kernel.dtypes if dtype_text == "all" else wanted or kernel.dtypes[:1]
        lacking = [d for d in have if d not in kernel.dtypes]
        if lacking and len(kernels) == 1:
            raise unknown(f"dtype of {kernel.name}", lacking[0], kernel.dtypes)
        found += [
            Group(kernel, label, shape, dtype(d)) for label, shape in shapes.items() for d in have if d in kernel.dtypes
        ]
    if not found:
        raise InputError(f"none of {', '.join(k.name for k in kernels)} has dtype {dtype_text}")
    return found


def checks(names: Collection[str], dtype_text: str) -> list[Group]:
    """What a check without sizes looks at: the smallest size, every value of 16-bit types, the awkward shapes."""
    found: list[Group] = []
    for kernel in [registry.kernel(n) for n in names] or list(registry.kernels().values()):
        first = next(iter(kernel.sizes))
        for group in groups([kernel.file], first, dtype_text):
            unary = kernel.pointwise and len(kernel.input_names) == 1
            if unary and group.dtype.floating and group.dtype.itemsize == 2:
                found.append(Group(kernel, "all values", (1 << 16,), group.dtype, patterns=True))
            shapes = {"x".join(map(str, s)): s for s in kernel.edges}
            found.append(group)
            found += [Group(kernel, label, s, group.dtype, awkward=True) for label, s in shapes.items()]
    return found


def chosen_modes(text: str) -> tuple[str, ...]:
    """Modes from a comma-separated list; raises NotFound for another word."""
    for mode in split(text):
        if mode not in MODES:
            raise unknown("mode", mode, MODES)
    if not split(text):
        raise InputError(f"no mode given; use {', '.join(MODES)}")
    return split(text)


def split(text: str) -> tuple[str, ...]:
    """The words of a comma-separated list."""
    return tuple(word.strip() for word in text.split(",") if word.strip())
