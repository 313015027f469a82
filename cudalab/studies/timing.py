"""Which way of timing a network tells the truth, and what does each cost where every step is timed?

After an article that timed ResNet-50 on a CPU and in three ways on a GPU. A step has two times: its wall time, from the
call until the work is done, and the GPU's work in it, which is shorter where the GPU waits for the host. A host's clock
claims the first and events claim the second, so each is compared with the time that it claims:

- a clock around the call alone reads how long the host took to put the work into the queue;
- one that waits for the GPU before each reading reads the wall time, but a program that waits at every step may run
  slower, since the GPU's queue is empty meanwhile;
- two events around the call read the GPU's work, and the gaps in which the GPU waits for the host.

`engine` has the truth: as `wall` the time of steps back to back without any clock, as `gpu` the lab's time with a held
queue, which has no such gaps. For the other variants `wall` or `gpu` is what their clock claims for a step, and `timed`
is what a step takes where every step is timed so.
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
WALL, WORK, TIMED = "wall", "gpu", "timed"  # kinds of time
WITH_CPU = ("batch128-cpu", "batch1", "cpu", "tiny")
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


def claim(lab: Lab, step: Step, steps: int = 1) -> Callable[[], list[float]]:
    """A clock of the times that `step` reports when the queue is empty before it, of so many steps."""

    def once() -> float:
        lab.synchronize()
        reading = step()
        lab.synchronize()
        return reading()

    return lambda: [once() for _ in range(steps)]


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

    def make_network() -> tuple[Any, Any]:
        model = models.resnet50(width=lab["width"]).eval()
        return model.to(lab.where), torch.randn(lab["shape"], device=lab.where)

    model, images = lab.once("network", make_network)
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
    """Steps without a clock between them, and on a GPU a batch between events in a held queue."""
    run, result = network(lab, lab.where)
    for _ in range(2):
        run()  # loading may wait for the GPU, which must not happen while the queue is held
    notes: list[str] = []
    held = timing.clocks(lab.device, Bound(run, lambda: None), ("launch",), notes)["hot"] if lab.cuda else None
    clocks = {WALL: lab.wall(run, lab["steps"])} | ({WORK: held.sample} if held else {})
    return Work(run, result, clocks, notes=notes)


def timed(claims: str, way: Callable[[Lab, Callable[[], object]], Step]) -> Callable[[Lab], Work]:
    """Steps timed in one way, whose clock claims this kind of time."""

    def make(lab: Lab) -> Work:
        run, result = network(lab, lab.where)
        step, steps = way(lab, run), lab["steps"]
        return Work(run, result, {claims: claim(lab, step, steps), TIMED: loop(lab, step, steps)})

    return make


def on_cpu(lab: Lab) -> Work:
    """The network on the CPU of a machine with a GPU, by the naive clock, which is right there."""
    run, result = network(lab, "cpu")
    return Work(run, result, {WALL: claim(lab, naive(lab, run))})


def finding(run: Results) -> str:
    """Each clock's claim against the time that it claims to measure."""

    def told(size: str) -> str:
        took, work = (says.took(run, size, study.baseline, kind) for kind in (WALL, WORK))
        naive, waits = (says.factor(run, size, label) for label in ("naive", "synchronize"))
        if run.machine.device != "cuda":
            return f"a step takes {took}; a clock around the call makes it look {naive} as fast"
        return (
            f"a step takes {took} of wall time; a clock that does not wait for the GPU makes it look {naive} as "
            f"fast, one that waits {waits} as fast; the GPU works {work} of it, and events make this work look "
            f"{says.factor(run, size, 'event', WORK)} as fast"
        )

    return "; ".join(f"at {size} {told(size)}" for size in says.sizes(run))


study = Study(
    file=__file__,
    summary="ResNet-50's forward pass by a naive clock, by waiting, by events and by the lab's engine",
    sizes={
        "batch128": {"shape": (128, 3, 224, 224), "width": 64, "steps": 5},
        "batch128-cpu": {"shape": (128, 3, 224, 224), "width": 64, "steps": 5},
        "batch1": {"shape": (1, 3, 224, 224), "width": 64, "steps": 20},
        "cpu": {"shape": (2, 3, 64, 64), "width": 64, "steps": 2},
        "tiny": {"shape": (1, 3, 32, 32), "width": 8, "steps": 2},
    },
    defaults={"cuda": ("batch128", "batch1"), "cpu": ("cpu",)},
    variants=(
        Variant("engine", by_engine),
        # Another device, and fifty layers of convolutions in TF32 on the GPU
        Variant("cpu", on_cpu, ("cuda",), "the whole run is on a CPU", WITH_CPU, tolerance=2e-2),
        Variant("naive", timed(WALL, naive)),
        Variant("synchronize", timed(WALL, synchronized), ("cuda",), NO_QUEUE),
        Variant("event", timed(WORK, by_events), ("cuda",), NO_QUEUE),
    ),
    baseline="engine",
    kinds=(WALL, WORK, TIMED),
    rounds=10,
    tolerance=1e-4,
    finding=finding,
    published=(
        Published(
            "an article on timing PyTorch",
            "Tesla T4, torch 1.8",
            {
                ("batch128-cpu", "cpu"): 18.83, ("batch128", "naive"): 0.01,
                ("batch128", "synchronize"): 0.32, ("batch128", "event"): 0.32,
            },
            "single runs, of torchvision's ResNet-50 with trained weights",
        ),
    ),
    about="engine: the lab's measurement. wall: steps without a clock between them; gpu: with the queue held.\n"
    "Other variants: wall or gpu is what their clock shows; timed is how long a step takes while that clock "
    "is in use.\n"
    "batch128-cpu: also on the CPU, which takes minutes. Weights are random: the time does not depend on them.",
)  # fmt: skip
