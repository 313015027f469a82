"""Work that several processes share, a device each: torchrun starts them, the lab's worker orders, times and ends them.

The processes stay alive for a whole workload and do one variant's runs at a time, so that the engine's rounds can take
turns. They talk over a socket in a folder of their own, and end when the worker does, however it ends: see
`cudalab.study.rank`, which is what they run.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

import numpy as np

from cudalab.base import threads as parallel
from cudalab.base.errors import CudalabError, Unavailable
from cudalab.study import Work
from cudalab.study.lab import Lab, several

STARTING = 120.0  # seconds until all have loaded torch and found each other
ANSWER = 60.0  # seconds for one order
SLICE = 0.2  # seconds between two signs of life
GRACE = 5.0  # seconds for torchrun to see that its processes have ended
SAME = 1e-6  # ranks that exchange their gradients have the same, but for the order of a sum
LINES = 3  # of a process's last words

# NVLink multicast can put the GPUs of a host that others share out of service.
QUIET = {"NCCL_NVLS_ENABLE": "0"}
LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo"}  # all are on one machine, whose name may not resolve


def work(lab: Lab, function: Callable[..., Any], items: float = 0.0, **parameters: Any) -> Work:
    """What ranks do together, as a variant's Work. `function(rank, **parameters)` makes the part of each.

    It is called in each process, from its own file, and gives a `rank.Part` that has `result` (what ranks agree on:
    the first's is compared) and `counted` (quantities: those named rank_... are kept for every rank, of others the
    first's) as well. Raises Unavailable where there are not enough GPUs.
    """
    parts = together(lab).make(function, parameters)
    return Work(
        run=lambda: parts.runs(1),
        result=lambda: agreed(parts.ask("result")),
        clocks={"wall": clock(parts)},
        quantities=lambda: named(parts.ask("counted")),
        items=items,
    )


def clock(parts: Parts) -> Callable[[], list[float]]:
    """Samples of the wall time of a run, of so many back to back as `Lab.wall` takes."""
    runs = 0

    def sample() -> list[float]:
        nonlocal runs
        runs = runs or several(parts.runs)
        return [parts.runs(runs) / runs]

    return sample


def agreed(results: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The result of all ranks. Raises CudalabError if they are not of one mind."""
    first = results[0]
    for number, other in enumerate(results[1:], 1):
        for name, value in first.items():
            scale = float(np.abs(value).max(initial=0.0))
            if not np.allclose(other[name], value, rtol=0, atol=SAME * scale):
                raise CudalabError(f"rank {number} has other {name} than rank 0: they do not train one model")
    return first


def named(counted: Sequence[Mapping[str, float]]) -> dict[str, float]:
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

    def made() -> Ranks:
        ranks = Ranks(count, devices, lab.seed, lab.tick)
        lab.at_end.callback(ranks.end)
        return ranks

    ranks: Ranks = lab.once(("ranks", count), made)
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


def torchrun(count: int, folder: Path, address: str) -> list[str]:
    """The command that starts them, each with its standard error in a file below the folder."""
    return [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1",
        "--nproc-per-node", str(count), "--log-dir", str(folder), "--redirects", "2",
        "-m", "cudalab.study.rank", address,
    ]  # fmt: skip


def environment(count: int) -> dict[str, str]:
    """Of the processes; what the user has set stays."""
    cores = parallel.cores()
    threads = {"OMP_NUM_THREADS": str(max(1, cores // count))}
    path = os.pathsep.join(dict.fromkeys(os.path.abspath(place) for place in sys.path))
    return {**QUIET, **LOOPBACK, **threads, **os.environ, "PYTHONPATH": path}


@dataclass(frozen=True)
class Parts:
    """What a function has made of every rank."""

    ranks: Ranks
    number: int
    generation: int

    def runs(self, n: int) -> float:
        """Seconds that n runs take, back to back."""
        return float(self._order("runs", n)[0])

    def ask(self, name: str) -> list[Any]:
        """What a method of each rank's part says."""
        return self._order("ask", name)

    def _order(self, order: str, argument: Any) -> list[Any]:
        if self.generation != self.ranks.generation:
            raise CudalabError(f"the processes that it ran in are gone: {self.ranks.reason}")
        return self.ranks.order((order, self.number, argument))


class Ranks:
    """Processes that torchrun has started, or will for the first order. `end` must be called."""

    def __init__(
        self, count: int, devices: Sequence[int] = (), seed: int = 0, tick: Callable[[str], None] = lambda phase: None
    ) -> None:
        self.count, self.devices, self.seed, self.tick = count, list(devices), seed, tick
        self.generation = 0  # of processes: others are started after a failure
        self.reason = ""  # why the last were ended
        self.pids: list[int] = []
        self.answer = ANSWER
        self._lines: list[Connection] = []
        self._agent: subprocess.Popen[bytes] | None = None
        self._folder: TemporaryDirectory[str] | None = None

    def make(self, function: Callable[..., Any], parameters: Mapping[str, Any]) -> Parts:
        """Let every rank call the function; starts them if they are not there."""
        if self._agent is None:
            self.start()
            self._begin()
        place = str(Path(function.__code__.co_filename).resolve())
        order = ("make", place, function.__name__, dict(parameters))
        numbers = self.order(order, STARTING, "making the ranks' parts")
        return Parts(self, numbers[0], self.generation)

    def start(self) -> None:
        """Start the processes, which do not load torch yet."""
        self._folder = TemporaryDirectory(prefix="cudalab-ranks-", ignore_cleanup_errors=True)
        folder = Path(self._folder.name)
        address = str(folder / "socket")
        with socket.socket(socket.AF_UNIX) as server, open(folder / "agent.log", "wb") as log:
            server.bind(address)
            server.listen(self.count)
            # The folder it starts in is the first that Python looks for modules in: not the user's, where there may
            # well be a copy.py.
            self._agent = subprocess.Popen(
                torchrun(self.count, folder, address),
                cwd=folder, env=environment(self.count), stdin=subprocess.DEVNULL, stderr=log,
            )  # fmt: skip
            try:
                self._accept(server)
            except BaseException:
                self.end()
                raise

    def _accept(self, server: socket.socket) -> None:
        lines: dict[int, tuple[Connection, int]] = {}
        deadline = monotonic() + STARTING
        while len(lines) < self.count:
            self.tick(f"starting {self.count} processes")
            if wait([server], SLICE):
                line = Connection(server.accept()[0].detach())
                number, pid = line.recv()
                lines[number] = (line, pid)
            elif self._agent is not None and self._agent.poll() is not None:
                raise CudalabError(f"torchrun ended while it started {self.count} processes{self._words()}")
            elif monotonic() > deadline:
                raise CudalabError(f"{self.count} processes had not started within {STARTING:g} s{self._words()}")
        self._lines = [lines[number][0] for number in range(self.count)]
        self.pids = [lines[number][1] for number in range(self.count)]

    def _begin(self) -> None:
        self.order(("begin", self.devices, self.seed), STARTING, "the processes find each other")

    def order(self, order: tuple[Any, ...], limit: float = 0.0, phase: str = "") -> list[Any]:
        """What each rank answers. With a `phase`, signs of life are given while it lasts.

        Raises CudalabError, and ends all, if one fails, ends, or says nothing for so many seconds (0: `answer`): the
        others may be waiting for it inside a collective.
        """
        limit = limit or self.answer
        try:
            for line in self._lines:
                line.send(order)
            return self._answers(order[0], monotonic() + limit, limit, phase)
        except BaseException as error:
            self.reason = str(error) or type(error).__name__
            self.end()
            raise

    def _answers(self, order: str, deadline: float, limit: float, phase: str) -> list[Any]:
        answers: dict[int, Any] = {}
        while len(answers) < self.count:
            if phase:
                self.tick(phase)
            silent = [line for i, line in enumerate(self._lines) if i not in answers]
            for line in wait(silent, SLICE if phase else limit):
                assert isinstance(line, Connection)
                number = self._lines.index(line)
                answers[number] = self._answer(number)
            if len(answers) < self.count and monotonic() > deadline:
                missing = ", ".join(str(i) for i in range(self.count) if i not in answers)
                raise CudalabError(f"rank {missing} did not answer within {limit:g} s ({order})")
        return [answers[number] for number in range(self.count)]

    def _answer(self, number: int) -> Any:
        try:
            well, said = self._lines[number].recv()
        except (EOFError, OSError):
            raise CudalabError(f"rank {number} ended{self._words(number)}") from None
        if not well:
            self._gone(number)
            raise CudalabError(f"rank {number}: {said}")
        return said

    def _gone(self, failed: int) -> None:
        """Raise the error of a rank that has ended, where another failed because of that."""
        for line in wait([line for i, line in enumerate(self._lines) if i != failed], 1.0):
            assert isinstance(line, Connection)
            try:
                line.recv()
            except (EOFError, OSError):
                number = self._lines.index(line)
                raise CudalabError(f"rank {number} ended{self._words(number)}") from None

    def _words(self, number: int | None = None) -> str:
        """The last lines of a rank's standard error; if it has said nothing, what torchrun has to say about it."""
        assert self._folder is not None and self._agent is not None
        folder = Path(self._folder.name)
        own = folder.glob("*/*/*/stderr.log" if number is None else f"*/*/{number}/stderr.log")
        if said := [line for file in sorted(own) for line in _last(file)]:
            return ": " + " | ".join(said[-LINES:])
        try:
            self._agent.wait(GRACE)
        except subprocess.TimeoutExpired:
            return ""
        log = (folder / "agent.log").read_text(errors="replace")
        if code := re.search(r"exitcode\s*:\s*(-?\d+)", log):
            return f" with exit code {code[1]}"
        return ": " + " | ".join(_last(folder / "agent.log"))

    def end(self) -> None:
        """Hang up, so that they end, and wait for that. May be called twice."""
        for line in self._lines:
            line.close()
        self._lines, self.pids = [], []
        if self._agent is not None:
            try:
                self._agent.wait(GRACE)
            except subprocess.TimeoutExpired:
                self._agent.kill()
                self._agent.wait()
            self._agent = None
            self.generation += 1
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


def _last(file: Path) -> list[str]:
    lines = file.read_text(errors="replace").splitlines() if file.exists() else []
    return [line.strip() for line in lines if line.strip()][-LINES:]
