"""What does a CUDA Graph save where a GELU is five small kernels, and what where one kernel does it?

After "Accelerating PyTorch with CUDA Graphs", whose experiment called GELU as x*0.5*(1+erf(x/1.41421)) 10,000 times.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cudalab.call import kernel as kernels
from cudalab.results.record import Results
from cudalab.study import Published, Study, Variant, Work, says
from cudalab.study.lab import NO_KERNEL, Lab

NO_GRAPHS = "CUDA Graphs need a GPU"


def gelu(x: Any) -> Any:
    return x * 0.5 * (1.0 + (x / 1.41421).erf())


def ours(lab: Lab) -> Callable[[Any], Any]:
    return kernels.by_name("gelu")


def scripted(lab: Lab) -> Callable[[Any], Any]:
    import torch

    function: Callable[[Any], Any] = torch.jit.trace(gelu, example_inputs=(make_inputs(lab),))
    return function


def plain(lab: Lab) -> Callable[[Any], Any]:
    return gelu


def make_inputs(lab: Lab) -> Any:
    """Return the input, float32, normally distributed."""
    torch = lab.torch()
    return lab.once("x", lambda: torch.randn(lab["shape"], device=lab.where))


def called(form: Callable[[Lab], Callable[[Any], Any]]) -> Callable[[Lab], Work]:
    def make(lab: Lab) -> Work:
        x, function, last = make_inputs(lab), form(lab), [None]

        def run() -> None:
            last[0] = function(x)

        return Work(run, lambda: last[0])

    return make


def replayed(form: Callable[[Lab], Callable[[Any], Any]]) -> Callable[[Lab], Work]:
    """The form captured once by torch.cuda.graph. A run replays it."""

    def make(lab: Lab) -> Work:
        from cudalab.study.graph import captured

        x, function = make_inputs(lab), form(lab)
        replay, last = captured(lab, lambda: function(x))
        return Work(replay, lambda: last)

    return make


def finding(run: Results) -> str:
    ways = {"graph": "in a CUDA Graph", "ours": "as the lab's one kernel", "ours+graph": "as that in a CUDA Graph"}
    if run.machine.device != "cuda":  # where there is neither
        ways = {"jit.script": "by TorchScript"}

    def gain(size: str) -> str:
        ran = {label: way for label, way in ways.items() if says.ran(run, size, label)}
        return says.listed({way: says.factor(run, size, label) for label, way in ran.items()}) or "?"

    return f"compared with a call as five kernels, GELU is {says.at_sizes(run, gain)}"


study = Study(
    file=__file__,
    summary="GELU as five kernels and as one, each called and replayed from a CUDA Graph",
    sizes={
        "small": {"shape": (1, 3, 224, 224)},
        "large": {"shape": (32, 3, 224, 224)},
        "tiny": {"shape": (1, 3, 8, 8)},
    },
    defaults={"cuda": ("small", "large"), "cpu": ("small",)},
    variants=(
        Variant("default", called(plain)),
        Variant("graph", replayed(plain), ("cuda",), NO_GRAPHS),
        Variant("jit.script", called(scripted)),
        Variant("jit.script+graph", replayed(scripted), ("cuda",), NO_GRAPHS),
        Variant("ours", called(ours), ("cuda",), NO_KERNEL),
        Variant("ours+graph", replayed(ours), ("cuda",), NO_GRAPHS),
    ),
    baseline="default",
    tolerance=1e-5,
    finding=finding,
    kernels=("gelu",),
    published=(
        Published(
            "Accelerating PyTorch with CUDA Graphs",
            "Tesla K80, torch 1.10",
            {
                ("small", "default"): 70.9e-6, ("small", "graph"): 64.9e-6, ("small", "jit.script"): 38.9e-6,
                ("small", "jit.script+graph"): 35.6e-6, ("large", "default"): 1320e-6, ("large", "graph"): 1340e-6,
                ("large", "jit.script"): 425e-6, ("large", "jit.script+graph"): 374e-6,
            },
            "the mean of 10,000 calls by one clock; here medians with intervals, and the calls in turns",
        ),
    ),
)  # fmt: skip
