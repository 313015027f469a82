"""What the host and the GPU did, as torch.profiler records it.

On a GPU it sees every kernel of the process by CUPTI, whichever library launched it: torch, Triton, PyCUDA or CuPy.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

KERNEL, COPY, LAUNCH, OPERATOR, LABEL, OTHER = "kernel", "copy", "launch", "operator", "label", "other"
DEVICE_KINDS = (KERNEL, COPY)  # what the GPU does; COPY: copies and fills

COMPILED = re.compile(r"## Call CompiledFxGraph .*")  # one call of torch.compile's generated code
AN_OPERATOR = re.compile(r"(?!autograd::)\w+::\w+")
_LAUNCH = re.compile(r"cu(da)?(Graph)?(Launch|Memcpy|Memset).*")
_COPY = re.compile(r"Mem(cpy|set)\b.*")
_TYPES = {"kernel": KERNEL, "gpu_memcpy": COPY, "gpu_memset": COPY}  # the names of newer releases of torch


@dataclass(frozen=True)
class Event:
    """One event, with times in ns on one clock. `correlation` joins a launch with its work on the GPU."""

    name: str
    kind: str
    start: int
    end: int
    thread: int = 0
    correlation: int = 0


@contextmanager
def raw(cuda: bool, **options: bool) -> Iterator[Any]:
    """`profiler` for raw events only: to make torch's own events takes longer than the work."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*Profiler clears events")  # after each cycle; there is one
        with profiler(cuda, acc_events=False, **options) as seen:
            yield seen


def profiler(cuda: bool, acc_events: bool = True, **options: bool) -> Any:
    """torch.profiler of host and device, as a context manager; `options` are its own, such as with_stack."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "5")  # else it prints that it starts
    from torch.profiler import ProfilerActivity, profile

    if cuda:
        _attached()
    kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda else [])]
    return profile(activities=kinds, acc_events=acc_events, **options)


@cache
def _attached() -> None:
    """Record nothing once: a process's first recording loads CUPTI, and may miss launches meanwhile."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA], acc_events=True):
        torch.zeros(1, device="cuda")
        torch.cuda.current_stream().synchronize()


def event(of: Any) -> Event:
    """An event of torch's profiler as ours."""
    on_gpu = of.device_type().name == "CUDA"
    kind = _on_device(of) if on_gpu else _on_host(of.name(), of.is_user_annotation())
    return Event(of.name(), kind, of.start_ns(), of.end_ns(), of.start_thread_id(), of.correlation_id())


def _on_device(of: Any) -> str:
    if hasattr(of, "activity_type"):
        return _TYPES.get(of.activity_type(), OTHER)
    if of.is_user_annotation():  # a label of the host, stretched over what it launched
        return OTHER
    return COPY if _COPY.fullmatch(of.name()) else KERNEL


def _on_host(name: str, annotation: bool) -> str:
    if annotation:
        return LABEL
    if _LAUNCH.fullmatch(name):
        return LAUNCH
    return OPERATOR if AN_OPERATOR.fullmatch(name) or COMPILED.fullmatch(name) else OTHER
