"""Training with batches split among ranks by DistributedDataParallel, and the same training on one device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from time import perf_counter
from typing import Any

from cudalab.study.rank import Rank

RATE = 1e-2  # large enough that the first losses differ, small enough that thousands of steps converge
PASSES = 3  # passes whose losses are compared
SOME = 100  # gradients of each parameter that are compared
WAITS = 5  # passes in which the ranks' waiting is measured


class Passes:
    """A model that is trained on the same batches. A run is a pass over them, a step is one batch.

    `loss(model, batch)` is a scalar whose mean over the ranks is that of the whole batch.
    """

    def __init__(self, model: Any, loss: Callable[[Any, Any], Any], batches: Sequence[Any]) -> None:
        import torch

        self.model, self.loss, self.batches = model, loss, batches
        self.parameters = list(model.parameters())
        self.start = [p.detach().clone() for p in self.parameters]
        self.optimizer = torch.optim.SGD(self.parameters, lr=RATE)

    def run(self) -> None:
        for batch in self.batches:
            self.step(batch)

    def step(self, batch: Any) -> Any:
        """Do one step. Returns the loss before it."""
        self.optimizer.zero_grad()
        loss = self.loss(self.model, batch)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def result(self) -> dict[str, Any]:
        """Restart from the first weights: losses of PASSES passes, the last gradients, a checksum of the weights."""
        import torch

        with torch.no_grad():
            for p, first in zip(self.parameters, self.start, strict=True):
                p.copy_(first)
        losses = torch.stack([self.step(batch) for _ in range(PASSES) for batch in self.batches])
        gradients = torch.cat([p.grad.flatten()[:SOME] for p in self.parameters])
        checksum = sum(float(p.detach().double().sum()) for p in self.parameters)
        return {
            "losses": self.mean(losses).cpu().numpy(), "gradients": gradients.cpu().numpy(), "checksum": checksum
        }  # fmt: skip

    def mean(self, losses: Any) -> Any:
        """Return the mean over all ranks."""
        return losses

    def counted(self) -> dict[str, float]:
        return {"gradient_bytes": float(sum(p.nbytes for p in self.parameters))}


class Shared(Passes):
    """A rank's part of the training. `exchange` False: ranks do not exchange gradients, which shows what that costs."""

    def __init__(
        self, rank: Rank, model: Any, loss: Callable[[Any, Any], Any], batches: Sequence[Any], exchange: bool = True,
        **options: Any,
    ) -> None:  # fmt: skip
        import torch

        own = [torch.device(rank.where)] if rank.where != "cpu" else None
        super().__init__(torch.nn.parallel.DistributedDataParallel(model, own, **options), loss, batches)
        self.rank, self.exchange = rank, exchange

    def step(self, batch: Any) -> Any:
        with self._around():
            return super().step(batch)

    def _around(self) -> AbstractContextManager[Any]:
        apart: AbstractContextManager[Any] = self.model.no_sync()
        return nullcontext() if self.exchange else apart

    def mean(self, losses: Any) -> Any:
        import torch.distributed as dist

        total = losses.clone()
        dist.all_reduce(total)
        return total / self.rank.count

    def counted(self) -> dict[str, float]:
        """Also the bytes that a step all-reduces, their buckets, and the share of a step that a rank waits."""
        if not self.exchange:
            return super().counted() | {"allreduce_bytes": 0.0, "buckets": 0.0}
        return super().counted() | self._exchanged() | {"rank_wait_share": self._waits()}

    def afterwards(self) -> dict[str, float]:
        """How long this rank's GPU works in one run without the exchange, in which it would also wait; {} on a CPU.

        Asked for after the timing: launches take longer in a process that has recorded some.
        """
        from cudalab.tools.profile import events

        if self.rank.where == "cpu":
            return {}
        before, self.exchange = self.exchange, False
        try:
            return {"gpu_busy_s": events.record(self.run, self.rank.synchronize, cuda=True).counts()["gpu_busy_s"]}
        finally:
            self.exchange = before

    def _exchanged(self) -> dict[str, float]:
        """Bytes and buckets by DDP's log. DDP rebuilds its buckets after the first step, in the order of the
        gradients."""
        log = self.model._get_ddp_logging_data()
        buckets = (log.get("rebuilt_bucket_sizes") or log["bucket_sizes"]).split(", ")
        return {"allreduce_bytes": float(sum(map(int, buckets))), "buckets": float(len(buckets))}

    def _waits(self) -> float:
        """The share of a step, up to the last gradient, that this rank waits for the slowest one.

        Measured in separate steps that end in a barrier instead of the all-reduce, and change no weights.
        """
        busy = waiting = 0.0
        self.exchange = False
        self._rate(0.0)
        for batch in [batch for _ in range(WAITS) for batch in self.batches]:
            self.rank.together()
            start = perf_counter()
            self.step(batch)
            self.rank.synchronize()
            done = perf_counter()
            self.rank.together()
            busy, waiting = busy + done - start, waiting + perf_counter() - done
        self._rate(RATE)
        self.exchange = True
        return waiting / (busy + waiting)

    def _rate(self, rate: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = rate
