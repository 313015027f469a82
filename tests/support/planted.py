"""Planted bugs: edits that make kernels of tests/data wrong, in a file NAME.bugs beside NAME.cu and NAME.py.

A bug is a line `== class: what is wrong`, the text to replace, which the `.cu` has once, a line `=>`, and the text in
its place. Lines that begin with `@` may follow the first one:

    @ entry: NAME      the entry of the spec that becomes wrong; the others are left out
    @ only: --huge     the option of `cudalab check` that finds it; or --sanitize
    @ missed: WHY      the check does not find it

The right kernel and its bugs are namespaces of one `.cu`, and their functions are entries of one spec: a check compiles
them once. Includes stand before all namespaces, and macros end with the namespace that defines them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache, wraps
from pathlib import Path
from typing import NamedTuple

from cudalab import Kernel, Launch, host
from cudalab.base.errors import CudalabError
from cudalab.device.cpu import Cpu
from cudalab.engine.check_plan import checks
from cudalab.engine.job import Job
from cudalab.engine.kernel_round import cases
from cudalab.engine.selection import Selection
from cudalab.spec import find

DATA = Path(__file__).parents[1] / "data"
FILES = {f"{file.parent.name}/{file.stem}": file for file in sorted(DATA.glob("*/*.bugs"))}
SAMPLE = 1 << 12  # values of "every exponent"; more of them are tried for the lab's kernels
RIGHT = "right"  # the namespace of the kernel as it is
_TITLE = re.compile(r"^== (?=[a-z ]+: )", re.MULTILINE)
_FIELD = re.compile(r"@ (entry|only|missed): (.*)\n")
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b.*\n", re.MULTILINE)
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)


@dataclass(frozen=True)
class Bug:
    kernel: str  # a key of FILES
    space: str  # the namespace of the copy that has it
    kind: str
    what: str
    old: str
    new: str
    entry: str = ""
    only: str = ""
    missed: str = ""

    def __str__(self) -> str:
        return f"{self.kernel}: {self.kind}: {self.what}"

    @property
    def cu(self) -> str:
        """The text of the `.cu` with this bug."""
        text = FILES[self.kernel].with_suffix(".cu").read_text()
        assert text.count(self.old) == 1, f"{self}: the .cu has the text to replace {text.count(self.old)} times"
        return text.replace(self.old, self.new)


class Found(NamedTuple):
    missed: list[Bug]
    alarms: dict[str, str]  # by entry of the right kernel


def bugs(kernel: str) -> list[Bug]:
    found = []
    for number, part in enumerate(_TITLE.split(FILES[kernel].read_text())[1:], 1):
        title, _, rest = part.partition("\n")
        kind, _, what = title.partition(": ")
        fields = {}
        while field := _FIELD.match(rest):
            fields[field[1]], rest = field[2], rest[field.end() :]
        old, arrow, new = rest.partition("\n=>\n")
        assert arrow, title
        found.append(Bug(kernel, f"bug{number}", kind, what, old, new.removesuffix("\n"), **fields))
    return found


def write(kernel: str, folder: Path, chosen: Iterable[Bug], right: bool = True) -> Path:
    """Write the `.cu` of these bugs of a kernel, and of the right one, and a spec for them; return the spec's path."""
    copies = {RIGHT: FILES[kernel].with_suffix(".cu").read_text()} if right else {}
    entries = dict.fromkeys(copies, "")
    for bug in chosen:
        copies[bug.space], entries[bug.space] = bug.cu, bug.entry
    included = dict.fromkeys(line for text in copies.values() for line in _INCLUDE.findall(text))
    path = folder / f"{FILES[kernel].stem}_planted.py"
    path.with_suffix(".cu").write_text("".join((*included, *(_space(*copy) for copy in copies.items()))))
    path.write_text(
        f"import sys\n\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        f"from planted import spec\n\n{path.stem} = spec({kernel!r}, __file__, {entries})\n"
    )
    return path


def _space(name: str, text: str) -> str:
    code = _INCLUDE.sub("", text).replace('extern "C" __global__', "__global__")
    undefined = "".join(f"#undef {macro}\n" for macro in dict.fromkeys(_MACRO.findall(code)))
    return f"namespace {name} {{\n{code}\n}}\n{undefined}"


def spec(kernel: str, file: str, spaces: dict[str, str]) -> Kernel:
    """The spec of a kernel whose `.cu` has these namespaces: each with all entries, or with the one that is named."""
    plain = find.kernel(str(FILES[kernel].with_suffix(".py")))
    entries = {
        f"{space}::{name}": _within(space, launch)
        for space, only in spaces.items()
        for name, launch in plain.entries.items()
        if only in ("", name)
    }
    constants = {f"{space}::{name}": value for space in spaces for name, value in plain.constants.items()}
    return replace(plain, file=file, entries=entries, constants=constants)


def _within(space: str, launch: Callable[..., Launch]) -> Callable[..., Launch]:
    """A launch function whose steps name functions in a namespace."""

    def moved(step: Launch) -> Launch:
        return replace(step, entry=f"{space}::{step.entry}") if step.entry else step

    @wraps(launch)
    def steps(*arguments, **named):
        found = launch(*arguments, **named)
        return moved(found) if isinstance(found, Launch) else tuple(map(moved, found))

    return steps


def check(path: str | Path, dtypes: str = "", seed: int = 0, huge: bool = False) -> dict[str, str]:
    """By entry, the first fault that `cudalab check --only host` finds, or why it never ran; "" for a right one.

    It runs in this process. An entry with a fault is left out from then on. `dtypes`: as the command has them; "": the
    first one.
    """
    found: dict[str, str] = {}
    wrong: list[str] = []
    work = job(seed=seed)
    for group in checks([str(path)], dtypes, sample=SAMPLE, huge=huge):
        if len(wrong) == len(group.kernel.entries):
            break
        for case in cases(work, group, omit=wrong):
            if case.status in ("WRONG", "error"):
                wrong.append(case.label)
                found[case.variant] = f"{group}: {case.reason}"
            elif case.status == "ok":
                found[case.variant] = ""
            else:
                found.setdefault(case.variant, f"{group}: {case.reason}")
    return found


def job(only: tuple[str, ...] = ("host",), seed: int = 0) -> Job:
    return Job(Cpu(), Selection(only=only), (), seed, 0.01, lambda step: None)


def look(kernel: str, folder: Path, chosen: Iterable[Bug], seed: int = 0) -> Found:
    """Check a kernel and these bugs of it in its first dtype, with --huge where one of them needs it."""
    chosen = list(chosen)
    found = check(write(kernel, folder, chosen), seed=seed, huge=any(bug.only == "--huge" for bug in chosen))
    wrong = {entry.partition("::")[0] for entry, fault in found.items() if fault}
    return Found(
        [bug for bug in chosen if bug.space not in wrong],
        {entry: fault for entry, fault in found.items() if fault and entry.startswith(f"{RIGHT}::")},
    )


@cache
def finds_races() -> bool:
    """Whether this machine's compiler makes modules that look at each access."""
    try:
        host.load("__global__ void k(float* y) { y[threadIdx.x] = 1; }", races=True)
    except CudalabError:
        return False
    return True
