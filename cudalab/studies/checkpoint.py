"""How much memory does computing activations again save, and what does it cost?

After NVIDIA's PyTorch performance tuning guide, "Checkpoint intermediate buffers". A layer that is checkpointed keeps
its input alone; its backward pass runs the layer forward once more. Three passes become four, so the time grows by
a third at most, and what is kept falls from all of a layer's intermediate values to one: a larger batch fits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import isqrt
from typing import Any

from cudalab.results.record import Results
from cudalab.study import Study, Variant, Work, says
from cudalab.study.lab import Lab
from cudalab.study.training import Training, largest_batch, within


def model(lab: Lab) -> Any:
    """Return a chain of a transformer's layers, without dropout."""
    torch, width = lab.torch(), lab["width"]
    layers = (
        torch.nn.TransformerEncoderLayer(width, lab["heads"], 4 * width, 0.0, batch_first=True, norm_first=True)
        for _ in range(lab["layers"])
    )
    return torch.nn.Sequential(*layers).to(lab.where)


def samples(lab: Lab, n: int) -> tuple[Any, Any]:
    """Sequences and their targets."""
    torch = lab.torch()
    x = torch.randn(n, lab["tokens"], lab["width"], device=lab.where)
    return x, torch.randn_like(x)


def kept(model: Any, x: Any) -> Any:
    return model(x)


def layers(model: Any, x: Any) -> Any:
    from torch.utils.checkpoint import checkpoint

    for layer in model:
        x = checkpoint(layer, x, use_reentrant=False)
    return x


def segments(model: Any, x: Any) -> Any:
    from torch.utils.checkpoint import checkpoint_sequential

    return checkpoint_sequential(model, isqrt(len(model)), x, use_reentrant=False)


def trained(forward: Callable[[Any, Any], Any]) -> Callable[[Lab], Work]:
    def make(lab: Lab) -> Work:
        torch = lab.torch()
        x, y = lab.once("samples", lambda: samples(lab, lab["batch"]))
        given, loss = lab.once("model", lambda: model(lab)), torch.nn.functional.mse_loss
        training = Training(given, x, y, loss, forward=forward)
        search = partial(largest_batch, lab, training, partial(samples, lab), lab["memory_gib"] or lab["gib"])
        return Work(training.step, training.gradients, quantities=lambda: {"largest_batch": search()}, items=len(x))

    return make


def finding(run: Results) -> str:
    def gain(size: str) -> str:
        batches = [says.counted(run, size, label, "largest_batch") for label in ("kept", "each layer")]
        fits = "?" if None in batches else f"{batches[1]:,.0f} samples instead of {batches[0]:,.0f}"
        memory = says.share(run, size, "each layer", "peak_bytes")
        speed = says.factor(run, size, "each layer")
        return f"{speed} as fast with {memory} of the peak memory, and {fits} fit into {within(run, size)}"

    return f"a training step that computes every layer's activations again is {says.at_sizes(run, gain)}"


study = Study(
    file=__file__,
    summary="activations kept or computed again: peak memory, time and the largest batch, with the same gradients",
    sizes={
        "transformer": {"layers": 12, "width": 768, "heads": 12, "tokens": 256, "batch": 16, "gib": 4.0},
        "cpu": {"layers": 9, "width": 64, "heads": 4, "tokens": 64, "batch": 4, "gib": 0.0625},
        "tiny": {"layers": 4, "width": 16, "heads": 2, "tokens": 16, "batch": 2, "gib": 0.0005},
    },
    defaults={"cuda": ("transformer",), "cpu": ("cpu",)},
    settings={"memory_gib": 0.0},
    variants=(
        Variant("kept", trained(kept)),
        Variant("each layer", trained(layers)),
        Variant("segments", trained(segments)),
    ),
    baseline="kept",
    tolerance=1e-3,  # attention adds up its gradients in another order from step to step on a GPU
    memory=True,
    rounds=5,
    finding=finding,
    about="segments: their number is the square root of the number of layers; fewer inputs are kept, more "
    "activations are held at once.\n"
    "largest batch: found by bisection within the size's GiB of torch's allocations (weights, gradients and "
    "optimizer\n"
    "state included), or within --set memory_gib=N. Random numbers are the same when a layer is computed again.",
)  # fmt: skip
