"""Specs for tests of what a check makes of a spec."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from cudalab import Budget, Kernel, Launch, blocks

POINTWISE = """#include <cuda_fp16.h>
__global__ void k(const {of}* x, scalar_t* y, long long n) {{
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    {body}
}}
"""


def refusals(name: str) -> list[tuple[str, str, str]]:
    """Of each line `fields => what the message holds` of a file of tests/data/specs: the heading above it, and both."""
    found, above = [], ""
    for line in (Path(__file__).parents[1] / "data" / "specs" / name).read_text().splitlines():
        if line.startswith("## "):
            above = line[3:]
        elif not line.startswith("#"):
            found.append((above, *line.split(" => ")))
    return found


def dotted(said: str) -> str:
    """The pattern of a text in which ... stands for anything, and a $ at the end for the end."""
    return re.escape(said.removesuffix("$")).replace(r"\.\.\.", ".*") + "$" * said.endswith("$")


def spec(
    folder: Path, reference: Callable[..., Any] | None = lambda x: x, cu: str | None = None, name: str = "k",
    **fields: Any,
) -> Kernel:  # fmt: skip
    """A spec of float32 and 8 x 40 elements, with these fields in place of its own; `cu`: the text of its `.cu`."""
    if cu is not None:
        (folder / f"{name}.cu").write_text(cu)
    given = {
        "file": str(folder / f"{name}.py"), "summary": name, "dtypes": ("float32",), "sizes": {"small": (8, 40)},
        "edges": ((3, 31),), "reference": reference, "entries": {name: lambda **arrays: None},
        "budgets": Budget(4, 1e-6),
    }  # fmt: skip
    return Kernel(**given | fields)


def pointwise(
    folder: Path, body: str, reference: Callable[..., Any] = lambda x: x + 1, of: str = "scalar_t", **fields: Any
) -> Kernel:
    """A kernel whose thread `i` runs `body` on `x` (of C++'s type `of`), `y` and their length `n`."""

    def launch(x, y):
        return Launch((blocks(y.size, 32),), (32,), (x, y, np.int64(y.size)))

    given = {"sizes": {"small": (70,)}, "edges": (), "entries": {"k": launch}, "budgets": Budget(0.5)}
    return spec(folder, reference, POINTWISE.format(of=of, body=body), **given | fields)


def flat(x: Any, y: Any) -> Launch:
    """A launch of a thread an element, with its arrays and their length."""
    return Launch((blocks(x.size, 64),), (64,), (x, y, np.int32(x.size)))


def kernel(folder: Path, name: str = "k", text: str | None = None, **fields: Any) -> Kernel:
    """A copy of 64 elements without edges, unless `fields` say more; its `.cu` has this `text`."""
    usual = {"sizes": {"small": (64,)}, "edges": (), "budgets": Budget(0), "entries": {name: flat}}
    return spec(folder, cu=text, name=name, **usual | fields)
