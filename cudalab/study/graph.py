"""Work captured by torch.cuda.graph, as an article's reader would do it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cudalab.study.lab import Lab

WARM_UPS = 3  # on a side stream, as torch's documentation of CUDA Graphs has it


def captured(lab: Lab, function: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
    """(replay, result): `result` is what every replay writes anew."""
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
