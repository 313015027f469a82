"""Gradients set to zero, or to None?

After NVIDIA's PyTorch performance tuning guide, "Use parameter.grad = None instead of model.zero_grad()". Zeros are
written, and read again when the backward pass adds to them; they also occupy memory during the forward pass. None costs
nothing: the backward pass writes what it would have added. torch 2 does so by default, and zeros its gradients by one
kernel for many tensors, so less is left to gain than when the guide was written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cudalab.results.record import Results
from cudalab.study import Study, Variant, Work, says
from cudalab.study.lab import Lab
from cudalab.study.training import Training


def make_inputs(lab: Lab) -> tuple[Any, Any, Any]:
    """Return a chain of linear layers, inputs and classes."""
    torch, where, width = lab.torch(), lab.where, lab["width"]
    layers = [layer for _ in range(lab["layers"]) for layer in (torch.nn.Linear(width, width), torch.nn.ReLU())]
    x = torch.randn(lab["batch"], width, device=where)
    return torch.nn.Sequential(*layers).to(where), x, torch.randint(width, (lab["batch"],), device=where)


def trained(set_to_none: bool) -> Callable[[Lab], Work]:
    def make(lab: Lab) -> Work:
        model, x, y = lab.once("given", lambda: make_inputs(lab))
        training = Training(model, x, y, set_to_none=set_to_none)
        held = sum(p.nbytes for p in training.model.parameters())
        return Work(training.step, training.weights, quantities=lambda: {"gradient_bytes": held}, items=lab["batch"])

    return make


def finding(run: Results) -> str:
    def gain(size: str) -> str:
        zeros, none = (says.counted(run, size, label, "peak_bytes") for label in ("zeros", "none"))
        memory = "" if zeros is None or none is None else f" with {_less((zeros - none) / 1e6)} at its peak"
        return f"{says.factor(run, size, 'none')} as fast{memory}"

    return f"with gradients set to None, not zeros, a training step to the same weights is {says.at_sizes(run, gain)}"


def _less(amount: float) -> str:
    return f"{abs(amount):,.3g} MB {'less' if amount >= 0 else 'more'}"


study = Study(
    file=__file__,
    summary="gradients set to zeros or to None before each step: time and memory, with the same weights",
    sizes={
        "many": {"layers": 50, "width": 128, "batch": 64},
        "large": {"layers": 8, "width": 4096, "batch": 256},
        "cpu": {"layers": 8, "width": 512, "batch": 32},
        "tiny": {"layers": 3, "width": 32, "batch": 64},
    },
    defaults={"cuda": ("many", "large"), "cpu": ("cpu",)},
    variants=(Variant("zeros", trained(False)), Variant("none", trained(True))),
    baseline="zeros",
    memory=True,
    finding=finding,
    about="Peak MB: above what is held between steps, which includes the gradients. None frees them first.\n"
    "A step is forward, backward and SGD with momentum. many: small layers. large: a few layers of 67 MB.",
)
