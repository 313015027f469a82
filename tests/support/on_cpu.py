"""Sources and launches of the CPU executor as its tests write them: dimensions as numbers, arrays one after another."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from tables import entries

from cudalab import host
from cudalab.base.errors import LaunchError, Unavailable
from cudalab.host.isolated import Isolated

DATA = Path(__file__).parents[1] / "data"
ORDERS = ("alternating", "forward", "reverse", 0, 1)
Dims = int | tuple[int, ...]


def source(name: str) -> str:
    """The text of a file of tests/data/host."""
    return (DATA / "host" / name).read_text()


def watched(text: str, name: str = "k.cu") -> host.Module:
    """The module that looks for races; without g++ the test is skipped."""
    try:
        return host.load(text, name=name, races=True)
    except Unavailable as reason:
        pytest.skip(str(reason))


class Mistake(NamedTuple):
    """What somebody writes in an entry in the place of something else."""

    name: str  # of the copy of the entry that has it
    entry: str
    says: str  # what is said of it, if not that the result is wrong
    right: str
    wrong: str

    def __str__(self) -> str:
        return f"{self.entry}: {self.right} {self.wrong}"


def mistakes(cu: Path) -> list[Mistake]:
    """Those of a file NAME.mistakes beside NAME.cu."""
    text = cu.with_suffix(".mistakes").read_text()
    found = entries(r"^== (\w+)(?:: (.*))?\n((?:.|\n)*?)\n=>\n((?:.|\n)*?)(?=^== |\Z)", text)
    return [Mistake(f"bug_{i}", *parts, wrong.removesuffix("\n")) for i, (*parts, wrong) in enumerate(found)]


def mistaken(cu: Path) -> host.Module:
    """Copies of a file's entries with a mistake each, in one file: each compilation takes a second."""
    made = [text := cu.read_text()]
    for one in mistakes(cu):
        (body,) = re.findall(rf"^__global__ void [^;{{]*?\b{one.entry}\((?:.|\n)*?^\}}\n", text, re.MULTILINE)
        assert one.right in body, one
        made.append(body.replace(f" {one.entry}(", f" {one.name}(").replace(one.right, one.wrong, 1))
    return host.load("".join(made), name="bugs.cu")


def dims(n: Dims) -> tuple[int, int, int]:
    x, y, z = (*(n if isinstance(n, tuple) else (n,)), 1, 1)[:3]
    return x, y, z


def run(module: host.Module | Isolated, entry: str, grid: Dims, block: Dims, *args: Any, **how: Any) -> Any:
    """Launch an entry and return its first argument, which it may have written; `how`: shared, order and the like."""
    module.launch(entry, dims(grid), dims(block), list(args), **how)
    return args[0] if args else None


def error_of(module: host.Module, entry: str, grid: Dims, block: Dims, *args: Any, **how: Any) -> str:
    """What the launch says against itself; "" if nothing."""
    try:
        run(module, entry, grid, block, *args, **how)
    except LaunchError as error:
        return str(error)
    return ""


def aligned(x: np.ndarray) -> np.ndarray:
    """A copy that starts at a multiple of 32 bytes."""
    memory = np.zeros(x.nbytes + 32, np.uint8)
    found = memory[-memory.ctypes.data % 32 :][: x.nbytes].view(x.dtype).reshape(x.shape)
    found[...] = x
    return found
