"""Capture of work by torch.cuda.graph, as torch's documentation describes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cudalab.study.lab import Lab

WARM_UPS = 3  # on a side stream, as torch's documentation asks for


def captured(lab: Lab, function: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
    """Return (replay, result). Every replay overwrites `result`."""
    torch = lab.torch()
    here, side = torch.cuda.current_stream(), torch.cuda.Stream()
    side.wait_stream(here)
    with torch.cuda.stream(side):
        for _ in range(WARM_UPS):
            function()
    here.wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = function()
    return graph.replay, result
