"""What do two GPUs make of a training step, by DataParallel in one process and by DistributedDataParallel in two?

After PyTorch's tutorials "Optional: Data Parallelism" and "Getting Started with Distributed Data Parallel". The batch
stays the same, so two GPUs have half of it each (strong scaling); `ddp+weak` gives each GPU a batch as large as that of
one (weak scaling), and counts in samples a second. DataParallel copies the model to the other GPU, gathers its outputs
and adds up its gradients in every step, from threads that share one interpreter. DistributedDataParallel runs one
process per GPU, each with its own model; they exchange gradients only, in buckets, while the rest is still computed.
With one bucket for all gradients nothing is left to compute during the exchange; the variant without an exchange shows
the cost that remains. A small model takes as long as Python needs to launch it, for half a batch too: then two GPUs
cannot be faster. How long a GPU works in a step (`gpu busy`) tells where that is so; `heavy` keeps the GPUs busy.
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
RANKS = 2
WEAK, ALONE = "ddp+weak", "ddp+no_exchange"
FULL = 0.9  # of a step: a GPU that works less waits for launches


def perceptron(width: int, depth: int) -> Any:
    from torch import nn

    layers = (layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.GELU()))
    return nn.Sequential(*layers, nn.Linear(width, CLASSES))


def transformer(width: int, depth: int) -> Any:
    """Return an encoder of whole sequences (batch, length, width), its outputs averaged."""
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
    """Train with the whole batch on one device."""
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


def distributed(times: int = 1, **options: Any) -> Any:
    """DDP on a batch `times` as large as the size says."""

    def make(lab: Lab) -> Work:
        given = dict(lab.workload.parameters)
        batch = times * given.pop("batch")
        work = ranks.work(lab, part, batch, parameters={"batch": batch, **given}, **options)
        if options.get("exchange") is False:  # the models of the ranks drift apart
            work.result = None
            work.notes.append("computes something else: ranks that do not exchange gradients drift apart")
        if times > 1:
            work.result = None
            work.notes.append(f"computes something else: a batch of {batch}")
        return work

    return make


def finding(run: Results) -> str:
    """By size: strong scaling with what bounds it, and weak scaling."""
    said = [f"at {size}: {told}" for size in says.sizes(run) if (told := "; ".join(_scaling(run, size)))]
    one, two = ("one GPU", "two") if run.machine.device == "cuda" else ("one process", "two on the same CPU")
    if not said:
        return f"only {one} was measured"
    return f"compared with {one}, {two} are {'; '.join(said)}"


def _scaling(run: Results, size: str) -> list[str]:
    ways = {
        "ddp": "by DDP", "ddp+one_bucket": "by DDP in one bucket",
        ALONE: "by DDP if it exchanged no gradients", "dp": "by DataParallel",
    }  # fmt: skip
    known = {way: says.factor(run, size, label) for label, way in ways.items() if says.ran(run, size, label)}
    said = [f"with the same batch (strong scaling) {says.listed(known)}"] if known else []
    if works := _busy(run, size):
        said.append(works)
    weak = says.speedup(run, says.case(run, size, WEAK))
    if weak:
        per_second = says.in_words(weak.over(1 / RANKS))
        said.append(f"with a batch each as large as that of one (weak scaling) {per_second} as many samples per second")
    return said


def _busy(run: Results, size: str) -> str:
    """What share of a step the GPU works, with the whole batch and with half of it; empty if it was not counted.

    With weak scaling a rank has the whole batch, as the one GPU has.
    """
    shares = []
    for counts, label, words in ((WEAK, "one", "the whole batch"), (ALONE, ALONE, "half of it")):
        timed = says.case(run, size, label)
        seconds, step = says.counted(run, size, counts, "gpu_busy_s"), timed.median("wall") if timed else None
        if seconds and step:
            shares.append((seconds / step, words))
    if len(shares) < 2:
        return ""
    said = ", ".join(f"{100 * min(share, 1):.0f} % of a step with {words}" for share, words in shares)
    whole, half = (share < FULL for share, _ in shares)
    bound = ", so it is launch-bound" if whole else ", so half a batch is launch-bound" if half else ""
    return f"the GPU works {said}{bound}"


study = Study(
    file=__file__,
    summary="a batch on one GPU, and on two by DataParallel and DistributedDataParallel: strong and weak scaling",
    sizes={
        "small": {"batch": 64, "width": 512, "depth": 8},
        "large": {"batch": 16, "length": 64, "width": 1024, "depth": 8},  # 100 million parameters
        "heavy": {"batch": 32, "length": 256, "width": 1024, "depth": 8},
        "tiny": {"batch": 8, "width": 256, "depth": 8},  # more than one bucket
    },
    defaults={"cuda": ("small", "large", "heavy"), "cpu": ("small",)},
    variants=(
        Variant("one", one),
        Variant("dp", data_parallel, ("cuda",), "DataParallel splits a batch over GPUs"),
        Variant("ddp", distributed()),
        Variant("ddp+one_bucket", distributed(bucket_cap_mb=ALL)),
        Variant(ALONE, distributed(exchange=False)),
        Variant(WEAK, distributed(RANKS)),
    ),
    baseline="one",
    tolerance=1e-3,  # of gradients in float32, summed in another order
    finding=finding,
    about="A run is one step of SGD in float32. items: the samples of the whole batch; of ddp+weak, of both batches.\n"
    "gpu busy: how long a rank's GPU works in a step, without the exchange.\n"
    "rank0, rank1 wait share: the share of a step in which that rank waits for the other, until all gradients "
    "are there. It\n"
    "includes the time of a barrier.\n"
    "On a CPU, two processes share its cores (gloo). That shows that DDP works, not what it gains.",
)
