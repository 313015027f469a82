"""Kernels as specs describe them, where a test minds a field or two."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from cudalab import Budget, Kernel, Launch, blocks


def flat(x: Any, y: Any) -> Launch:
    """A launch of a thread an element, with its arrays and their length."""
    return Launch((blocks(x.size, 64),), (64,), (x, y, np.int32(x.size)))


def kernel(folder: Path, name: str = "k", text: str | None = None, **fields: Any) -> Kernel:
    """A copy in float32, of 64 elements and without edges, unless `fields` say more; its `.cu` has this `text`."""
    if text is not None:
        (folder / f"{name}.cu").write_text(text)
    usual = {
        "file": str(folder / f"{name}.py"), "summary": "", "dtypes": ("float32",), "sizes": {"small": (64,)},
        "edges": (), "reference": lambda x: x, "budgets": Budget(0), "entries": {name: flat},
    }  # fmt: skip
    return Kernel(**usual | fields)
