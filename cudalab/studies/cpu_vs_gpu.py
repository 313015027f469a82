"""How much faster does a GPU multiply matrices than a CPU, once the first call and the way there and back are counted?

After an article on PyTorch on a GPU, which timed three products of 15,360 x 15,360 matrices in a row. This study
measures apart what the article mixes: the first call, which loads a library; TF32, which is not float32; and the
transfers, whose speed depends on whether the host's memory is pinned.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple

from cudalab.results.record import Results
from cudalab.study import Published, Study, Variant, Work, says, truth
from cudalab.study.lab import Lab

ARTICLE = 15360
PUBLISHED_CPU = 296.9  # seconds
EXTRAPOLATED = "extrapolated_15360_s"
PAGEABLE, PINNED = "gpu-with-transfers", "gpu-with-pinned"
CALLS = ("first_call_s", "second_call_s", "third_call_s")
LEAST = 1024  # of n: smaller products are mostly overhead, so their times cannot be extrapolated
SAMPLED = 64  # rows and columns of a product that are compared
FP32 = 1e-5  # sums of 15,360 products in another order differ by a few 1e-7 of the largest sum
TF32 = 2**-9  # TF32 has 10 bits of fraction: the error bound of one product; sums are closer
NO_GPU = "needs a GPU beside the CPU"
WITH_CPU = ("reduced", "full-cpu", "tiny")


class Matrices(NamedTuple):
    """Factors and the memory for their product. In host memory there are two: pageable and pinned."""

    a: Any
    b: Any
    c: Any


def make_inputs(lab: Lab) -> Matrices:
    """The arrays where the study runs: on the GPU, or in host memory on a CPU."""
    torch, n = lab.torch(), lab["n"]

    def make_matrices() -> Matrices:
        return Matrices(torch.randn(n, n, device=lab.where), torch.randn(n, n, device=lab.where), None)

    return lab.once("here", make_matrices)


def on_host(lab: Lab, pinned: bool = False) -> Matrices:
    torch, here = lab.torch(), make_inputs(lab)

    def make_matrices() -> Matrices:
        places = Matrices(*(torch.full((lab["n"],) * 2, torch.nan, pin_memory=pinned) for _ in "abc"))
        places.a.copy_(here.a)
        places.b.copy_(here.b)
        return places

    return lab.once(("host", pinned), make_matrices) if lab.cuda else here


def multiplied(a: Any, b: Any, tf32: bool = False) -> Any:
    """The product. torch has one precision for the whole process, so each product sets it."""
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    try:
        return a @ b
    finally:
        torch.set_float32_matmul_precision(before)


def sampled(product: Any) -> Any:
    return product[:SAMPLED, :SAMPLED]


def compared(product: Any) -> Any:
    """What is compared: a part, and the sum of each column. All of the largest product would be 2 GB in float64."""
    import torch

    return sampled(product), product.sum(0, dtype=torch.float64)


def off(lab: Lab, product: Any, tolerance: float) -> float:
    """Return the error of a product against float64."""

    def exact() -> Any:
        a, b, _ = make_inputs(lab)
        return a[:SAMPLED].cpu().double() @ b[:, :SAMPLED].cpu().double()

    return truth.judged(truth.error(sampled(product), lab.once("float64", exact)), tolerance)


def calls(lab: Lab, run: Callable[[], object]) -> dict[str, float]:
    """Seconds of the first three calls, each followed by a synchronization, as in the article."""
    taken = {}
    for name in CALLS:
        lab.tick(name.removesuffix("_s").replace("_", " "))
        lab.synchronize()
        start = perf_counter()
        run()
        lab.synchronize()
        taken[name] = perf_counter() - start
    return taken


def product_of(multiply: Callable[[Lab], Callable[[], Any]], tolerance: float = FP32) -> Callable[[Lab], Work]:
    """A variant whose run gives a product."""

    def make(lab: Lab) -> Work:
        lab.torch()
        function, last = multiply(lab), [None]

        def run() -> None:
            last[0] = function()

        taken = calls(lab, run)
        return Work(
            run, lambda: compared(last[0]), quantities=lambda: taken | {"error_ppm": 1e6 * off(lab, last[0], tolerance)}
        )

    return make


def on_gpu(tf32: bool) -> Callable[[Lab], Callable[[], Any]]:
    def multiply(lab: Lab) -> Callable[[], Any]:
        a, b, _ = make_inputs(lab)
        return lambda: multiplied(a, b, tf32)

    return multiply


def there_and_back(pinned: bool) -> Callable[[Lab], Callable[[], Any]]:
    """Copy both factors to the GPU, multiply, and copy the product to the host."""

    def multiply(lab: Lab) -> Callable[[], Any]:
        host = on_host(lab, pinned)

        def moved() -> Any:
            a, b = (matrix.to(lab.where, non_blocking=pinned) for matrix in (host.a, host.b))
            return host.c.copy_(multiplied(a, b), non_blocking=pinned)

        return moved

    return multiply


def on_cpu(lab: Lab) -> Work:
    a, b, _ = on_host(lab)
    work = product_of(lambda lab: lambda: multiplied(a, b))(lab)
    measured = work.quantities()
    if LEAST <= lab["n"] < ARTICLE:
        growth = (ARTICLE / lab["n"]) ** 3
        measured = {**measured, EXTRAPOLATED: growth * measured["third_call_s"]}
        work.notes.append(f"extrapolated 15360: not measured; third call's time x (15360/{lab['n']})^3 = {growth:g}")
    return Work(work.run, work.result if lab.cuda else None, quantities=lambda: measured, notes=work.notes)


def there(pinned: bool) -> Callable[[Lab], Work]:
    def make(lab: Lab) -> Work:
        torch, host = lab.torch(), on_host(lab, pinned)
        places = [torch.full_like(matrix, torch.nan, device=lab.where) for matrix in (host.a, host.b)]

        def run() -> None:
            for place, matrix in zip(places, (host.a, host.b), strict=True):
                place.copy_(matrix, non_blocking=pinned)

        return Work(run, lambda: compared(multiplied(*places)), quantities=lambda: moved(lab, 2))

    return make


def back(pinned: bool) -> Callable[[Lab], Work]:
    def make(lab: Lab) -> Work:
        host, product = on_host(lab, pinned), multiplied(*make_inputs(lab)[:2])
        host.c.fill_(float("nan"))  # of another variant
        run = lambda: host.c.copy_(product, non_blocking=pinned)  # noqa: E731
        return Work(run, lambda: compared(host.c), quantities=lambda: moved(lab, 1))

    return make


def moved(lab: Lab, matrices: int) -> dict[str, float]:
    return {"moved_bytes": 4.0 * matrices * lab["n"] ** 2}


def finding(run: Results) -> str:
    """Compare the CPU at the size that it ran at with the GPU at its first size: the article's, if it was run."""
    timed = [(size, label) for size in says.sizes(run) for label in ("cpu", "gpu-fp32") if _timed(run, size, label)]
    parts = []
    if at := next((size for size, label in timed if label == "cpu"), ""):
        said = f"a product of two {_extent(at)} matrices takes the CPU {says.took(run, at, 'cpu')}"
        if (at, "gpu-fp32") in timed:
            said += f" and the GPU {says.took(run, at, 'gpu-fp32')}, {says.ratio(run, at, 'gpu-fp32', 'cpu')} as fast"
        if seconds := says.counted(run, at, "cpu", EXTRAPOLATED):
            grown = f"15,360 would take the CPU {seconds:.0f} s if time grew as n^3"
            said += f" (extrapolated from its third call, not measured: {grown})"
        parts.append(said)
    if at := next((size for size, label in timed if label == "gpu-fp32"), ""):
        parts.append(
            f"a product of two {_extent(at)} matrices takes the GPU {says.took(run, at, 'gpu-fp32')} in float32; it is "
            f"{says.factor(run, at, 'gpu-tf32')} as fast in TF32, {says.factor(run, at, PAGEABLE)} in float32 with "
            f"copies to the GPU and back, {says.factor(run, at, PINNED)} with these copies in pinned memory"
        )
    return "; ".join(parts)


