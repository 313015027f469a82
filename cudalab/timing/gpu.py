"""Times on a GPU, by kind: cold, hot, call, api, graph, graph_cold; burst and sustained; energy. bench/METHOD.md
defines each.

A variant whose work waits for the GPU cannot be measured with a held queue; its row says so. With a `Proof`, the
contents of the inputs change between samples, outputs are poisoned before each, and every result is verified.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from time import perf_counter
from typing import Any
from weakref import WeakKeyDictionary

from cudalab.base import stats
from cudalab.base.errors import CudalabError, LaunchError, out_of_memory
from cudalab.device.gpu import Gpu
from cudalab.device.operands import Bound, Operands
from cudalab.spec.kernel import blocks
from cudalab.timing.alone import Neighbours
from cudalab.timing.clock import LOADED, Clock
from cudalab.timing.energy import energy_clock
from cudalab.timing.events import (
    CALL_SPAN,
    CALLS_LEAST,
    CALLS_MOST,
    COLD,
    HOT_LEAST,
    HOT_MOST,
    HOT_SPAN,
    ROUND_SPAN,
    Timer,
    affordable,
)
from cudalab.timing.graph import Graph
from cudalab.timing.load import REUSED
from cudalab.timing.proof import CPU, NOT_CONFIRMED, Proof
from cudalab.timing.sustained import sustained_clocks
from cudalab.timing.work import (
    Batch,
    FreshCode,
    Repeated,
    Replay,
    Returning,
    RotatingReplay,
    SharedResult,
    Unproven,
    Work,
    apart,
    own_outputs,
    repeatable,
    spent,
)

ROTATION = 5  # times the L2's size that the buffers of a cold graph hold together
MOST_SETS = 1024  # of operands in a cold graph
NOT_HELD = "waits for the GPU inside the call, so the queue cannot be held and the time includes launch gaps"
LET_GO = "in some samples the queue was not held long enough: they include launch gaps, or a wait for the GPU"
HOST_WIDTH = 0.05  # relative width at which a host time's median is known; wider where a sample has few calls
WRITTEN = 8e12  # bytes a second that no GPU of today writes to its memory
SEVERAL = {"hot": "hot", "graph": "in a graph", "graph_cold": "in a graph of cold runs"}  # times of several runs
API_WARM_UPS = 3  # warm-up calls; the first may compile or load code
KEEPS = (
    "the .cu keeps {} B in __device__ variables from one launch to the next, so a run may reuse an earlier "
    "result: the cold time is taken with newly loaded code, and there is no hot or graph time"
)
KEEPS_ALL = "the .cu keeps {} B in variables of its own from one launch to the next; only pycuda's rows are timed"
LOCAL = 64  # bytes a thread; CUDA's own sin and cos take up to 40 for large values
LOCAL_OUTLIVES = (
    "a thread uses {} B of local memory, which outlives a launch: a run of a batch or graph may find there what an "
    "earlier one left; a run alone bounds what that saves"
)

_timers: WeakKeyDictionary[Gpu, Timer] = WeakKeyDictionary()


def timer_of(device: Gpu, flush: str = "") -> Timer:
    """The timer on a device's stream: made at the first call or for another `flush`, kept as long as the device."""
    known = _timers.get(device)
    if known is None or (flush and known.flush != flush):
        known = _timers[device] = Timer(device, flush or "clean")
    return known


def prepare(device: Gpu, flush: str) -> None:
    timer_of(device, flush)


def warm_up(device: Gpu, bound: Bound) -> float:
    run = repeatable(device, bound)
    start = perf_counter()
    run()
    device.stream.synchronize()
    first = perf_counter() - start
    for _ in range(4):
        run()
    device.stream.synchronize()
    return first


