"""What does each debugging aid cost that was left on?

After NVIDIA's PyTorch performance tuning guide, "Disable debugging APIs". Anomaly detection keeps a stack trace for
each operation and looks for NaN in each gradient, which waits for the GPU; a profiler records every operation;
emit_nvtx names each for a profiler, even if none is attached; gradcheck evaluates a function twice for every element
of its input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

from cudalab.results.record import Results
from cudalab.study import Study, Variant, Work, says
from cudalab.study.lab import Lab
from cudalab.study.training import Training
from cudalab.tools.profile import events


def make_inputs(lab: Lab) -> tuple[Any, Any, Any]:
    """Return a small network of convolutions, images and classes."""
    torch, where = lab.torch(), lab.where
    from cudalab.study import models

    x = torch.randn(lab["batch"], 3, lab["image"], lab["image"], device=where)
    model = models.SmallCNN(width=lab["width"], bias=False).to(where)  # a bias before BatchNorm has a gradient of noise
    return model, x, torch.randint(10, (lab["batch"],), device=where)


def nothing(lab: Lab) -> AbstractContextManager[Any]:
    return nullcontext()


def anomalies(lab: Lab) -> AbstractContextManager[Any]:
    import torch

    return torch.autograd.set_detect_anomaly(True)


def profiled(lab: Lab) -> AbstractContextManager[Any]:
    return events.profiler(lab.cuda)


def named(lab: Lab) -> AbstractContextManager[Any]:
    import torch

    return torch.autograd.profiler.emit_nvtx()


@contextmanager
def checked(lab: Lab) -> Iterator[None]:
    """Before the step, compare the loss's gradient with finite differences, at a few samples in float64."""
    import torch

    draw = torch.Generator(lab.where).manual_seed(lab.seed)
    x = torch.randn(4, 10, device=lab.where, dtype=torch.float64, generator=draw, requires_grad=True)
    y = torch.arange(4, device=lab.where)
    torch.autograd.gradcheck(lambda x: torch.nn.functional.cross_entropy(x, y), (x,))
    yield


def trained(aid: Callable[[Lab], AbstractContextManager[Any]]) -> Callable[[Lab], Work]:
    def make(lab: Lab) -> Work:
        model, x, y = lab.once("given", lambda: make_inputs(lab))
        training = Training(model, x, y, around=partial(aid, lab))
        return Work(training.step, training.gradients, items=lab["batch"])

    return make


def finding(run: Results) -> str:
    def cost(size: str) -> str:
        aids = {f"with {label}": says.case(run, size, label) for label in ("anomaly", "profiler", "nvtx", "gradcheck")}
        ratios = {aid: says.speedup(run, one) for aid, one in aids.items()}
        return says.listed({aid: says.longer(ratio) for aid, ratio in ratios.items() if ratio}, "as long") or "?"

    return f"compared with one without debugging aids, a training step takes {says.at_sizes(run, cost)}"


study = Study(
    file=__file__,
    summary="what anomaly detection, the profiler, NVTX ranges and gradcheck cost in a step of training",
    sizes={
        "small": {"batch": 32, "image": 32, "width": 32},
        "large": {"batch": 256, "image": 64, "width": 64},
        "cpu": {"batch": 8, "image": 32, "width": 16},
        "tiny": {"batch": 2, "image": 16, "width": 4},
    },
    defaults={"cuda": ("small", "large"), "cpu": ("cpu",)},
    variants=(
        Variant("none", trained(nothing)),
        Variant("anomaly", trained(anomalies)),
        Variant("profiler", trained(profiled)),
        Variant("nvtx", trained(named), ("cuda",), "NVTX is a part of CUDA"),
        Variant("gradcheck", trained(checked)),
    ),
    baseline="none",
    tolerance=1e-5,
    rounds=5,
    finding=finding,
    about="Each aid is on in every step. The profiler starts and stops with the step; gradcheck checks a loss "
    "of 4 samples.\n"
    "The aids take time on the host. A step that keeps the GPU busy for long hides some of it.",
)
