"""What do two GPUs make of a training step, by DataParallel in one process and by DistributedDataParallel in two?

After PyTorch's tutorials "Optional: Data Parallelism" and "Getting Started with Distributed Data Parallel". The batch
stays the same, so two GPUs have half of it each. DataParallel copies the model to the other GPU, gathers its outputs
and adds up its gradients in every step, from threads that share one interpreter. DistributedDataParallel runs one
process per GPU, each with its own model; they exchange gradients only, in buckets, while the rest is still computed.
With one bucket for all gradients nothing is left to compute during the exchange; the variant without an exchange shows
the cost that remains. A small model takes as long as Python needs to launch it, for half a batch too.
"""

from __future__ import annotations

import os
from typing import Any

from cudalab.results.record import Results
from cudalab.study import Study, Variant, Work, ranks, says
from cudalab.study.lab import Lab
from cudalab.study.rank import Rank

CLASSES = 10
ALL = 10**5  # MB: more than any model here


def perceptron(width: int, depth: int) -> Any:
    from torch import nn

    layers = (layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.GELU()))
    return nn.Sequential(*layers, nn.Linear(width, CLASSES))


def transformer(width: int, depth: int) -> Any:
    """An encoder of whole sequences (batch, length, width), its outputs averaged."""
    from torch import nn

    class Mean(nn.Module):
        def forward(self, x: Any) -> Any:
            return x.mean(1)

    layer = nn.TransformerEncoderLayer(width, width // 64, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True)
    encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
    return nn.Sequential(encoder, Mean(), nn.Linear(width, CLASSES))


def problem(where: str, batch: int, width: int, depth: int, length: int = 0) -> tuple[Any, Any, Any]:
    """(model, inputs, labels), the same for the same seed of torch."""
    import torch

    model = transformer(width, depth) if length else perceptron(width, depth)
    x = torch.randn((batch, length, width) if length else (batch, width))
    y = torch.randint(CLASSES, (batch,))
    return model.to(where), x.to(where), y.to(where)


def loss(model: Any, batch: tuple[Any, Any]) -> Any:
    from torch.nn.functional import cross_entropy

    x, y = batch
    return cross_entropy(model(x), y)


def one(lab: Lab) -> Work:
    """The whole batch on one device."""
    return passes(lab, lambda model: model)


def data_parallel(lab: Lab) -> Work:
    from torch.nn import DataParallel

    os.environ.update({name: value for name, value in ranks.QUIET.items() if name not in os.environ})
    devices = ranks.gpus(lab)
    return passes(lab, lambda model: DataParallel(model, devices))


def passes(lab: Lab, wrapped: Any) -> Work:
    from cudalab.study.sharded import Passes

    lab.torch()
    model, x, y = problem(lab.where, **lab.workload.parameters)
    training = Passes(wrapped(model), loss, [(x, y)])
    return Work(training.run, training.result, quantities=training.counted, items=lab["batch"])


def part(rank: Rank, parameters: dict[str, Any], **options: Any) -> Any:
    """A rank's part of the batch: every count-th sample."""
    from cudalab.study.sharded import Shared

    model, x, y = problem(rank.where, **parameters)
    mine = slice(rank.number, None, rank.count)
    return Shared(rank, model, loss, [(x[mine].contiguous(), y[mine].contiguous())], **options)


def distributed(**options: Any) -> Any:
    def make(lab: Lab) -> Work:
        work = ranks.work(lab, part, lab["batch"], parameters=dict(lab.workload.parameters), **options)
        if options.get("exchange") is False:  # the models of the ranks drift apart
            work.result = None
            work.notes.append("computes something else: ranks that do not exchange gradients drift apart")
        return work

    return make


def finding(run: Results) -> str:
    """By size: the gain of DDP, with and without its exchange, and of DataParallel if it ran."""
    said = []
    for size in says.sizes(run):
        ddp, free, dp = (says.factor(run, size, label) for label in ("ddp", "ddp+no_exchange", "dp"))
        ways = {"by DDP": ddp, "by DDP if it exchanged no gradients": free, "by DataParallel": dp}
        known = says.listed({way: factor for way, factor in ways.items() if factor != "?"})
        said += [f"{known} at {size}"] if known else []
    one, two = ("one GPU", "two") if run.machine.device == "cuda" else ("one process", "two on the same CPU")
    if not said:
        return f"{one} alone was measured"
    return f"compared with {one} on the same batch, {two} are {'; '.join(said)}"


study = Study(
    file=__file__,
    summary="one batch on one GPU, and on two by DataParallel and by DistributedDataParallel",
    sizes={
        "small": {"batch": 64, "width": 512, "depth": 8},
        "large": {"batch": 16, "length": 64, "width": 1024, "depth": 8},  # 100 million parameters
        "tiny": {"batch": 8, "width": 256, "depth": 8},  # more than one bucket
    },
    defaults={"cuda": ("small", "large"), "cpu": ("small",)},
    variants=(
        Variant("one", one),
        Variant("dp", data_parallel, ("cuda",), "DataParallel splits a batch over GPUs"),
        Variant("ddp", distributed()),
        Variant("ddp+one_bucket", distributed(bucket_cap_mb=ALL)),
        Variant("ddp+no_exchange", distributed(exchange=False)),
    ),
    baseline="one",
    tolerance=1e-3,  # of gradients in float32, summed in another order
    finding=finding,
    about="a run is one step of SGD in float32; items are the samples of the whole batch.\n"
    "rank0, rank1 wait share: of a step until all gradients are there, what that rank waits for the other; "
    "a barrier's own time is in it.\n"
    "On a CPU two processes share its cores (gloo): that shows that DDP works, not what it gains.",
)
