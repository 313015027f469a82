"""One of the processes that share the work of a study. `cudalab.study.ranks` starts it and gives it orders.

It is killed when the work is done: others may have ended, and a collective with them would never return.
"""

from __future__ import annotations

import sys
import traceback
from datetime import timedelta
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

import msgspec
import numpy as np

from cudalab.base.child import Parent
from cudalab.base.errors import InputError, message_of
from cudalab.spec import find

STUCK = timedelta(seconds=60)  # in a collective: longer than the slowest step, shorter than the supervisor's patience


class Begin(msgspec.Struct, tag=True):
    """Join the others at the store on this port. `devices`: the GPU of each rank, or none on a CPU."""

    devices: list[int]
    seed: int
    port: int


class Make(msgspec.Struct, tag=True):
    """Call a function of a file with the rank and the parameters, which makes a part."""

    file: str
    function: str
    parameters: dict[str, Any]


class Runs(msgspec.Struct, tag=True):
    """Do n runs of a part, back to back, at the same time as the other ranks."""

    part: int
    n: int


class Ask(msgspec.Struct, tag=True):
    """Call a part's method that returns numbers, arrays and tensors by name."""

    part: int
    name: str


Order = Begin | Make | Runs | Ask


class Array(msgspec.Struct):
    """An array or a number, whose bits arrive as they are: JSON has no NaN."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes

    @classmethod
    def of(cls, value: Any) -> Array:
        if hasattr(value, "detach"):
            value = value.detach().cpu()
            value = (value.double() if value.is_floating_point() else value).numpy()
        array = np.asarray(value)
        if array.dtype.kind not in "fiub":
            raise InputError(f"a rank's part returned {type(value).__name__}; return numbers, arrays and tensors")
        return cls(array.dtype.str, array.shape, array.tobytes())

    def value(self) -> Any:
        """Return a number for an array without dimensions."""
        array = np.frombuffer(self.data, self.dtype).reshape(self.shape)
        return array if array.ndim else array.item()


class Answer(msgspec.Struct):
    """The answer to an order: the `error` if it failed, else the part's number (Make), seconds (Runs) or `found`
    (Ask)."""

    error: str = ""
    part: int = 0
    seconds: float = 0.0
    found: dict[str, Array] = {}


class Part(Protocol):
    """One rank's part of the work, made by a study's function. Other methods are for `Ask`."""

    def run(self) -> object:
        """Do one run, which may only be enqueued."""


class Rank:
    """This process among the others: `number` of `count`, and the torch device that is its own."""

    def __init__(self, number: int, count: int) -> None:
        self.number, self.count = number, count
        self.where, self.seed = "cpu", 0
        self._parts: list[Part] = []

    def do(self, order: Order) -> Answer:
        if isinstance(order, Begin):
            self._begin(order)
            return Answer()
        if isinstance(order, Make):
            if "torch" in sys.modules:
                sys.modules["torch"].manual_seed(self.seed)
            make = getattr(find.loaded(Path(order.file)), order.function)
            self._parts.append(make(self, **order.parameters))
            return Answer(part=len(self._parts) - 1)
        part = self._parts[order.part]
        if isinstance(order, Runs):
            return Answer(seconds=self._runs(part, order.n))
        return Answer(found={name: Array.of(value) for name, value in getattr(part, order.name)().items()})

    def _begin(self, order: Begin) -> None:
        import torch
        import torch.distributed as dist

        self.seed = order.seed
        backend, own = "gloo", None
        if order.devices:
            backend, own = "nccl", torch.device("cuda", order.devices[self.number])
            self.where = str(own)
            torch.cuda.set_device(own)
        store = dist.TCPStore("127.0.0.1", order.port, self.count, is_master=False)
        dist.init_process_group(
            backend, store=store, rank=self.number, world_size=self.count, timeout=STUCK, device_id=own
        )

    def _runs(self, part: Part, n: int) -> float:
        """Seconds from when all ranks begin with n runs to when all have done them."""
        run = part.run
        self.together()
        start = perf_counter()
        for _ in range(n):
            run()
        self.together()
        return perf_counter() - start

    def synchronize(self) -> None:
        """Wait for what this rank has enqueued."""
        if self.where != "cpu":
            sys.modules["torch"].cuda.synchronize()

    def together(self) -> None:
        """Wait until every rank has finished its enqueued work and calls this too."""
        import torch.distributed as dist

        self.synchronize()
        dist.barrier()


def main(parent: Parent, number: str, count: str) -> None:
    rank = Rank(int(number), int(count))
    parent.answer(Answer())  # it has started
    for order in parent.orders(Order):
        try:
            parent.answer(rank.do(order))
        except Exception as error:  # any library's
            traceback.print_exc()
            parent.answer(Answer(error=message_of(error)))
