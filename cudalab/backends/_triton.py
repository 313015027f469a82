"""What Triton's forms share: `triton.autotune` in bounded time, with its choice kept on disk."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

SMALL = 2**15  # elements up to which the launch is all of the time, so that no choice shows
WARM_UP, REPEAT = 5, 25  # milliseconds for each configuration; Triton's own are 25 and 100
Fits = Callable[[Mapping[str, Any]], bool]


def tuned(configs: Sequence[Any], key: Sequence[str], fits: Fits = lambda values: True) -> Callable[[Any], Any]:
    """`triton.autotune` over those of `configs` that fit: `fits` gets all constants of a configuration by name.

    Arrays of up to SMALL elements get the first of them untimed. Where none fits, the first of those with most warps
    is taken: ptxas takes minutes for thousands of elements a thread. Triton times with cold caches, and keeps its
    choice for a value of `key` in memory, and on disk beside the compiled code.
    """
    import triton

    def chosen(configs: list[Any], given: Mapping[str, Any], **constants: Any) -> list[Any]:
        found = [c for c in configs if fits({**constants, **c.all_kwargs()})]
        found = found or [max(configs, key=lambda c: c.num_warps)]
        sizes = [a.numel() for a in given.values() if hasattr(a, "numel")]
        return found if max(sizes) > SMALL else found[:1]

    known = inspect.signature(triton.autotune).parameters  # the last two are newer than Triton 3.1
    newer = {"do_bench": lambda call, quantiles: seconds(call, quantiles), "cache_results": True}
    return triton.autotune(
        configs=list(configs),
        key=list(key),
        prune_configs_by={"early_config_prune": chosen},
        **{name: value for name, value in newer.items() if name in known},
    )


def rows_fit(values: Mapping[str, Any]) -> bool:
    """For programs that hold ROWS rows of COLS columns: 4 to 32 elements a thread, many rows only if they are short.

    Rows of fewer than 8 columns get one warp.
    """
    if values["COLS"] < 8:
        return bool(values["num_warps"] == 1)
    elements = values["ROWS"] * values["COLS"] // (32 * values["num_warps"])
    return 4 <= elements <= 32 and (values["ROWS"] <= 2 or values["COLS"] <= 1024)


def held_rows(function: Any) -> Any:
    """Tune a kernel whose programs hold ROWS rows of COLS columns, with the HINT to L2 for the inputs."""
    import triton

    configs = [
        triton.Config({"ROWS": rows, "HINT": hint}, num_warps=warps)
        for rows in (1, 2, 4, 8, 16)
        for warps in (1, 2, 4, 8, 16, 32)
        for hint in ("", "evict_last")
    ]
    return tuned(configs, key=["rows", "cols"], fits=rows_fit)(function)


def seconds(call: Callable[[], object], quantiles: Sequence[float]) -> Any:
    """What Triton's own benchmark measures in a shorter time: quantiles of the time of a call, with cold caches."""
    import triton.testing

    return triton.testing.do_bench(call, warmup=WARM_UP, rep=REPEAT, quantiles=quantiles)


@cache
def multiprocessors(device: Any) -> int:
    """How many multiprocessors the GPU of a tensor has. Triton's interpreter runs on the CPU, as if it had one."""
    import torch

    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1