def clocks(
    device: Gpu, bound: Bound, modes: Collection[str], notes: list[str], proof: Proof | None = None,
    alive: Callable[[], object] = lambda: None,
) -> dict[str, Clock]:  # fmt: skip
    timer, found = timer_of(device), dict[str, Clock]()
    if bound.kept and not bound.fresh and proof:
        notes.append(KEEPS_ALL.format(bound.kept))
        return {}
    if proof and timer.on_cpu:
        proof.limits = CPU
    run = repeatable(device, bound)
    held = timer.blocking and timer.can_hold(run)
    if timer.blocking and not held:
        notes.append(NOT_HELD)
    once = timer.once(run, held)
    runs = timer.batch(run, once, held)
    calls = timer.calls(once)
    if not proof and spent(bound):  # each run needs new contents, which nobody makes inside a batch
        runs = calls = 1
    width = HOST_WIDTH * (CALLS_MOST / calls) ** 0.5
    if "launch" in modes or ("graph" in modes and proof):  # the cold time is what bounds that of a graph
        found["cold"] = _cold_clock(device, bound, affordable(COLD, once), held, notes, proof)
    if "launch" in modes:
        if not (proof and bound.kept):
            try:
                hot = _batch(device, bound, runs, proof)
                found["hot"] = Clock(_noting(timer, lambda: timer.hot(hot, held), notes))
            except SharedResult as error:
                notes.append(f"no hot time: {error}")
        if bound.on or not proof:
            launches = _batch(device, bound, calls, proof)
            found["call"] = Clock(lambda: timer.host(launches), width=width)
    if "api" in modes and bound.api:
        try:
            found["api"] = _api_clock(device, bound.api(), calls, width, proof)
        except CudalabError as error:
            notes.append(f"no api time: {error}")
    if proof and bound.kept:
        notes.append(KEEPS.format(bound.kept))
    elif "graph" in modes:
        try:
            found["graph"] = graph_clock(device, bound, runs, proof)
            found["graph_cold"] = cold_graph_clock(device, bound, proof)
        except Exception as error:
            if not (isinstance(error, CudalabError) or out_of_memory(error)):
                raise
            notes.append(f"no graph: {error}")
    for mode in LOADED:
        if mode in modes:
            try:
                found |= _under_load(mode, device, bound, runs, once, held, notes, proof, alive)
            except CudalabError as error:
                notes.append(f"no {mode}: {error}")
    if not (proof and held and bound.on and set(SEVERAL) & set(found)):
        return found
    if bound.local >= LOCAL:
        notes.append(LOCAL_OUTLIVES.format(bound.local))
    return _bounded(device, bound, found, proof)


def _bounded(device: Gpu, bound: Bound, found: dict[str, Clock], proof: Proof) -> dict[str, Clock]:
    """The clocks, of which those of several runs are refused where a run alone takes much longer."""
    neighbours = Neighbours(device, timer_of(device), bound, lambda: Batch(device, bound, proof, 1), proof)
    return {
        kind: neighbours.bounded(clock, SEVERAL[kind]) if kind in SEVERAL else clock for kind, clock in found.items()
    }


def results_bytes(nbytes: int, variants: int, modes: Collection[str], rate: float = WRITTEN) -> int:
    """Bytes of results, of `nbytes` each, that a process has while it times so many variants of libraries, at most.

    `rate`: bytes of results a second that a variant writes, at most.

    The calls of all variants share the memory of the lab, of PyTorch or of CuPy. Each graph of a library's variant
    keeps its results; those of the lab's own share theirs, and have inputs besides.
    """
    calls = results_of(CALLS_LEAST + 1, CALLS_MOST + 1, CALL_SPAN, nbytes, rate)
    graphs = 2 * results_of(HOT_LEAST, HOT_MOST, HOT_SPAN, nbytes, rate)
    return 3 * calls + ((variants + 2) * graphs if "graph" in modes else 0)


def results_of(least: int, most: int, span: float, nbytes: int, rate: float = WRITTEN) -> int:
    """Bytes of the results of as many runs as a span has, in seconds, but of at least and at most so many.

    Of slow work `affordable` makes fewer than the least.
    """
    least = min(least, max(int(ROUND_SPAN * rate / nbytes) if nbytes else least, 1))
    return min(max(least * nbytes, int(span * rate)), most * nbytes)


def calibrate(device: Gpu, modes: Collection[str]) -> dict[str, list[float]]:
    timer = timer_of(device)
    found = timer.floors()
    if "graph" in modes:
        try:
            graph = Graph([Bound(timer.empty, lambda: None)] * HOT_MOST, device.stream)
        except CudalabError:
            return found  # every row will say why
        work = Unproven(graph.replay)
        nodes = [t / graph.runs for _ in range(50) for t in timer.replay(work, cold=False)]
        found["empty graph node"] = nodes
        graph.close()
    return found


def graph_clock(device: Gpu, bound: Bound, runs: int, proof: Proof | None) -> Clock:
    """A clock that replays `runs` runs on the same inputs, each with an output of its own."""
    bounds = own_outputs(device, bound, runs) if proof and bound.on else [bound] * runs
    graph = _graph(device, bounds)
    results = graph.results if bound.on is None else _different(graph.results)
    work: Work = _Graphed(graph) if proof is None else Replay(
        device, graph.replay, graph.runs, apart(results), repeatable(device, bound), proof,
        [each.on for each in bounds if each.on] if proof and bound.on else (),
    )  # fmt: skip
    return _replayed(device, graph, work, cold=False)


def cold_graph_clock(device: Gpu, bound: Bound, proof: Proof | None) -> Clock:
    """A clock that replays runs on different operands, in turn, so that each finds nothing of its own in L2."""
    bounds, operands = rotating(device, bound)
    graph = _graph(device, bounds)
    work: Work = _Graphed(graph) if proof is None else RotatingReplay(
        device, graph.replay, graph.runs, apart(graph.results), operands, proof
    )  # fmt: skip
    return _replayed(device, graph, work, cold=True)


