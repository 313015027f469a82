"""Tests the timing engine on this machine's GPU and writes the results: python bench/prove.py FILE.json

- A/A: 100 comparisons of a kernel with itself, at small and at large: verdicts and largest deviation.
- cost: seconds and host memory of a case, for sizes 2^16 to 2^28.
- order: cold medians in shuffled and in blocked order.
- flush: cold medians by flush method. NVBench writes as many bytes as L2 has, and waits. The lab writes twice as
  many, reads them, and does not wait. Dirty lines left in L2 add to the next kernel's time; so may the GPU's
  prefetch from its queue.
"""

from __future__ import annotations

import json
import resource
import sys
from collections import Counter
from collections.abc import Callable
from time import perf_counter
from typing import Any

from cudalab import backends, timing
from cudalab.base import stats
from cudalab.device import driver as libcuda
from cudalab.device.open import open_device
from cudalab.engine import plan
from cudalab.engine.group import cases as cases_of
from cudalab.engine.job import Job
from cudalab.timing import rounds
from cudalab.timing.gpu import timer_of

COMPARISONS = 100


def same_with_itself(device: Any, size: str) -> dict[str, Any]:
    """Verdicts of gelu_vec against itself, cold, as two variants in the same rounds."""
    (group,) = plan.groups(["gelu"], size, "float32")
    operands = device.place(group.kernel, group.dtype, group.arrays(0))
    bound = backends.by_name()["pycuda"].bind(group.kernel, "gelu_vec", group.dtype, operands)
    ratios = []
    for seed in range(COMPARISONS):
        clocks = {name: {"cold": timing.clocks(device, bound, ("launch",), [])["cold"]} for name in "ab"}
        taken = rounds.take(clocks, seed, budget=0.5)
        ratios.append(stats.speedup(taken["a"].rounds["cold"], taken["b"].rounds["cold"], seed))
    device.release()
    return {
        "verdicts": dict(Counter(r.verdict() for r in ratios)),
        "largest deviation": max(abs(r.value - 1) for r in ratios),
        "widest interval": max(r.high - r.low for r in ratios),
        "ratios": [[round(v, 5) for v in (r.value, r.low, r.high)] for r in ratios],
    }


def cost_by_size(device: Any) -> list[dict[str, Any]]:
    """Seconds a case and peak host memory of gelu's variants, everything compiled before."""
    rows = []
    selection = plan.Selection(only=("pycuda", "torch_eager", "torch_native"))
    for group in plan.groups(["gelu"], "2^[16:28:2]", "float32"):
        job = Job(device, selection, ("launch", "graph"), 0, 0.4, lambda text: None)
        if not rows:
            cases_of(job, group)  # warm-up: imports and compilation
        start = perf_counter()
        cases = cases_of(job, group)
        rows.append({
            "size": group.size,
            "cases": len(cases),
            "seconds a case": (perf_counter() - start) / len(cases),
            "peak host memory MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "array MB": 4e-6 * group.shape[0],
        })  # fmt: skip
    return rows


def orders(device: Any) -> dict[str, dict[str, float]]:
    """Cold medians of the same variants in both orders."""
    found: dict[str, dict[str, float]] = {}
    for order in rounds.ORDERS:
        (group,) = plan.groups(["gelu"], "large", "float32")
        selection = plan.Selection(only=("pycuda", "torch_*"))
        job = Job(device, selection, ("launch",), 0, 0.5, lambda text: None, order=order)
        found[order] = {c.label: c.median("cold") or 0.0 for c in cases_of(job, group)}
    return found


def flushes(device: Any) -> dict[str, dict[str, float]]:
    """Cold medians of the copy and of gelu_vec at three sizes, by flush method."""
    timer, driver = timer_of(device), libcuda.pycuda()
    l2 = device.details()["l2_bytes"]
    found: dict[str, dict[str, float]] = {}

    def write(nbytes: int) -> None:
        driver.memset_d32_async(int(timer._scratch), 0, nbytes // 4, timer.stream)

    def waiting(flush: Callable[[], None]) -> Callable[[], None]:
        def work() -> None:
            flush()
            timer.stream.synchronize()

        return work

    ours = timer._flush
    methods: dict[str, Callable[[], None]] = {
        "write L2, wait": waiting(lambda: write(l2)),
        "write L2": lambda: write(l2),
        "write 2 x L2": lambda: write(2 * l2),
        "ours, wait": waiting(ours),
        "ours": ours,
    }
    for name, flush in methods.items():
        timer._flush = flush
        for group in plan.groups(["gelu"], "small,large,xlarge", "float32"):
            job = Job(device, plan.Selection(only=("pycuda:gelu_vec",)), ("launch",), 0, 0.5, lambda text: None)
            for case in cases_of(job, group):
                found.setdefault(f"{case.label} {case.size}", {})[name] = case.median("cold") or 0.0
    timer._flush = ours
    return found


def main() -> None:
    device, note = open_device("cuda")
    assert not note
    try:
        found = {
            "A/A small": same_with_itself(device, "small"),
            "A/A large": same_with_itself(device, "large"),
            "cost": cost_by_size(device),
            "order": orders(device),
            "flush": flushes(device),
        }
    finally:
        device.close()
    with open(sys.argv[1], "w") as out:
        json.dump(found, out, indent=1)
    for name in ("A/A small", "A/A large"):
        print(name, {k: v for k, v in found[name].items() if k != "ratios"})
    print(*found["cost"], *found["order"].items(), *found["flush"].items(), sep="\n")


if __name__ == "__main__":
    main()
