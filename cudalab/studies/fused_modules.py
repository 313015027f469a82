"""What do fused optimizers and a fused LayerNorm gain over torch's default, and what over single operations?

After NVIDIA's PyTorch performance tuning guide, "Use APEX fused building blocks". An optimizer that updates one tensor
after the other (`unfused`) launches a dozen kernels for each of a model's hundred tensors; foreach does one operation
on all tensors in a few launches; fused does the whole update in a few. Most of what Apex once had is in torch now;
where Apex is installed it is measured beside its successors.

The baseline is what torch does if nothing is said: foreach on a GPU and tensor by tensor on a CPU, and LayerNorm's own
kernel. `foreach` asks for the same on a GPU: its ratio shows how far equal variants differ here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cudalab.base.errors import Unavailable
from cudalab.results.record import Results
from cudalab.study import Study, Variant, Work, says
from cudalab.study.lab import Lab
from cudalab.study.launches import launches
from cudalab.study.training import RATE

STEPS = 5  # before the weights are compared
LARGE_RATE = 1e-2  # for those steps, so that they show in the weights
EPS = 1e-5
NO_APEX = "Apex is not installed; it has to be built from source. foreach, fused and native are its successors in torch"


def parameters(lab: Lab) -> list[tuple[Any, Any]]:
    """The parameters of a ResNet-50, each with a gradient."""
    torch = lab.torch()
    from cudalab.study import models

    values = [p.detach().to(lab.where) for p in models.resnet50(10, lab["width"]).parameters()]
    return [(value, torch.randn_like(value)) for value in values]


def torchs(lab: Lab, held: list[Any], rate: float, foreach: bool | None, fused: bool | None) -> Any:
    import torch

    if lab["of"] == "adamw":
        return torch.optim.AdamW(held, lr=rate, foreach=foreach, fused=fused)
    return torch.optim.SGD(held, lr=rate, momentum=0.9, foreach=foreach, fused=fused)


def default_optimizer(lab: Lab, held: list[Any], rate: float) -> Any:
    return torchs(lab, held, rate, None, None)


def unfused_optimizer(lab: Lab, held: list[Any], rate: float) -> Any:
    return torchs(lab, held, rate, False, False)


def foreach(lab: Lab, held: list[Any], rate: float) -> Any:
    return torchs(lab, held, rate, True, False)


def fused(lab: Lab, held: list[Any], rate: float) -> Any:
    return torchs(lab, held, rate, False, True)


def apex_optimizer(lab: Lab, held: list[Any], rate: float) -> Any:
    try:
        from apex.optimizers import FusedAdam, FusedSGD  # type: ignore[import-not-found,import-untyped,unused-ignore]

        return FusedAdam(held, lr=rate, weight_decay=1e-2) if lab["of"] == "adamw" else FusedSGD(held, rate, 0.9)
    except (ImportError, RuntimeError) as error:  # RuntimeError: built without its CUDA extensions
        raise Unavailable(NO_APEX) from error


def optimized(make_optimizer: Callable[[Lab, list[Any], float], Any]) -> Callable[[Lab], Work]:
    """A run is a step of the optimizer with fixed gradients."""

    def make_update(lab: Lab, rate: float) -> tuple[Any, list[Any]]:
        import torch

        held = []
        for value, gradient in lab.once("parameters", lambda: parameters(lab)):
            held.append(torch.nn.Parameter(value.clone()))
            held[-1].grad = gradient
        return make_optimizer(lab, held, rate), held

    def make(lab: Lab) -> Work:
        lab.torch()
        optimizer, _ = make_update(lab, RATE)

        def result() -> list[Any]:
            other, held = make_update(lab, LARGE_RATE)
            for _ in range(STEPS):
                other.step()
            return held

        return Work(optimizer.step, result, afterwards=lambda: launches(lab, optimizer.step))

    return make


def make_inputs(lab: Lab) -> tuple[Any, Any, Any, Any]:
    """Input, weight, bias, and the gradient of the output."""
    torch, shape = lab.torch(), lab["shape"]
    x, gradient = (torch.randn(shape, device=lab.where) for _ in range(2))
    weight, bias = (torch.randn(shape[-1], device=lab.where) for _ in range(2))
    return x.requires_grad_(), weight.requires_grad_(), bias.requires_grad_(), gradient


def composed(x: Any, weight: Any, bias: Any) -> Any:
    off = x - x.mean(-1, keepdim=True)
    return off / (off.square().mean(-1, keepdim=True) + EPS).sqrt() * weight + bias


def native(x: Any, weight: Any, bias: Any) -> Any:
    import torch

    return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, EPS)


def apex_norm(x: Any, weight: Any, bias: Any) -> Any:
    try:
        from apex.normalization.fused_layer_norm import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
            fused_layer_norm_affine,
        )

        return fused_layer_norm_affine(x, weight, bias, x.shape[-1:], EPS)
    except (ImportError, RuntimeError) as error:
        raise Unavailable(NO_APEX) from error


def normalized(function: Callable[[Any, Any, Any], Any]) -> Callable[[Lab], Work]:
    """A run is forward and backward."""

    def make(lab: Lab) -> Work:
        torch, last = lab.torch(), [()]
        *inputs, gradient = lab.once("given", lambda: make_inputs(lab))

        def run() -> None:
            y = function(*inputs)
            last[0] = (y, *torch.autograd.grad(y, inputs, gradient))

        run()
        return Work(run, lambda: last[0], afterwards=lambda: launches(lab, run))

    return make


def either(optimizer: Callable[..., Any], norm: Callable[..., Any]) -> Callable[[Lab], Work]:
    return lambda lab: (normalized(norm) if lab["of"] == "layernorm" else optimized(optimizer))(lab)


def finding(run: Results) -> str:
    default = "foreach" if run.machine.device == "cuda" else "tensor by tensor"
    said = []
    for size in says.sizes(run):
        ways = {"fused": "fused", "unfused": "in single operations", "apex": "by Apex"}
        ran = {way: says.factor(run, size, label) for label, way in ways.items() if says.ran(run, size, label)}
        said.append(f"{size} is {says.listed(ran) or '?'}")
    return f"compared with torch's defaults ({default}; LayerNorm's own kernel), {'; '.join(said)}"


def steps(of: str, width: int) -> dict[str, Any]:
    return {"of": of, "width": width}


def norms(*shape: int) -> dict[str, Any]:
    return {"of": "layernorm", "shape": shape}


OPTIMIZERS = ("adamw", "sgd", "cpu-adamw", "cpu-sgd", "tiny", "tiny-sgd")
NORMS = ("layernorm", "cpu-layernorm", "tiny-layernorm")

study = Study(
    file=__file__,
    summary="AdamW and SGD: default, by tensor, foreach and fused; LayerNorm native and composed; Apex if installed",
    sizes={
        "adamw": steps("adamw", 64),
        "sgd": steps("sgd", 64),
        "layernorm": norms(8192, 4096),
        "cpu-adamw": steps("adamw", 16),
        "cpu-sgd": steps("sgd", 16),
        "cpu-layernorm": norms(256, 1024),
        "tiny": steps("adamw", 1),
        "tiny-sgd": steps("sgd", 1),
        "tiny-layernorm": norms(8, 64),
    },
    defaults={"cuda": ("adamw", "sgd", "layernorm"), "cpu": ("cpu-adamw", "cpu-sgd", "cpu-layernorm")},
    variants=(
        Variant("default", either(default_optimizer, native)),
        Variant("unfused", either(unfused_optimizer, composed)),
        Variant("foreach", optimized(foreach), sizes=OPTIMIZERS),
        Variant("fused", optimized(fused), sizes=OPTIMIZERS),
        Variant("apex", either(apex_optimizer, apex_norm), ("cuda",), "Apex is for GPUs"),
    ),
    baseline="default",
    tolerance=1e-4,  # the same in another order of operations
    memory=True,
    finding=finding,
    about="default: foreach on a GPU, unfused on a CPU; F.layer_norm for LayerNorm. unfused: single operations.\n"
    "A run is one step of the optimizer on the parameters of a ResNet-50 (width: of its first stage), or forward and\n"
    "backward of LayerNorm. Compared: the weights after five steps; the output and all gradients.",
)