def rotating(device: Gpu, bound: Bound) -> tuple[list[Bound], list[Operands]]:
    """The variant on so many sets of operands that each run finds nothing of its own in L2, and those sets."""
    if bound.again is None:
        raise LaunchError("this variant cannot be bound to other arrays")
    (first,) = device.operand_sets(1, bound.on)
    footprint = max(sum(a.nbytes for a in first.inputs.values()) + first.output.nbytes, 1)
    wanted = min(max(blocks(ROTATION * device.attribute("L2_CACHE_SIZE"), footprint), HOT_LEAST), MOST_SETS)
    operands = device.operand_sets(wanted, bound.on)
    return [bound.again(on) for on in operands], operands


def _cold_clock(device: Gpu, bound: Bound, samples: int, held: bool, notes: list[str], proof: Proof | None) -> Clock:
    timer = timer_of(device)
    if proof is None:
        return Clock(_noting(timer, lambda: timer.cold(_batch(device, bound, 1, None), samples, held), notes))
    proof.late = True
    work = FreshCode(device, bound, proof) if bound.kept else _batch(device, bound, 1, proof)
    assert isinstance(work, (FreshCode, Batch, Returning))

    def sample() -> list[float]:
        work.met.clear()
        if (late := proof.late_meeting(samples)) is None:
            found = timer.cold(work, samples, held)
        else:
            place, number = late
            found = timer.cold(work, place, held)
            with proof.on(number):
                found += timer.cold(work, 1, held)
            found += timer.cold(work, samples - place - 1, held)
        proof.meet(work.met, found)
        return found

    def fresh() -> float:
        proof.known()
        timer.cold(Unproven(repeatable(device, bound)), samples, held)  # its clocks fell while contents were drawn
        return timer.cold(work, 1, held)[0]

    def confirm(rounds: Sequence[Sequence[float]]) -> None:
        if not proof.confirm(fresh, stats.median(rounds)):
            notes.append(NOT_CONFIRMED)

    return Clock(_noting(timer, sample, notes), confirm=confirm)


def _batch(device: Gpu, bound: Bound, runs: int, proof: Proof | None) -> Repeated:
    if proof is None:
        return Unproven(bound.run, runs, lambda: device.make_new([bound.output()] if spent(bound) else []))
    if bound.on:
        return Batch(device, bound, proof, runs)

    def call() -> Any:
        bound.run()
        return bound.output()

    return Returning(device, call, proof, runs)


def _under_load(
    mode: str, device: Gpu, bound: Bound, runs: int, once: float, held: bool, notes: list[str], proof: Proof | None,
    alive: Callable[[], object],
) -> dict[str, Clock]:  # fmt: skip
    """The clocks of a mode that loads the device. Raises LaunchError for a variant that cannot be repeated."""
    if mode == "energy" and (reason := device.nvml.no_energy()):
        raise LaunchError(reason)
    if spent(bound):
        raise LaunchError("each run needs new contents, so runs cannot follow each other for seconds")
    if bound.kept:
        raise LaunchError(f"the .cu keeps {bound.kept} B in variables of its own from one launch to the next")
    work, timer = _batch(device, bound, runs, proof), timer_of(device)
    reused = 0.0 if timer.on_cpu else REUSED

    def hot() -> float:
        return timer.hot(work, held)[0]

    if mode == "energy":
        return {"energy": energy_clock(device, work, hot, once, notes, reused, alive)}
    return sustained_clocks(device, work, hot, once, notes, reused, alive)


def _api_clock(device: Gpu, call: Callable[[], Any], calls: int, width: float, proof: Proof | None) -> Clock:
    """A clock of the host's time for a call as a user makes it, which returns a new array."""
    for _ in range(API_WARM_UPS):
        call()
    work: Work = Returning(device, call, proof, calls) if proof else Unproven(call, calls)
    return Clock(lambda: timer_of(device).host(work), width=width)


def _graph(device: Gpu, bounds: list[Bound]) -> Graph:
    spent_by_run = [bound.output() for bound in bounds if spent(bound)]
    graph = Graph(bounds, device.stream, lambda: device.make_new(spent_by_run))
    device.at_release.callback(graph.close)
    return graph


def _replayed(device: Gpu, graph: Graph, work: Work, cold: bool) -> Clock:
    return Clock(lambda: timer_of(device).replay(work, cold), graph.build_seconds)


def _different(results: list[Any]) -> list[Any]:
    """Each array once: runs may share an output where there is no memory for one each."""
    return list({id(result): result for result in results}.values())


class _Graphed(Unproven):
    """A graph whose results nobody judges."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph.replay)
        self.runs = graph.runs

    def run(self) -> None:
        self._once()


def _noting(timer: Timer, sample: Callable[[], list[float]], notes: list[str]) -> Callable[[], list[float]]:
    """`sample`, which adds LET_GO to the notes if a hold expires during it."""

    def noting() -> list[float]:
        before = timer.expired
        samples = sample()
        if timer.expired > before and LET_GO not in notes:
            notes.append(LET_GO)
        return samples

    return noting