def _extent(size: str) -> str:
    n = study.sizes.get(size, {}).get("n")
    return f"{n:,} x {n:,}" if n else size


def _timed(run: Results, size: str, label: str) -> bool:
    case = says.case(run, size, label)
    return case is not None and bool(case.times)


study = Study(
    file=__file__,
    summary="a large float32 product on CPU and GPU: first calls, TF32, transfers with and without pinned memory",
    sizes={"full": {"n": ARTICLE}, "reduced": {"n": 3072}, "full-cpu": {"n": ARTICLE}, "tiny": {"n": 64}},
    defaults={"cuda": ("full", "reduced"), "cpu": ("reduced",)},  # the article's first: its first call is the process's
    variants=(
        Variant("gpu-fp32", product_of(on_gpu(tf32=False)), ("cuda",), NO_GPU),
        Variant("gpu-tf32", product_of(on_gpu(tf32=True), TF32), ("cuda",), NO_GPU, tolerance=TF32),
        Variant("cpu", on_cpu, sizes=WITH_CPU),
        Variant(PAGEABLE, product_of(there_and_back(pinned=False)), ("cuda",), NO_GPU),
        Variant(PINNED, product_of(there_and_back(pinned=True)), ("cuda",), NO_GPU),
        Variant("h2d-pageable", there(pinned=False), ("cuda",), NO_GPU),
        Variant("h2d-pinned", there(pinned=True), ("cuda",), NO_GPU),
        Variant("d2h-pageable", back(pinned=False), ("cuda",), NO_GPU),
        Variant("d2h-pinned", back(pinned=True), ("cuda",), NO_GPU),
    ),
    baseline="gpu-fp32",
    tolerance=FP32,
    rounds=8,
    finding=finding,
    published=(
        Published(
            "an article on PyTorch on a GPU",
            "card and versions not stated",
            {("full", "gpu-fp32"): 0.457, ("full-cpu", "gpu-fp32"): 0.457, ("full-cpu", "cpu"): PUBLISHED_CPU},
            "its GPU time is that of the third call, after 0.554 s for the first and 0.466 s for the second, each "
            "taken once; here the first three calls stand apart",
        ),
    ),
    about="first, second, third call: timed once each, before any other call of the variant. The first call of the "
    "process loads cuBLAS; it is that of gpu-fp32 in the first table.\n"
    "error: against float64, of a 64 x 64 part, relative to its largest value.\n"
    "h2d copies both factors to the GPU, d2h copies the product to the host. full-cpu takes minutes.\n"
    f"The article's CPU took {PUBLISHED_CPU} s for 15,360.",
)
