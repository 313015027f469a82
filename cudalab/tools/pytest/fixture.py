"""The fixture `cudalab_time`: `result = cudalab_time("gelu", size="large")`."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from cudalab.base import globs
from cudalab.base.errors import CudalabError, InputError, Unavailable, short, unknown
from cudalab.base.text import visible
from cudalab.engine import plan
from cudalab.engine.groups import Group
from cudalab.engine.selection import Selection
from cudalab.results import record
from cudalab.results.record import KINDS, Results
from cudalab.spec import find, rival
from cudalab.spec.kernel import Kernel
from cudalab.tools.pytest.cases import absent, located
from cudalab.tools.pytest.rivals import Rivals
from cudalab.tools.pytest.rivals import as_text as rivals_text
from cudalab.tools.pytest.timed import Timed
from cudalab.tools.pytest.timings import WALL, Asked, Owner, Timings, failure, main_row

ON_GPU, ON_CPU = "pycuda,torch_eager,rival", "host,numpy,torch_eager,rival"  # the variants, if a test names none
HOST = "host"  # the backend that checks the entries on a CPU
LARGE = "large"  # the size, if a test names none and the spec has it


class TimeFixture:
    """Checks and times a kernel. `extra_info` is a dict of the test; the saved rows carry it as notes."""

    def __init__(
        self, timings: Timings, test: str, folder: Path, need: Callable[[], None], check_only: bool = False
    ) -> None:  # fmt: skip
        """`need` skips the running test where times cannot be taken here; what it asks for is checked before."""
        self.extra_info: dict[str, Any] = {}
        self._need = need
        self._timings, self._folder, self._check_only = timings, folder, check_only
        self._owner = Owner(test, self)
        self._asked: list[Asked] = []

    def __call__(
        self, kernel: str | os.PathLike[str] | Kernel, *arrays: object,
        size: str | int | tuple[int, ...] = "", dtype: str = "", only: str = "",
        skip: str = "", rivals: Rivals = "", mode: str = "", budget: float | None = None, processes: int = 0,
        name: str = "",
    ) -> Timed:  # fmt: skip
        """Check and time variants of a kernel at one size and dtype, as `cudalab bench` does.

        `kernel` is a name of the lab, the path of a spec (relative to the test's file), or a `cudalab.Kernel`. `size`
        is a name of the spec or a shape such as "4096x4096" or (4096, 4096) (default: large, or the spec's last);
        `dtype` defaults to the spec's first. `only` and `skip` are comma-separated globs on `backend` or
        `backend:entry` (default: the entries under PyCUDA, eager PyTorch and rivals). `rivals` are functions to measure
        beside the entries, as `rival:NAME`, whatever `only` says: a dict of functions at the top of a file, or texts as
        `cudalab bench --rival` has them. `mode` is the kind of time that counts: cold (the default), hot, call, graph,
        graph_cold or api; on a CPU wall, the only one there. `budget` is seconds of sampling for each variant (None:
        0.3 on a GPU), `processes` the number of fresh processes (0: 3 to 8 on a GPU). `name` replaces the kernel's name
        in the results.

        Fails the test if an answer is WRONG, a time IMPOSSIBLE, a variant ends in an error, no entry ran, or a row is
        SLOWER than in the baseline. Times of the result are in microseconds.
        """
        __tracebackhide__ = True
        try:
            beside = rivals_text(rivals, self._folder)
            group = self._group(kernel, size, dtype, beside, arrays)
            chosen = {"only": self._variants(globs.joined(only), beside), "skip": globs.joined(skip), "rivals": beside}
            options = {"mode": self._kind(mode), "budget": budget, "processes": processes}
            asked = Asked.of(group, name, **chosen, **options, typed=globs.joined(only))
            if self._check_only:
                self._judge(self._timings.checked(asked), group)
                pytest.skip("right, and not timed: --cudalab-timing check")
            self._need()
            run = self._timings.measured(asked, self._owner)
            self._asked.append(asked)
            self._judge(run, group)
            compared = self._timings.compared(asked, run)
        except Unavailable as error:
            raise _failed(str(error)) if self._timings.device == "cuda" else absent(str(error)) from None
        except CudalabError as error:
            raise _failed(str(error)) from None
        if compared and (worse := self._timings.worse(compared)):
            raise _failed(worse)
        kind, seed = self._timings.kinds[asked.rows], self._timings.seed
        return Timed(run, lambda run: main_row(run, group, kind, seed), kind, absent, self.extra_info, compared)

    def close(self) -> None:
        """Add `extra_info` to the rows of the test."""
        self._timings.note(self._asked, self.extra_info)

    def _group(self, kernel: object, size: object, dtype: str, rivals: str, arrays: tuple[object, ...]) -> Group:
        """The one group that is asked for."""
        if not isinstance(kernel, (str, os.PathLike, Kernel)):
            raise InputError(
                f"cudalab_time got {short(kernel)}; give a kernel: its name in the lab, the path of its spec, or the "
                "Kernel. A function alone has nothing to be checked against: time it beside a kernel, "
                "cudalab_time('softmax.py', rivals={'mine': function}), or use pytest-benchmark"
            )
        if arrays:
            raise InputError(
                f"cudalab_time got {short(arrays[0])} after the kernel; the spec makes the inputs: give size=, dtype="
            )
        path = kernel.file if isinstance(kernel, Kernel) else located(kernel, self._folder)
        spec = find.kernel(path)
        if isinstance(kernel, Kernel) and (field := _differing(kernel, spec)):
            raise InputError(
                f"this {kernel.name} is not the one in {path}: they differ in {field}; write it to its own spec file"
            )
        size = size or (LARGE if LARGE in spec.sizes else list(spec.sizes)[-1])
        text = "x".join(map(str, size)) if isinstance(size, tuple) else str(size)
        groups = plan.groups([path], text, dtype, rivals)
        if len(groups) != 1:
            wanted = "give one size and one dtype; for several use pytest.mark.parametrize"
            raise InputError(f"size={size!r}, dtype={dtype!r} are {len(groups)} cases; {wanted}")
        return groups[0]

    def _kind(self, mode: str) -> str:
        """The kind of time that counts; "": the main one, which is wall time on a CPU. Raises for what there is not."""
        if mode == WALL and self._timings.device == "cuda" and not self._check_only:
            raise InputError(
                "mode is 'wall', the kind of time on a CPU; add --cudalab-device cpu, or give a kind of time on a GPU, "
                "such as cold"
            )
        if mode and mode not in KINDS:
            raise unknown("mode", mode, KINDS)
        return "" if mode == WALL else mode

    def _variants(self, only: str, rivals: str) -> str:
        """`only` with its default, and the rivals that are given. On a CPU the entries are checked in any case."""
        if only:
            only = ",".join((only, *(f"rival:{name}" for name in rival.parsed(globs.split(rivals), find.loaded))))
        if self._timings.device == "cuda" and not self._check_only:
            only = only or ON_GPU
        elif self._check_only:
            only = f"{only or ON_GPU},{HOST}"
        else:
            only = f"{only},{HOST}" if only else ON_CPU
        Selection.parse(only, "")
        return only

    def _judge(self, run: Results, group: Group) -> None:
        """Fail the test for what is wrong, and where no entry ran though some were chosen."""
        __tracebackhide__ = True
        if wrong := failure(run):
            raise _failed(wrong)
        here = [case for case in run.cases if case.variant in group.kernel.entries]
        here = [case for case in here if (case.backend == HOST) == (run.machine.device == "cpu")]
        if here and {case.status for case in here} == {record.SKIPPED}:
            if all(case.not_on_cpu for case in here):  # what is in the .cu is not for a CPU
                raise absent(here[0].reason)
            raise _failed(f"no entry of {group.kernel.cu.name} ran: {here[0].reason}")


def _failed(text: str) -> BaseException:
    """A failure of the test. The text may quote a results file or a compiler."""
    return pytest.fail.Exception(visible(text, keep="\n"), pytrace=False)


def _differing(one: Kernel, other: Kernel) -> str:
    """The first field in which two specs differ, or an empty text. Functions are equal if their code is."""
    names = (field.name for field in dataclasses.fields(one))
    return next((name for name in names if not _equal(getattr(one, name), getattr(other, name, None))), "")


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, FunctionType) and isinstance(other, FunctionType):
        return one.__code__ == other.__code__
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    return bool(one == other) or (callable(one) and type(one) is type(other))
