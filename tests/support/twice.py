"""A kernel of a user's own, which doubles: its spec and its `.cu`, to be written with changes."""

from __future__ import annotations

from pathlib import Path

SPEC = """
import numpy as np
from cudalab.spec import Budget, Kernel, Launch, blocks

twice = Kernel(
    file=__file__,
    summary="y = 2 x",
    dtypes=("float32",),
    sizes={"small": (1000,), "large": (2000,)},
    edges=((1,), (129,)),
    reference=lambda x: 2 * x,
    entries={"twice": lambda x, y: Launch((blocks(x.size, 128),), (128,), (x, y, np.int32(x.size)))},
    budgets={"float32": Budget(0.5, why="exact")},
    pointwise=True,
)
"""
SOURCE = """__global__ void twice(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
"""


def written(folder: Path, spec: str = SPEC, source: str = SOURCE) -> Path:
    """Write both files to a folder, which is made; returns the path of the spec."""
    folder.mkdir(exist_ok=True)
    (folder / "twice.cu").write_text(source)
    (folder / "twice.py").write_text(spec)
    return folder / "twice.py"
