"""One of the processes that torchrun starts for a study: it does what the lab's worker orders, until that hangs up.

`cudalab.study.ranks` is the other end. Orders are tuples whose first word is the method of `Rank` that does it.
"""

from __future__ import annotations

import os
import queue
import shutil
import sys
import threading
import traceback
from datetime import timedelta
from multiprocessing.connection import Client, Connection
from pathlib import Path
from time import perf_counter
from typing import Any, NoReturn, Protocol

from cudalab.base.errors import named
from cudalab.spec import find

STUCK = timedelta(seconds=60)  # in a collective: longer than the slowest step, shorter than the supervisor's patience


class Part(Protocol):
    """What a study's function makes of a rank: this rank's part of the work. Other methods are for `ask`."""

    def run(self) -> object:
        """Do one run, which may only be enqueued."""


class Rank:
    """This process among the others: `number` of `count`, and the torch device that is its own."""

    def __init__(self, number: int, count: int) -> None:
        self.number, self.count = number, count
        self.where, self.seed = "cpu", 0
        self._parts: list[Part] = []

    def begin(self, devices: list[int], seed: int) -> None:
        """Join the others. `devices`: the GPU of each, or none on a CPU."""
        import torch
        import torch.distributed as dist

        self.seed = seed
        if not devices:
            dist.init_process_group("gloo", timeout=STUCK)
            return
        own = torch.device("cuda", devices[self.number])
        self.where = str(own)
        torch.cuda.set_device(own)
        dist.init_process_group("nccl", timeout=STUCK, device_id=own)

    def make(self, file: str, function: str, parameters: dict[str, Any]) -> int:
        """Call a function of a file with this rank and the parameters; the number of the part that it made."""
        if "torch" in sys.modules:
            sys.modules["torch"].manual_seed(self.seed)
        self._parts.append(getattr(find.loaded(Path(file)), function)(self, **parameters))
        return len(self._parts) - 1

    def runs(self, part: int, n: int) -> float:
        """Seconds from when all ranks begin with n runs, back to back, to when all have done them."""
        run = self._parts[part].run
        self.together()
        start = perf_counter()
        for _ in range(n):
            run()
        self.together()
        return perf_counter() - start

    def ask(self, part: int, name: str) -> Any:
        """What the method of that name says."""
        return getattr(self._parts[part], name)()

    def synchronize(self) -> None:
        """Wait for what this rank has enqueued."""
        if self.where != "cpu":
            sys.modules["torch"].cuda.synchronize()

    def together(self) -> None:
        """Wait until every rank has done what it had enqueued and is here."""
        import torch.distributed as dist

        self.synchronize()
        dist.barrier()


def main() -> None:
    address = sys.argv[1]
    number, count = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE"))
    try:
        line = Client(address, "AF_UNIX")
    except OSError:  # the worker ended meanwhile
        _leave(address)
    line.send((number, os.getpid()))
    orders: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(line, orders, address), daemon=True).start()
    rank = Rank(number, count)
    while True:
        order, *arguments = orders.get()
        try:
            line.send((True, getattr(rank, order)(*arguments)))
        except Exception as error:  # any library's
            traceback.print_exc()
            line.send((False, named(error)))


def _listen(line: Connection, orders: queue.SimpleQueue[tuple[Any, ...]], address: str) -> None:
    """Take orders while the main thread works, so that the worker's end is noticed even inside a collective."""
    while True:
        try:
            orders.put(line.recv())
        except (EOFError, OSError):
            _leave(address)


def _leave(address: str) -> NoReturn:
    """End at once: others may be gone, and a collective with them would never end."""
    shutil.rmtree(Path(address).parent, ignore_errors=True)  # a worker that was killed cannot do it
    os._exit(0)


if __name__ == "__main__":
    main()
