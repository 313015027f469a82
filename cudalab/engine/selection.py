"""Which variants of a group take part: the words of `--only` and `--skip`."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from cudalab import backends
from cudalab.base.errors import InputError, unknown
from cudalab.base.globs import fits, halves, match, words_of
from cudalab.engine.messages import Sent, Task
from cudalab.results.record import OLD
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Shape


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

    @property
    def timed(self) -> bool:
        """Whether times are taken of it in a run that takes times."""

    def variants(self) -> Iterable[W_co]: ...

    def task(self, omit: tuple[str, ...] = (), timed: bool = True) -> Task:
        """What makes a worker return the cases. `omit`: labels of variants to leave out; not `timed`: check only."""

    def sent(self) -> Sent:
        """The same group for a session in another process."""


class NothingLeft(InputError):
    """--only and --skip leave no variant to run."""


@dataclass(frozen=True)
class Selection:
    """Which variants take part: globs on `backend`, `entry` or `backend:entry`, or on the labels of a study."""

    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()

    @classmethod
    def of(cls, only: str, skip: str) -> Selection:
        """From comma-separated globs; `check` refuses those that fit nothing."""
        return cls(words_of("only", only), words_of("skip", skip))

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

    @property
    def backends_of_only(self) -> set[str]:
        """The backends that the words of `only` name, without a pattern."""
        return {halves(word)[0] or word for word in self.only}

    def about(self, group: Rows[Way]) -> Selection:
        """This selection without the globs that fit no variant of `group`: they are about the groups beside it."""
        labels = [_chosen_as(variant) for variant in group.variants()]
        only, skip = (
            [g for g in some if any(fits(label, (g,)) for label in labels)] for some in (self.only, self.skip)
        )
        return Selection(tuple(only), tuple(skip))

    def check(self, groups: Collection[Rows[Way]]) -> None:
        """Raise NotFound for a glob that fits no variant of these groups, InputError if they leave none."""
        every = {_chosen_as(v): v for group in groups for v in Selection().variants(group)}
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
            raise NothingLeft("no variant is left to run; check --only and --skip against `cudalab list`")

    def _takes(self, variant: Way) -> bool:
        label = _chosen_as(variant)
        return (not self.only or fits(label, self.only)) and not fits(label, self.skip)


def _chosen_as(variant: Way) -> str:
    """The label that globs are compared with: an entry of an earlier `.cu` is chosen with the present one."""
    return variant.label.removesuffix(OLD)
