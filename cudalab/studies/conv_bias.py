"""What does a convolution's bias cost where BatchNorm follows?

After NVIDIA's PyTorch performance tuning guide, "Disable bias for convolutions directly followed by a batch norm". In
training BatchNorm subtracts each channel's mean, and with it any constant that was added before: the bias changes no
output, its gradient is zero up to rounding, and it still costs a pass over the output and one over its gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cudalab.results.record import Results
from cudalab.study import Study, Variant, Work, says
from cudalab.study.lab import Lab
from cudalab.study.launches import launches
from cudalab.study.training import Training


def make_inputs(lab: Lab) -> tuple[Any, Any, Any]:
    """A network whose convolutions have biases, images and classes."""
    torch, where = lab.torch(), lab.where
    from cudalab.study import models

    x = torch.randn(lab["batch"], 3, lab["image"], lab["image"], device=where)
    return models.SmallCNN(width=lab["width"]).to(where), x, torch.randint(10, (lab["batch"],), device=where)


def without(lab: Lab, biased: Any) -> Any:
    """Return the same network without the biases before its BatchNorms."""
    from cudalab.study import models

    plain = models.SmallCNN(width=lab["width"], bias=False).to(lab.where)
    kept = plain.state_dict().keys()
    plain.load_state_dict({name: value for name, value in biased.state_dict().items() if name in kept})
    return plain


def trained(bias: bool) -> Callable[[Lab], Work]:
    def make(lab: Lab) -> Work:
        biased, x, y = lab.once("given", lambda: make_inputs(lab))
        plain = without(lab, biased)
        training = Training(biased if bias else plain, x, y)
        shared = [name for name, _ in plain.named_parameters()]

        def result() -> dict[str, Any]:
            exact = training.in_float64()
            output, gradients = (
                exact.anew().model(exact.x),
                exact.gradients(),
            )  # in training mode, with the mean of the batch
            return {"output": output, "loss": gradients["loss"]} | {name: gradients[name] for name in shared}

        size = sum(p.numel() for p in training.model.parameters())
        return Work(
            training.step,
            result,
            quantities=lambda: {"parameters": size},
            afterwards=lambda: launches(lab, training.step),
            items=lab["batch"],
        )

    return make


def finding(run: Results) -> str:
    gains = says.gains(run, "no bias")
    return f"without the bias before each BatchNorm a training step is {gains}, with the same outputs and gradients"


study = Study(
    file=__file__,
    summary="convolutions before BatchNorm with and without a bias, in training",
    sizes={
        "large": {"batch": 64, "image": 224, "width": 64},
        "small": {"batch": 64, "image": 32, "width": 32},
        "cpu": {"batch": 16, "image": 64, "width": 16},
        "tiny": {"batch": 4, "image": 16, "width": 4},
    },
    defaults={"cuda": ("small", "large"), "cpu": ("cpu",)},
    variants=(Variant("bias", trained(True)), Variant("no bias", trained(False))),
    baseline="bias",
    memory=True,
    finding=finding,
    about="With cuDNN, torch adds the bias in a kernel of its own. On a CPU, oneDNN adds it inside the convolution.",
)
