"""Work that several processes share, a device each: the lab's worker starts them, gives them orders and times them.

The processes stay alive for a whole workload and do one variant's runs at a time, so that the engine's rounds can take
turns. They end when the worker ends. `cudalab.study.rank` is what they run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from cudalab.base.child import OUT, SLICE, Child, Ended, last, wait
from cudalab.base.errors import CudalabError, Unavailable
from cudalab.base.threads import cores
from cudalab.study.lab import Lab, several
from cudalab.study.rank import Answer, Ask, Begin, Make, Order, Runs
from cudalab.study.record import Work

STARTING = 120.0  # seconds until all have loaded torch and found each other
ANSWER = 60.0  # seconds for one order
SAME = 1e-6  # allowed difference: ranks that exchange gradients differ only by the order of a sum
LINES = 3  # of a process's last words

# NVLink multicast can put the GPUs of a host that others share out of service.
QUIET = {"NCCL_NVLS_ENABLE": "0"}
LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo"}  # all are on one machine, whose name may not resolve


def work(lab: Lab, function: Callable[..., Any], items: float = 0.0, **parameters: Any) -> Work:
    """A variant's Work that all ranks do together. `function(rank, **parameters)` makes the part of each.

    It is called in each process, from its own file, with parameters that JSON can hold. It returns a `rank.Part` that
    has three more methods: `result` (arrays by name that all ranks agree on; the first rank's are compared), `counted`
    and, after the timing, `afterwards` (quantities; those named rank_... are kept for every rank, of the others the
    first rank's). Raises Unavailable where there are not enough GPUs.
    """
    parts = together(lab).make(function, parameters)
    return Work(
        run=lambda: parts.runs(1),
        result=lambda: agreed(parts.ask("result")),
        clocks={"wall": clock(parts)},
        quantities=lambda: by_rank(parts.ask("counted")),
        afterwards=lambda: by_rank(parts.ask("afterwards")),
        items=items,
    )


def clock(parts: Parts) -> Callable[[], list[float]]:
    """Samples of a run's wall time, each over as many runs back to back as `Lab.wall` takes."""
    runs = 0

    def sample() -> list[float]:
        nonlocal runs
        runs = runs or several(parts.runs)
        return [parts.runs(runs) / runs]

    return sample


def agreed(results: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The result of all ranks. Raises CudalabError if they differ."""
    first = results[0]
    for number, other in enumerate(results[1:], 1):
        for name, value in first.items():
            scale = float(np.abs(value).max(initial=0.0))
            if not np.allclose(other[name], value, rtol=0, atol=SAME * scale):
                raise CudalabError(f"rank {number} has different {name} than rank 0: the ranks do not train one model")
    return first


def by_rank(counted: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Quantities of all ranks: `rank_x` of rank 1 as `rank1_x`."""
    found = {name: value for name, value in counted[0].items() if not name.startswith("rank_")}
    for number, each in enumerate(counted):
        found |= {name.replace("rank_", f"rank{number}_", 1): v for name, v in each.items() if name.startswith("rank_")}
    return found


def together(lab: Lab, count: int = 2) -> Ranks:
    """The ranks of this workload, which all its variants share. Raises Unavailable if there is not a GPU for each."""
    devices = gpus(lab, count)
    torch = lab.torch()
    backend = "nccl" if devices else "gloo"
    if not (torch.distributed.is_available() and getattr(torch.distributed, f"is_{backend}_available")()):
        raise Unavailable(f"this PyTorch was built without {backend}; install one of the official builds")

    def start_ranks() -> Ranks:
        ranks = Ranks(count, devices, lab.seed, lab.tick)
        lab.at_end.callback(ranks.end)
        return ranks

    ranks: Ranks = lab.once(("ranks", count), start_ranks)
    return ranks


def gpus(lab: Lab, count: int = 2) -> list[int]:
    """The numbers of `count` GPUs, the lab's own first; none on a CPU. Raises Unavailable if there are fewer."""
    torch = lab.torch()
    if not lab.cuda:
        return []
    own, here = lab.device.index, torch.cuda.device_count()  # type: ignore[attr-defined]
    if here < count:
        raise Unavailable(f"needs {'two' if count == 2 else count} GPUs, and PyTorch sees {here}")
    return [own, *(i for i in range(here) if i != own)][:count]


def environment(count: int) -> dict[str, str]:
    """The environment of the processes; variables that the user has set stay."""
    threads = {"OMP_NUM_THREADS": str(max(1, cores() // count))}
    return {**QUIET, **LOOPBACK, **threads, **os.environ}


@dataclass(frozen=True)
class Parts:
    """The parts that a function has made, one on each rank."""

    ranks: Ranks
    number: int
    generation: int

    def runs(self, n: int) -> float:
        """Seconds that n runs take, back to back."""
        return self._order(Runs(self.number, n))[0].seconds

    def ask(self, name: str) -> list[dict[str, Any]]:
        """The results of a method of each rank's part."""
        answers = self._order(Ask(self.number, name))
        return [{key: array.value() for key, array in answer.found.items()} for answer in answers]

    def _order(self, order: Order) -> list[Answer]:
        if self.generation != self.ranks.generation:
            raise CudalabError(f"the processes that it ran in are gone: {self.ranks.reason}")
        return self.ranks.order(order)


class Ranks:
    """Processes that are started for the first order. `end` must be called."""

    def __init__(
        self, count: int, devices: Sequence[int] = (), seed: int = 0, tick: Callable[[str], None] = lambda phase: None
    ) -> None:
        self.count, self.devices, self.seed, self.tick = count, list(devices), seed, tick
        self.generation = 0  # of processes: others are started after a failure
        self.reason = ""  # why the last were ended
        self.answer = ANSWER
        self._children: list[Child[Answer]] = []
        self._store: Any = None  # where they find each other

    @property
    def pids(self) -> list[int]:
        return [child.pid for child in self._children]

    def make(self, function: Callable[..., Any], parameters: Mapping[str, Any]) -> Parts:
        """Let every rank call the function; starts them if they are not there. `parameters` are what JSON can hold."""
        if not self._children:
            self.start()
            self._begin()
        place = str(Path(function.__code__.co_filename).resolve())
        order = Make(place, function.__name__, dict(parameters))
        return Parts(self, self.order(order, STARTING, "making the ranks' parts")[0].part, self.generation)

    def start(self) -> None:
        """Start the processes, which do not load torch yet, and wait until they take orders."""
        for number in range(self.count):
            own = {"RANK": str(number), "LOCAL_RANK": str(number), "WORLD_SIZE": str(self.count)}
            self._children.append(
                Child(
                    "cudalab.study.rank.main", str(number), str(self.count), answers=Answer,
                    env={**environment(self.count), **own}, echo=(OUT,),
                )
            )  # fmt: skip
        self.order(None, STARTING, f"starting {self.count} processes")

    def _begin(self) -> None:
        from torch.distributed import TCPStore

        self._store = TCPStore("127.0.0.1", 0, self.count, is_master=True, wait_for_workers=False)
        self.order(Begin(self.devices, self.seed, self._store.port), STARTING, "connecting the processes")

    def order(self, order: Order | None, limit: float = 0.0, phase: str = "") -> list[Answer]:
        """Give an order and return each rank's answer; None: wait for the answers to the start. `phase`: give signs of
        life.

        Raises CudalabError, and ends all, if one fails, ends, or does not answer within `limit` seconds (0: `answer`):
        the others may be waiting for it inside a collective.
        """
        try:
            for child in self._children if order else ():
                child.send(order)
            return self._answers(type(order).__name__.lower() if order else "start", limit or self.answer, phase)
        except BaseException as error:
            self.reason = str(error) or type(error).__name__
            self.end()
            raise

    def _answers(self, order: str, limit: float, phase: str) -> list[Answer]:
        answers: dict[int, Answer] = {}
        deadline = monotonic() + limit
        while silent := [number for number in range(self.count) if number not in answers]:
            if phase:
                self.tick(phase)
            if (left := deadline - monotonic()) < 0:
                raise CudalabError(f"rank {', '.join(map(str, silent))} did not answer within {limit:g} s ({order})")
            wait([self._children[number] for number in silent], min(left, SLICE) if phase else left)
            for number in silent:
                for answer in self._poll(number):
                    if answer.error:
                        self._find_ended([other for other in range(self.count) if other != number])
                        raise CudalabError(f"rank {number}: {answer.error}")
                    answers[number] = answer
        return [answers[number] for number in range(self.count)]

    def _poll(self, number: int, seconds: float = 0.0) -> list[Answer]:
        """A rank's answer, if there is one. Raises CudalabError with its last words if it has ended."""
        try:
            return self._children[number].poll(seconds)
        except Ended as ended:
            words = last(ended.said, LINES)
            raise CudalabError(f"rank {number} " + (f"ended: {words}" if words else ended.how)) from None

    def _find_ended(self, others: list[int]) -> None:
        """Raise the error of a rank that has ended within a second: it is why another one failed."""
        deadline = monotonic() + 1.0
        while others and monotonic() < deadline:
            others = [number for number in others if not self._poll(number, SLICE)]

    def end(self) -> None:
        """Kill the processes. May be called twice."""
        if self._children:
            for child in self._children:
                child.kill()
            self._children, self._store = [], None
            self.generation += 1
