"""How many samples a second does a batch size give, in float32, TF32 and mixed precision, and how large may it be?

After NVIDIA's PyTorch performance tuning guide, "Use mixed precision and AMP" and the advice on batch sizes. A step
costs the host the same time for every batch, and a GPU needs many samples to be busy: samples a second grow with the
batch until the GPU is full. Activations of 16 bits take half the memory, so nearly twice the batch fits, and tensor
cores make it faster.

`float32` is computed without TF32 and `tf32` with it, in convolutions and matrix products alike: torch's defaults allow
it in convolutions alone, so its "float32" is neither. What mixed precision leaves in float32 is without TF32.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from cudalab.results.record import Results
from cudalab.study import Study, Variant, Work, says
from cudalab.study.lab import Lab
from cudalab.study.training import Training, float32, largest_batch, within

CLASSES = 10


def model(lab: Lab) -> Any:
    """ResNet-50 where the size says so, else a small network of three convolutions."""
    lab.torch()
    from cudalab.study import models

    width = lab["width"]
    made = models.resnet50(CLASSES, width) if lab["model"] == "resnet50" else models.SmallCNN(CLASSES, width)
    return made.to(lab.where, memory_format=layout(lab))


def layout(lab: Lab) -> Any:
    """Channels last on a GPU: the layout that tensor cores take in 16 bits."""
    import torch

    return torch.channels_last if lab.cuda else torch.contiguous_format


def samples(lab: Lab, n: int) -> tuple[Any, Any]:
    """Images and classes."""
    torch, image = lab.torch(), lab["image"]
    x = torch.randn(n, 3, image, image, device=lab.where).to(memory_format=layout(lab))
    return x, torch.randint(CLASSES, (n,), device=lab.where)


def trained(dtype: str = "", tf32: bool = False) -> Callable[[Lab], Work]:
    def make(lab: Lab) -> Work:
        autocast = getattr(lab.torch(), dtype) if dtype else None
        x, y = lab.once("samples", lambda: samples(lab, lab["batch"]))
        given = lab.once("model", lambda: model(lab))
        training = Training(given, x, y, autocast=autocast, around=partial(float32, tf32))

        def quantities() -> dict[str, float]:
            if not (gib := lab["memory_gib"] or lab["gib"]):
                return {}
            return {"largest_batch": largest_batch(lab, training, lambda n: samples(lab, n), gib)}

        notes = [] if lab.cuda or not dtype else [f"{dtype} on a CPU: slow where it has no instructions for it"]
        return Work(training.step, lambda: training.losses(1), quantities=quantities, items=lab["batch"], notes=notes)

    return make


def finding(run: Results) -> str:
    sizes = says.sizes(run)
    ends = list(dict.fromkeys((sizes[0], sizes[-1])))
    rates = " and ".join(
        f"{says.rate(run, size, study.baseline)} samples per second at a batch of {says.parameter(run, size, 'batch')}"
        for size in ends
    )
    others = [label for label in LABELS[1:] if any(says.ran(run, size, label) for size in ends)]
    compared = "; ".join(
        f"{label} is "
        + says.listed({f"at {says.parameter(run, size, 'batch')}": says.factor(run, size, label) for size in ends})
        for label in others
    )
    fits = [(label, size, n) for size in sizes for label in LABELS
            if (n := says.counted(run, size, label, "largest_batch")) is not None]  # fmt: skip
    largest = ", ".join(f"{label} {n:,.0f}" for label, size, n in fits if size == fits[0][1])
    fitting = f"; the largest batch within {within(run, fits[0][1])}: {largest}" if fits else ""
    compared = f"; compared with it, {compared}" if compared else ""
    return f"training in float32 without TF32 processes {rates}{compared}{fitting}"


def images(batch: int, gib: float = 0.0) -> dict[str, Any]:
    return {"model": "resnet50", "width": 64, "image": 224, "batch": batch, "gib": gib}


def small(batch: int, gib: float = 0.0) -> dict[str, Any]:
    return {"model": "small", "width": 16, "image": 32, "batch": batch, "gib": gib}


LABELS = ("float32", "tf32", "amp-bf16", "amp-fp16")

study = Study(
    file=__file__,
    summary="samples per second and memory of a training step by batch size, in float32, TF32 and mixed precision",
    sizes={
        "16": images(16),
        "32": images(32),
        "64": images(64, 8.0),
        "128": images(128),
        "256": images(256),
        "cpu-16": small(16),
        "cpu-64": small(64, 0.0625),
        "cpu-128": small(128),
        "tiny": {"model": "small", "width": 4, "image": 16, "batch": 8, "gib": 0.001},
    },
    defaults={"cuda": ("16", "64", "256"), "cpu": ("cpu-16", "cpu-64", "cpu-128")},
    settings={"memory_gib": 0.0},
    variants=(
        Variant("float32", trained()),
        Variant("tf32", trained(tf32=True), ("cuda",), "TF32 needs a GPU"),
        Variant("amp-bf16", trained("bfloat16")),
        Variant("amp-fp16", trained("float16")),
    ),
    baseline="float32",
    # Of the first loss: bfloat16 is off by 0.4 % at each layer. Later losses are not compared: an untrained
    # ResNet-50 amplifies differences, and a loss scaler skips the first steps.
    tolerance=5e-2,
    memory=True,
    rounds=5,
    finding=finding,
    about="largest batch: found by bisection, at the sizes that name GiB, within that much of torch's "
    "allocations (weights,\n"
    "gradients, optimizer state and the batch). --set memory_gib=N searches at every size, within N GiB.\n"
    "float32: convolutions and matrix products do not use TF32. tf32: both do. On a GPU images are stored "
    "channels last.\n"
    "amp-fp16 waits for its loss scaler in each step.",
)  # fmt: skip
