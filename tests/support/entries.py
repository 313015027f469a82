"""Entries of the lab's kernels on the CPU, with the inputs and launches of a test's choice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from cudalab import Budget, Launch, host
from cudalab.checks.expected import Expected
from cudalab.checks.parity import compare_all
from cudalab.device.cpu import Cpu
from cudalab.device.operands import pieces
from cudalab.spec import cuda_source
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Kernel


def loaded(kernel: Kernel, of: DType) -> host.Module:
    """The `.cu`, compiled for the host and one dtype."""
    return host.load(
        cuda_source.read(kernel.cu), name=kernel.cu.name, defines=kernel.macros(of), include=kernel.cu.parent
    )


def outputs(
    kernel: Kernel, entry: str, of: DType, arrays: Mapping[str, np.ndarray],
    change: Callable[[Launch], Launch] = lambda launch: launch, **scalars: Any,
) -> dict[str, np.ndarray]:  # fmt: skip
    """All outputs of an entry, by name. `change` gets each launch and returns the one to run."""
    operands = Cpu().place(kernel, of, dict(arrays))
    module = loaded(kernel, of)
    for launch in map(change, kernel.launches(entry, {**operands.by_name(kernel), **scalars})):
        module.launch(launch.entry, *launch.dims, launch.args, launch.shared, cluster=launch.cluster)
    return dict(zip(kernel.outs, pieces(operands.output), strict=True))


def judged(
    kernel: Kernel, entry: str, of: DType, arrays: Mapping[str, np.ndarray],
    change: Callable[[Launch], Launch] = lambda launch: launch, ulp: float | None = None,
) -> None:  # fmt: skip
    """Fail if an output is not within its budget, or differs by more than `ulp`."""
    got = list(outputs(kernel, entry, of, arrays, change).values())
    with np.errstate(all="ignore"):
        wanted = Expected(kernel, arrays)
    budgets = {name: kernel.budget(of, output=name) if ulp is None else Budget(ulp) for name in kernel.outs}
    parity = compare_all(kernel, of, budgets, got, wanted, dict(arrays))
    assert parity.ok, f"{entry}: {parity.message}"
