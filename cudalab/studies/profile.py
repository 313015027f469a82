"""Where does a training step spend its time, and what does it cost to look?

After PyTorch's recipe for its profiler: the parts of a step are labelled by record_function, torch.profiler records
every operator, and on a GPU every kernel. A kernel belongs to the label in which it was launched, whichever thread did
that. How busy the GPU is follows from the time of a step without the profiler: the profiler costs the host
microseconds for each operator and each launch, and the GPU waits for the host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from time import perf_counter
from typing import Any

from cudalab.results.record import Results
from cudalab.study import Study, Variant, Work, says
from cudalab.study.lab import Lab
from cudalab.tools.profile import events

PARTS = {"inference": "the forward pass takes", "backward": "the backward pass", "step": "the optimizer"}  # by label
LABELS = tuple(PARTS)
RATE = 1e-3  # small enough for any number of steps on one batch
CURVE = 5  # steps whose losses are compared
TOP = 10  # kernels or operators that are named
Around = Callable[[str], AbstractContextManager[Any]]  # by the name of a part of a step: what is entered for it


def unlabelled(name: str) -> AbstractContextManager[Any]:
    return nullcontext()


def labelled(name: str) -> AbstractContextManager[Any]:
    from torch.profiler import record_function

    return record_function(name)


class Training:
    """A small CNN, on one batch."""

    def __init__(self, lab: Lab, around: Around) -> None:
        torch = lab.torch()
        from cudalab.study import models

        self.loss_of, self.around = torch.nn.functional.cross_entropy, around
        self.model = models.SmallCNN(width=lab["width"]).to(lab.where)
        start = lab.once("weights", lambda: {k: v.clone() for k, v in self.model.state_dict().items()})
        self.model.load_state_dict(start)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=RATE, momentum=0.9)
        n, side = lab["batch"], lab["side"]
        self.x = lab.once("images", lambda: torch.randn(n, 3, side, side, device=lab.where))
        self.y = lab.once("classes", lambda: torch.randint(0, 10, (n,), device=lab.where))

    def step(self) -> Any:
        with self.around("inference"):
            loss = self.loss_of(self.model(self.x), self.y)
        with self.around("backward"):
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
        with self.around("step"):
            self.optimizer.step()
        return loss


def losses(lab: Lab, around: Around) -> list[Any]:
    training = Training(lab, around)
    return [training.step().detach() for _ in range(CURVE)]


def unwatched(around: Around) -> Callable[[Lab], Work]:
    def make(lab: Lab) -> Work:
        training = Training(lab, around)
        return Work(training.step, lambda: losses(lab, around), items=lab["batch"])

    return make


def watched(**options: bool) -> Callable[[Lab], Work]:
    """The labelled loop under torch.profiler, with its options. `wall` covers the recorded steps."""

    def make(lab: Lab) -> Work:
        training, notes = Training(lab, labelled), list[str]()
        if lab["trace"]:
            events.free(lab["trace"])  # raises now if it cannot be written

        def wall() -> list[float]:
            with profiler(lab, options):
                lab.synchronize()
                start = perf_counter()
                for _ in range(lab["steps"]):
                    training.step()
                lab.synchronize()
                return [(perf_counter() - start) / lab["steps"]]

        def result() -> list[Any]:
            with profiler(lab, options):
                return losses(lab, labelled)

        def parts() -> Mapping[str, float]:
            return {} if options else seen(lab, training.step, notes)

        return Work(training.step, result, {"wall": wall}, parts, items=lab["batch"], notes=notes)

    return make


def profiler(lab: Lab, options: Mapping[str, bool]) -> AbstractContextManager[Any]:
    return events.profiler(lab.cuda, **options)


def seen(lab: Lab, step: Callable[[], object], notes: list[str]) -> dict[str, float]:
    """Counts of a step by the profiler. The longest kernels or operators go to `notes`, the trace to its file."""
    from cudalab.study.launches import recorded
    from cudalab.tools.profile.found import brief

    unwatched = lab.wall(step)()[0]
    recording = recorded(lab, step, lab["steps"])
    found = recording.counts()
    found |= {f"{name}_share": share for name, share in recording.shares(LABELS).items()}
    if lab.cuda:
        found["idle_share"] = max(0.0, 1 - found["gpu_busy_s"] / unwatched)
    total = sum(row.seconds for row in recording.top(len(recording.events)))
    longest = recording.top(TOP)
    rows = (f"{100 * row.seconds / total:.2g} % {brief(row.name)} ({row.count:.3g})" for row in longest)
    notes.append(f"{'device' if lab.cuda else 'own'} time of a step, and how often: " + "; ".join(rows))
    if trace := lab["trace"]:
        recording.write(str(events.free(trace)))
        notes.append(f"a trace of {lab['steps']} steps is in {trace}; open it in ui.perfetto.dev or chrome://tracing")
    return found


def finding(run: Results) -> str:
    size = says.sizes(run)[0]
    shares = {part: says.counted(run, size, "profiler", f"{name}_share") for name, part in PARTS.items()}
    parts = ", ".join(f"{part} {100 * share:.0f} %" for part, share in shares.items() if share is not None)
    idle, kernels = (says.counted(run, size, "profiler", name) for name in ("idle_share", "kernels"))
    spent = f"of a training step's {'time on the GPU' if kernels else 'time'} {parts or '?'}"
    if kernels and idle:
        spent += f"; it runs {kernels:.0f} kernels and leaves the GPU idle for {100 * idle:.0f} % of its time"
    return f"{spent}; while the profiler records it, it is {says.factor(run, size, 'profiler')} as fast"


study = Study(
    file=__file__,
    summary="where a training step's time goes, by torch.profiler with labels, and what profiling costs",
    sizes={
        "gpu": {"batch": 128, "side": 32, "width": 64, "steps": 10},
        "cpu": {"batch": 16, "side": 32, "width": 16, "steps": 5},
        "tiny": {"batch": 4, "side": 8, "width": 4, "steps": 2},
    },
    defaults={"cuda": ("gpu",), "cpu": ("cpu",)},
    settings={"trace": ""},
    variants=(
        Variant("plain", unwatched(unlabelled)),
        Variant("labels", unwatched(labelled)),
        Variant("profiler", watched()),
        Variant("profiler+shapes+stacks", watched(record_shapes=True, with_stack=True)),
    ),
    baseline="plain",
    rounds=10,
    tolerance=1e-3,  # of losses: convolutions' gradients are summed in any order
    finding=finding,
    about="labels: record_function without a running profiler. profiler: a recorded step, without the time to "
    "start and end the\n"
    "recording. idle: of a step that is not recorded. --set trace=FILE.json keeps a Chrome trace.",
)
