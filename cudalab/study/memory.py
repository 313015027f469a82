"""How much memory a piece of torch's work needs at its peak."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from itertools import accumulate

from cudalab.study.lab import Lab
from cudalab.tools.profile import events

SECOND = "cudalab: the second run"


def peak(lab: Lab, run: Callable[[], object]) -> dict[str, float]:
    """`peak_bytes`: the most that torch had allocated at once during one run, above what it had before it.

    On a GPU by torch's allocator, on a CPU from torch.profiler's record of every allocation. What the variant holds
    between its runs, such as weights, is not in it: it was there before. {} where torch is not used.
    """
    if "torch" not in sys.modules:
        return {}
    gc.collect()
    return {"peak_bytes": float(above(lab, run))}


def above(lab: Lab, run: Callable[[], object]) -> int:
    """Bytes of the peak of one run of torch's above what it had before it."""
    lab.synchronize()
    return max(_on_gpu(run, lab) if lab.cuda else _on_cpu(run), 0)


def _on_gpu(run: Callable[[], object], lab: Lab) -> int:
    import torch

    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    run()
    lab.synchronize()
    return torch.cuda.max_memory_allocated() - before


def _on_cpu(run: Callable[[], object]) -> int:
    """Of a second run: what is given back counts only if the profiler has seen where it came from."""
    from torch.profiler import record_function

    with events.raw(cuda=False, profile_memory=True) as seen:
        run()
        with record_function(SECOND):
            run()
    found = sorted(seen.profiler.kineto_results.events(), key=lambda event: event.start_ns())  # of several threads
    begun = next(event.start_ns() for event in found if event.name() == SECOND)
    changes = [(event.start_ns() >= begun, event.nbytes()) for event in found if event.name() == "[memory]"]
    before = sum(nbytes for later, nbytes in changes if not later)
    held = accumulate((nbytes for later, nbytes in changes if later), initial=before)
    return max(held) - before
