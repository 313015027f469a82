"""What does it cost that the sequences of a batch differ in length, and what if they are shared out by their tokens?

DistributedDataParallel exchanges gradients in every step, so in every step all ranks wait for the one that has most to
do. A sampler that counts sequences, as DistributedSampler does, gives each rank equally many sequences of any length,
and the other ranks wait for the one with the longest. Assigning the longest sequences first, each to the rank with the
fewest tokens so far, makes the same step of the same batch, with a more even load. A wait remains because work is not
proportional to tokens: attention grows with the square of a sequence's length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cudalab.results.record import Results
from cudalab.study import Study, Variant, Work, ranks, says
from cudalab.study.lab import Lab
from cudalab.study.rank import Rank

VOCABULARY = 256
SPREAD = 1.0  # standard deviation of the logarithm of the lengths: a long tail, like texts
LONGEST = 8  # in multiples of the mean
RANKS = 2


def drawn(seed: int, batches: int, sequences: int, mean: int, even: bool = False) -> list[list[int]]:
    """The lengths of each batch's sequences. `even`: as many tokens in sequences of (nearly) equal length."""
    rng = np.random.default_rng(seed)
    raw = rng.lognormal(np.log(mean) - SPREAD**2 / 2, SPREAD, (batches, sequences))
    uneven = np.clip(np.rint(raw), 1, LONGEST * mean).astype(int)
    if not even:
        return uneven.tolist()
    return [[(total + i) // sequences for i in range(sequences)] for total in uneven.sum(1).tolist()]


def by_count(lengths: Sequence[int], count: int) -> list[list[int]]:
    """The sequences of each rank, by index: every count-th, like DistributedSampler."""
    return [list(range(number, len(lengths), count)) for number in range(count)]


def by_tokens(lengths: Sequence[int], count: int) -> list[list[int]]:
    """Assign the longest sequence first, each to the rank with the fewest tokens."""
    shares: list[list[int]] = [[] for _ in range(count)]
    tokens = [0] * count
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        least = tokens.index(min(tokens))
        shares[least].append(i)
        tokens[least] += lengths[i]
    return shares


WAYS = {"by_count": by_count, "by_tokens": by_tokens}


def encoder(width: int, depth: int) -> Any:
    """Make a transformer for concatenated sequences: one matrix product for all, attention in each, no padding."""
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.heads = max(1, width // 64)
            self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x: Any, lengths: Sequence[int]) -> Any:
            each = self.qkv(self.before(x)).split(lengths)
            x = x + self.out(torch.cat([self.attended(rows) for rows in each]))
            return x + self.mlp(self.between(x))

        def attended(self, rows: Any) -> Any:
            """Compute the attention in one sequence, from (length, 3 * width) to (length, width)."""
            q, k, v = rows.view(1, len(rows), 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            return nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(len(rows), -1)

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.classify = nn.Embedding(VOCABULARY, width), nn.Linear(width, VOCABULARY)
            self.blocks = nn.ModuleList(Block() for _ in range(depth))

        def forward(self, tokens: Any, lengths: Sequence[int]) -> Any:
            x = self.embedding(tokens)
            for block in self.blocks:
                x = block(x, lengths)
            return self.classify(x)

    return Encoder()


def loss(model: Any, batch: tuple[Any, Any, list[int], float]) -> Any:
    """The sum over this rank's tokens, not their mean: so each token has the same weight."""
    from torch.nn.functional import cross_entropy

    tokens, labels, lengths, share = batch
    return cross_entropy(model(tokens, lengths), labels, reduction="sum") * share


def part(rank: Rank, way: str, lengths: list[list[int]], width: int, depth: int) -> Any:
    """A rank's share of every batch."""
    import torch

    from cudalab.study.sharded import Shared

    model = encoder(width, depth).to(rank.where)
    batches = []
    for each in lengths:
        tokens, labels = torch.randint(VOCABULARY, (2, sum(each)))
        mine = WAYS[way](each, rank.count)[rank.number]
        own = [(tokens.split(each)[i], labels.split(each)[i]) for i in mine]
        # DDP takes the mean over the ranks; times their number it is the sum.
        share = rank.count / sum(each)
        x, y = (torch.cat(list(rows)).to(rank.where) for rows in zip(*own, strict=True))
        batches.append((x, y, [each[i] for i in mine], share))
    return Shared(rank, model, loss, batches)


def shared(way: str, even: bool = False) -> Any:
    def make(lab: Lab) -> Work:
        lengths = drawn(lab.seed, lab["batches"], lab["sequences"], lab["mean"], even)
        total = sum(map(sum, lengths))
        work = ranks.work(lab, part, total, way=way, lengths=lengths, width=lab["width"], depth=lab["depth"])
        if even:
            work.result = None
            work.notes.append("computes something else: other sequences, of as many tokens")
        counted, busiest = work.quantities, [_busiest(each, way) for each in lengths]
        work.quantities = lambda: {"busiest_rank_tokens": sum(busiest) / len(busiest)} | dict(counted())
        return work

    return make


def _busiest(lengths: Sequence[int], way: str) -> int:
    """Tokens of the rank with the most tokens in a batch."""
    return max(sum(lengths[i] for i in mine) for mine in WAYS[way](lengths, RANKS))


def finding(run: Results) -> str:
    """At the largest size: the gain of assigning by tokens, and the wait that it removes."""
    size = says.sizes(run)[-1]
    said = f"DDP with sequences assigned by tokens is {says.factor(run, size, 'by_tokens')} as fast as by count"
    waits = []
    for label in WAYS:
        shares = [says.counted(run, size, label, f"rank{number}_wait_share") for number in range(RANKS)]
        known = [f"{100 * share:.3g} %" for share in shares if share is not None]
        waits += [f"{' and '.join(known)} of a step {label.replace('_', ' ')}"] if known else []
    said += f"; its processes wait {', '.join(waits)}" if waits else ""
    even = says.factor(run, size, "even")
    return said + (f"; sequences of one length are {even} as fast" if even != "?" else "")


study = Study(
    file=__file__,
    summary="DDP on sequences of mixed lengths, assigned by count and by tokens, and on equal lengths",
    sizes={
        "small": {"sequences": 16, "mean": 64, "batches": 4, "width": 64, "depth": 2},
        "large": {"sequences": 16, "mean": 512, "batches": 8, "width": 768, "depth": 4},
        "tiny": {"sequences": 8, "mean": 16, "batches": 2, "width": 32, "depth": 1},
    },
    defaults={"cuda": ("large",), "cpu": ("small",)},
    variants=(
        Variant("by_count", shared("by_count")),
        Variant("by_tokens", shared("by_tokens")),
        Variant("even", shared("by_count", even=True)),
    ),
    baseline="by_count",
    tolerance=1e-3,  # of gradients in float32, summed in another order
    finding=finding,
    about="A run is a pass over all batches, one step of SGD each, in two processes with one device each. "
    "items: its tokens.\n"
    "rank0, rank1 wait share: the share of a step in which that rank waits for the other, until all gradients "
    "are there. It\n"
    "includes the time of a barrier.\n"
    "On a CPU, two processes share its cores: a waiting process leaves them to the other, so the gain is smaller.",
)
