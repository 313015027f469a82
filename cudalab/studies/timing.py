"""Which way of timing a network tells the truth, and what does each cost where every step is timed?

After an article that timed ResNet-50 on a CPU and in three ways on a GPU. A clock read before and after the call of a
network on a GPU measures how long the host took to put the work into the queue, and not the work. Waiting for the GPU
before each reading, or letting it take the time itself by events, measures the work; but a program that waits at every
step may run slower, since the GPU's queue is empty meanwhile.

The variants are ways to time the same steps. `says` is what a clock claims for a step, `wall` what a step really takes
where each is timed in this way. For the lab's own engine, `says` is its usual result and `wall` the time of steps
without any timing.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

from cudalab import timing
from cudalab.device.operands import Bound
from cudalab.results.record import Results
from cudalab.study import Published, Study, Variant, Work, says
from cudalab.study.lab import Lab

Reading = Callable[[], float]  # the seconds of a step, read after all work is done
Step = Callable[[], Reading]  # do a step, timed
SAYS, WALL = "says", "wall"
NO_QUEUE = "a CPU has done the work when the call returns: there is nothing to wait for"


def naive(lab: Lab, run: Callable[[], object]) -> Step:
    """The clock around the call."""

    def step() -> Reading:
        start = perf_counter()
        run()
        taken = perf_counter() - start
        return lambda: taken

    return step


def synchronized(lab: Lab, run: Callable[[], object]) -> Step:
    """The clock around the call, with a wait for the GPU before each reading."""

    def step() -> Reading:
        lab.synchronize()
        start = perf_counter()
        run()
        lab.synchronize()
        taken = perf_counter() - start
        return lambda: taken

    return step


def by_events(lab: Lab, run: Callable[[], object]) -> Step:
    """Two events around the call in the queue. The GPU records their times, which are read after all work is done."""
    event = lab.torch().cuda.Event

    def step() -> Reading:
        start, stop = event(enable_timing=True), event(enable_timing=True)
        start.record()
        run()
        stop.record()
        return lambda: start.elapsed_time(stop) * 1e-3

    return step


def claim(lab: Lab, step: Step) -> Callable[[], list[float]]:
    """A clock of the time that `step` reports when the queue is empty before it."""

    def sample() -> list[float]:
        lab.synchronize()
        reading = step()
        lab.synchronize()
        return [reading()]

    return sample


def loop(lab: Lab, step: Step, steps: int) -> Callable[[], list[float]]:
    """A clock of the wall time per step while `steps` of them are timed one after the other."""

    def sample() -> list[float]:
        lab.synchronize()
        start = perf_counter()
        readings = [step() for _ in range(steps)]
        lab.synchronize()
        taken = perf_counter() - start
        for reading in readings:
            reading()
        return [taken / steps]

    return sample


def network(lab: Lab, where: str) -> tuple[Callable[[], None], Callable[[], Any]]:
    """(run, result) of a forward pass on a device, with the same weights and images on each."""
    torch = lab.torch()
    from cudalab.study import models

    def made() -> tuple[Any, Any]:
        model = models.resnet50(width=lab["width"]).eval()
        return model.to(lab.where), torch.randn(lab["shape"], device=lab.where)

    model, images = lab.once("network", made)
    if where != lab.where:
        other = models.resnet50(width=lab["width"]).eval()
        other.load_state_dict(model.state_dict())
        model, images = other, images.to(where)
    last = [None]

    def run() -> None:
        with torch.inference_mode():
            last[0] = model(images)

    return run, lambda: last[0]


def by_engine(lab: Lab) -> Work:
    """The lab's clock: a batch between events in a held queue on a GPU, the wall clock on a CPU."""
    run, result = network(lab, lab.where)
    for _ in range(2):
        run()  # loading may wait for the GPU, which must not happen while the queue is held
    notes: list[str] = []
    clocks = timing.clocks(lab.device, Bound(run, lambda: None), ("launch",), notes)
    clock = clocks["hot" if lab.cuda else "wall"]
    return Work(run, result, {SAYS: clock.sample, WALL: lab.wall(run, lab["steps"])}, notes=notes)


def timed(way: Callable[[Lab, Callable[[], object]], Step]) -> Callable[[Lab], Work]:
    def make(lab: Lab) -> Work:
        run, result = network(lab, lab.where)
        step = way(lab, run)
        return Work(run, result, {SAYS: claim(lab, step), WALL: loop(lab, step, lab["steps"])})

    return make


def on_cpu(lab: Lab) -> Work:
    """The network on the CPU of a machine with a GPU, by the naive clock, which is right there."""
    run, result = network(lab, "cpu")
    return Work(run, result, {SAYS: claim(lab, naive(lab, run))})


def finding(run: Results) -> str:
    def told(size: str) -> str:
        naive, waits, events = (says.factor(run, size, label, SAYS) for label in ("naive", "synchronize", "event"))
        if run.machine.device != "cuda":
            return f"{naive} as fast by a clock around the call, after which a CPU has done the work,"
        return f"{naive} as fast by a clock that does not wait, {waits} by one that waits, {events} by events"

    return f"compared with what the engine measures, a step seems {says.at_sizes(run, told)}"


study = Study(
    file=__file__,
    summary="ResNet-50's forward pass by a naive clock, by waiting, by events and by the lab's engine",
    sizes={
        "batch128": {"shape": (128, 3, 224, 224), "width": 64, "steps": 5},
        "batch1": {"shape": (1, 3, 224, 224), "width": 64, "steps": 20},
        "cpu": {"shape": (2, 3, 64, 64), "width": 64, "steps": 2},
        "tiny": {"shape": (1, 3, 32, 32), "width": 8, "steps": 2},
    },
    defaults={"cuda": ("batch128", "batch1"), "cpu": ("cpu",)},
    variants=(
        Variant("engine", by_engine),
        # Another device, and fifty layers of convolutions in TF32 on the GPU
        Variant("cpu", on_cpu, ("cuda",), "all of this run is on a CPU", tolerance=2e-2),
        Variant("naive", timed(naive)),
        Variant("synchronize", timed(synchronized), ("cuda",), NO_QUEUE),
        Variant("event", timed(by_events), ("cuda",), NO_QUEUE),
    ),
    baseline="engine",
    kinds=(SAYS, WALL),
    rounds=5,
    tolerance=1e-4,
    finding=finding,
    published=(
        Published(
            "an article on timing PyTorch",
            "Tesla T4, torch 1.8",
            {
                ("batch128", "cpu"): 18.83, ("batch128", "naive"): 0.01,
                ("batch128", "synchronize"): 0.32, ("batch128", "event"): 0.32,
            },
            "single runs, of torchvision's ResNet-50 with trained weights",
        ),
    ),
    about="says: what a clock claims for a step; x engine is then by how much it lies. wall: what a step really takes "
    "where every one\nis timed so; engine: where none is. weights are random: the time does not depend on them.",
)  # fmt: skip
