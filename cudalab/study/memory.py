"""The peak memory of work in torch."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from itertools import accumulate

from cudalab.study.lab import Lab
from cudalab.tools.profile import events

SECOND = "cudalab: the second run"


def peak(lab: Lab, run: Callable[[], object]) -> dict[str, float]:
    """`peak_bytes`: the most that torch had allocated during one run, less what it had allocated before.

    So what a variant holds between runs, such as weights, is not counted. Measured by torch's allocator on a GPU, and
    from torch.profiler's record of allocations on a CPU. {} if torch is not used.
    """
    if "torch" not in sys.modules:
        return {}
    gc.collect()
    return {"peak_bytes": float(above(lab, run))}


def above(lab: Lab, run: Callable[[], object]) -> int:
    """Bytes that torch allocates at the peak of one run, above what it had before."""
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
    """Measure a second run: the profiler counts a release only if it saw the allocation."""
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
