"""How much do the numbers in the input change how long a kernel takes?

A benchmark on zeros flatters: the bits on a chip's wires switch less, so a large product draws less power and the clock
stays up. Values can also lead into another branch (erf in its tails), and a CPU may take many times as long for
subnormal numbers. Work that only moves data, such as a copy, does not depend on the values. So the same operations are
timed on five inputs, each long enough that clock and power have settled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cudalab.base import stats
from cudalab.call import kernel as kernels
from cudalab.results.record import Results
from cudalab.study import Study, Variant, Work, says, truth
from cudalab.study.lab import Lab
from cudalab.study.load import Load

SAMPLED = 64  # rows that are compared with float64
ERRORS = {"float32": 1e-5, "bfloat16": 2**-7}  # of the largest value: sums in another order; a last rounding or two
MEANT = {"tails": "GELU's tails"}  # words for a variant whose label says too little
OPERATIONS = ("matmul", "gelu", "F.gelu", "copy")


def random(torch: Any, shape: tuple[int, ...], where: str) -> Any:
    return torch.randn(shape, device=where)


def zeros(torch: Any, shape: tuple[int, ...], where: str) -> Any:
    return torch.zeros(shape, device=where)


def ones(torch: Any, shape: tuple[int, ...], where: str) -> Any:
    return torch.ones(shape, device=where)


def tails(torch: Any, shape: tuple[int, ...], where: str) -> Any:
    """Values of 6 and more, and of -6 and less, where GELU is x or 0; both signs within each warp."""
    x = torch.randn(shape, device=where)
    return x + 6 * x.sign()


def subnormals(torch: Any, shape: tuple[int, ...], where: str) -> Any:
    """Below the smallest normal number of float32 and bfloat16, 1.2e-38. Their products are 0."""
    return (torch.rand(shape, device=where, dtype=torch.float64) * 1e-38 + 1e-40).float()


def operation(lab: Lab, x: Any, out: Any) -> Callable[[], Any]:
    torch = lab.torch()
    kernel = kernels.by_name("gelu")
    return {
        "matmul": lambda: torch.matmul(x, x, out=out),
        "gelu": lambda: kernel(x, out=out),
        "F.gelu": lambda: torch.nn.functional.gelu(x),
        "copy": lambda: out.copy_(x),
    }[lab["operation"]]


def exact(lab: Lab, x: Any) -> Any:
    """The first SAMPLED rows of the result in float64, and of a product as many columns."""
    import torch

    rows = x[:SAMPLED].cpu().double()
    if lab["operation"] == "matmul":
        return rows @ x[:, :SAMPLED].cpu().double()
    if lab["operation"] == "copy":
        return rows
    reference = kernels.by_name("gelu").reference
    assert reference
    return torch.from_numpy(np.asarray(reference(rows.numpy())))


def of(values: Callable[[Any, tuple[int, ...], str], Any]) -> Callable[[Lab], Work]:
    def make(lab: Lab) -> Work:
        torch = lab.torch()
        x = values(torch, lab["shape"], lab.where).to(getattr(torch, lab["dtype"]))
        function = operation(lab, x, torch.full_like(x, torch.nan))
        last: list[Any] = [None]

        def run() -> None:
            last[0] = function()

        def quantities() -> dict[str, float]:
            got = last[0][:SAMPLED, :SAMPLED] if lab["operation"] == "matmul" else last[0][:SAMPLED]
            return {"error_ppm": 1e6 * truth.judged(truth.error(got, exact(lab, x)), ERRORS[lab["dtype"]])}

        load = Load(lab, run)
        clocks = {"busy": lambda: load.sample(lab["load_s"])}
        return Work(run, None, clocks, quantities, afterwards=load.condition)

    return make


def finding(run: Results) -> str:
    """The inputs that are clearly faster or slower than random numbers, and those for which that is not clear."""
    clear, unclear, same = [], [], []
    for size in says.sizes(run):
        others = [c for c in run.cases if c.size == size and c.label != study.baseline]
        known = {f"on {MEANT.get(c.label, c.label)}": r for c in others if (r := says.speedup(run, c))}
        apart = {on: says.in_words(r) for on, r in known.items() if r.verdict() in (stats.FASTER, stats.SLOWER)}
        doubtful = [on for on, r in known.items() if r.verdict() == stats.UNCLEAR]
        clear += [f"{size} is {says.listed(apart)}"] if apart else []
        unclear += [f"{size} {', '.join(doubtful)}"] if doubtful else []
        same += [size] if known and not apart and not doubtful else []
    ends = [f"{verdict}: {', '.join(of)}" for verdict, of in ((stats.UNCLEAR, unclear), (stats.SAME, same)) if of]
    return f"compared with random numbers, {'; '.join(clear + ends)}"


def sizes() -> dict[str, dict[str, Any]]:
    """Sizes of each operation: large enough for a GPU, for a CPU, and tiny."""
    scales = {
        "": ({"shape": (8192, 8192)}, {"shape": (1024 * 3 * 224, 224)}, {"dtype": "bfloat16", "load_s": 0.25}),
        "cpu-": ({"shape": (512, 512)}, {"shape": (8 * 3 * 224, 224)}, {"dtype": "float32", "load_s": 0.1}),
        "tiny-": ({"shape": (64, 64)}, {"shape": (128, 64)}, {"dtype": "float32", "load_s": 0.005}),
    }
    return {
        prefix + name: {"operation": name, **(product if name == "matmul" else pointwise), **rest}
        for prefix, (product, pointwise, rest) in scales.items()
        for name in OPERATIONS
    }


study = Study(
    file=__file__,
    summary="the same operations on random numbers, zeros, ones, tails and subnormals, with clock and power",
    sizes=sizes(),
    defaults={"cuda": OPERATIONS, "cpu": tuple(f"cpu-{name}" for name in OPERATIONS)},
    variants=tuple(Variant(make.__name__, of(make)) for make in (random, zeros, ones, tails, subnormals)),
    baseline="random",
    kinds=("busy",),
    rounds=6,
    finding=finding,
    kernels=("gelu",),
    about="busy: time of a run after that much load of the same kind (load s), without a gap; on a GPU "
    "between events.\n"
    "The inputs differ, so each result is compared with the same operation in float64. error: relative to the "
    "largest value.\n"
    "Clock, power and temperature: medians of NVML's readings during the samples. On a CPU they are not read.\n"
    "gelu: the lab's kernel; on a CPU the same formula in PyTorch. F.gelu: PyTorch's own.",
)
