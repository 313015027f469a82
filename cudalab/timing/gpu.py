"""Times on a GPU, by kind: cold, hot, call, api, graph, graph_cold. bench/METHOD.md defines each.

A variant whose work waits for the GPU cannot be measured with a held queue; its row says so. A graph is replayed once
before it is timed, and its outputs must have been written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from time import perf_counter
from typing import Any
from weakref import WeakKeyDictionary

from cudalab.base.errors import CudalabError, LaunchError
from cudalab.device.arrays import as_plain
from cudalab.device.gpu import Gpu
from cudalab.device.operands import Bound
from cudalab.spec.kernel import blocks
from cudalab.timing.clock import Clock
from cudalab.timing.events import CALLS_MOST, COLD, HOT_LEAST, HOT_MOST, Timer, affordable
from cudalab.timing.graph import Graph

ROTATION = 5  # times the L2's size that the buffers of a cold graph hold together
MOST_SETS = 1024  # of operands in a cold graph
NOT_HELD = "waits for the GPU inside: the queue was not held, launch gaps are counted"
LET_GO = "in some samples the held queue let go by itself: they hold launch gaps, or a wait for the GPU"
HOST_WIDTH = 0.05  # relative width at which a host time's median is known; wider where a sample has few calls
API_WARM_UPS = 3  # warm-up calls; the first may compile or load code

_timers: WeakKeyDictionary[Gpu, Timer] = WeakKeyDictionary()


def timer_of(device: Gpu) -> Timer:
    """The timer on a device's stream: made at the first call, and kept as long as the device."""
    if device not in _timers:
        _timers[device] = Timer(device)
    return _timers[device]


def prepare(device: Gpu) -> None:
    timer_of(device)


def warm_up(device: Gpu, bound: Bound) -> float:
    start = perf_counter()
    bound.run()
    device.stream.synchronize()
    first = perf_counter() - start
    for _ in range(4):
        bound.run()
    device.stream.synchronize()
    return first


def clocks(device: Gpu, bound: Bound, modes: Collection[str], notes: list[str]) -> dict[str, Clock]:
    timer, found = timer_of(device), dict[str, Clock]()
    held = timer.blocking and timer.can_hold(bound.run)
    if timer.blocking and not held:
        notes.append(NOT_HELD)
    once = timer.once(bound.run, held)
    runs = timer.batch(bound.run, once, held)
    calls = timer.calls(once)
    width = HOST_WIDTH * (CALLS_MOST / calls) ** 0.5
    if "launch" in modes:
        samples = affordable(COLD, once)
        found["cold"] = Clock(_noting(timer, lambda: timer.cold(bound.run, samples, held), notes), bound)
        found["hot"] = Clock(_noting(timer, lambda: timer.hot(bound.run, runs, held), notes), bound)
        found["call"] = Clock(lambda: timer.host(bound.run, calls), bound, width=width)
    if "api" in modes and bound.api:
        try:
            found["api"] = _api_clock(timer, bound.api(), calls, width)
        except CudalabError as error:
            notes.append(f"no api time: {error}")
    if "graph" in modes:
        try:
            found["graph"] = graph_clock(device, [bound] * runs, flush=False)
            found["graph_cold"] = graph_clock(device, rotating(device, bound), flush=True)
        except CudalabError as error:
            notes.append(f"no graph: {error}")
    return found


def calibrate(device: Gpu, modes: Collection[str]) -> dict[str, list[float]]:
    timer = timer_of(device)
    found = timer.floors()
    if "graph" in modes:
        try:
            graph = Graph([Bound(timer.empty, lambda: None)] * HOT_MOST, device.stream)
        except CudalabError:
            return found  # every row will say why
        nodes = (timer.replay(graph.replay, graph.runs, flush=False) for _ in range(50))
        found["empty graph node"] = [t for samples in nodes for t in samples]
        graph.close()
    return found


def graph_clock(device: Gpu, bounds: Sequence[Bound], flush: bool) -> Clock:
    """A clock that replays one run of each of `bounds`; raises LaunchError if a replay leaves an output unwritten."""
    timer, graph = timer_of(device), Graph(bounds, device.stream)
    device.at_release.callback(graph.close)
    for work in graph.works:
        device.poison(work.output())
    poisoned = device.fingerprint(graph.works[0].output())
    graph.replay()
    unwritten = sum(device.fingerprint(work.output()) == poisoned for work in graph.works)
    if unwritten and as_plain(graph.works[0].output()).size:
        raise LaunchError(f"a replay left {unwritten} of {len(graph.works)} outputs unwritten")
    return Clock(lambda: timer.replay(graph.replay, graph.runs, flush), graph.works[-1], graph.build_seconds)


def rotating(device: Gpu, bound: Bound) -> list[Bound]:
    """The variant on so many sets of operands that each run finds nothing of its own in L2."""
    if bound.again is None:
        raise LaunchError("this variant cannot be bound to other arrays")
    (first, *_) = device.operand_sets(1)
    footprint = sum(a.nbytes for a in (*first.inputs.values(), first.output))
    wanted = min(blocks(ROTATION * device.attribute("L2_CACHE_SIZE"), max(footprint, 1)), MOST_SETS)
    bounds = [bound.again(operands) for operands in device.operand_sets(wanted)]
    return (bounds * HOT_LEAST)[: max(len(bounds), HOT_LEAST)]


def _api_clock(timer: Timer, call: Callable[[], Any], calls: int, width: float) -> Clock:
    """A clock of the host's time for a call as a user makes it, which returns a new array."""
    last: list[Any] = [None]

    def run() -> None:
        last[0] = call()

    for _ in range(API_WARM_UPS):
        run()
    return Clock(lambda: timer.host(call, calls), Bound(run, lambda: last[0]), width=width)


def _noting(timer: Timer, sample: Callable[[], list[float]], notes: list[str]) -> Callable[[], list[float]]:
    """`sample`, which adds LET_GO to the notes if a hold expires during it."""

    def noting() -> list[float]:
        before = timer.expired
        samples = sample()
        if timer.expired > before and LET_GO not in notes:
            notes.append(LET_GO)
        return samples

    return noting
