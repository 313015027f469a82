"""What does a CUDA Graph save of a whole training step: forward, backward and the optimizer's update?

After "Accelerating PyTorch with CUDA Graphs": a small network's step is some twenty kernels of a few microseconds, and
the host needs longer to launch each than the GPU to run it. Captured once, with input and target at fixed addresses,
the whole step is one launch. The larger network of the same form keeps the GPU busy, so there is little to save.

`static` is the captured step, called eagerly on the same fixed addresses; `callables` captures the network alone,
forward and backward, by make_graphed_callables, for programs whose loss or optimizer cannot be captured.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cudalab.results.record import Results
from cudalab.study import Published, Study, Variant, Work, says
from cudalab.study.graph import captured
from cudalab.study.lab import Lab

NO_GRAPHS = "CUDA Graphs need a GPU"
RATE = 0.1
BATCHES = 8  # of data, in turns
CURVE = 20  # steps whose losses are compared


class Training:
    """A network, its optimizer, one of four steps. `step(x, y)` returns the loss, whose memory it may reuse."""

    def __init__(self, lab: Lab, way: Callable[[Training, Lab], Callable[[Any, Any], Any]], dropout: bool) -> None:
        torch = lab.torch()
        nn, (inputs, hidden, outputs) = torch.nn, lab["layers"]
        first, second = (0.2, 0.1) if dropout else (0.0, 0.0)
        self.model = nn.Sequential(
            nn.Linear(inputs, hidden), nn.Dropout(first), nn.Linear(hidden, outputs), nn.Dropout(second)
        ).to(lab.where)
        start = lab.once("weights", lambda: {k: v.clone() for k, v in self.model.state_dict().items()})
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=RATE)
        self.criterion = nn.MSELoss()
        self.step = way(self, lab)
        self.model.load_state_dict(start)  # in place: warm-up and capture have trained the model

    def update(self, x: Any, y: Any) -> Any:
        """One step, called eagerly."""
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.criterion(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss


def eager(training: Training, lab: Lab) -> Callable[[Any, Any], Any]:
    return training.update


def static(training: Training, lab: Lab) -> Callable[[Any, Any], Any]:
    return _at_fixed_addresses(training, lab, lambda update: update)


def graph(training: Training, lab: Lab) -> Callable[[Any, Any], Any]:
    def whole(update: Callable[[], Any]) -> Callable[[], Any]:
        replay, loss = captured(lab, update)

        def replayed() -> Any:
            replay()
            return loss

        return replayed

    return _at_fixed_addresses(training, lab, whole)


def callables(training: Training, lab: Lab) -> Callable[[Any, Any], Any]:
    torch, (x, _) = lab.torch(), data(lab)[0]
    training.model = torch.cuda.make_graphed_callables(training.model, (x.clone(),))
    return training.update


def _at_fixed_addresses(
    training: Training, lab: Lab, made: Callable[[Callable[[], Any]], Callable[[], Any]]
) -> Callable[[Any, Any], Any]:
    """A step that copies its input and target to the fixed arrays that `made(update)` reads."""
    x, y = (tensor.clone() for tensor in data(lab)[0])
    update = made(lambda: training.update(x, y))

    def step(new_x: Any, new_y: Any) -> Any:
        x.copy_(new_x)
        y.copy_(new_y)
        return update()

    return step


def data(lab: Lab) -> list[tuple[Any, Any]]:
    """Batches of inputs and targets, normally distributed."""
    torch = lab.torch()
    batch, (inputs, _, outputs) = lab["batch"], lab["layers"]

    def make_batches() -> list[tuple[Any, Any]]:
        return [tuple(torch.randn(batch, n, device=lab.where) for n in (inputs, outputs)) for _ in range(BATCHES)]

    found: list[tuple[Any, Any]] = lab.once("data", make_batches)
    return found


def trained(way: Callable[[Training, Lab], Callable[[Any, Any], Any]]) -> Callable[[Lab], Work]:
    """Timed with dropout, compared without it: a graph draws other random numbers than calls."""

    def make(lab: Lab) -> Work:
        from cudalab.study.launches import launches

        batches, training, done = data(lab), Training(lab, way, dropout=True), [0]

        def run() -> None:
            training.step(*batches[done[0] % BATCHES])
            done[0] += 1

        def losses() -> list[Any]:
            plain = Training(lab, way, dropout=False)
            return [plain.step(*batches[i % BATCHES]).detach().clone() for i in range(CURVE)]

        return Work(run, losses, afterwards=lambda: launches(lab, run), items=lab["batch"])

    return make


def finding(run: Results) -> str:
    def gain(size: str) -> str:
        if not says.ran(run, size, "graph"):
            return f"{says.factor(run, size, 'static')} as fast when it is written so that a CUDA Graph can capture it"
        alone = says.factor(run, size, "callables")
        parts = {"the GPU's own work": "hot", "the host's enqueueing": "call"}
        gains = {part: says.factor(run, size, "graph", kind) for part, kind in parts.items()}
        apart = "".join(f", {part} in the graph {gain}" for part, gain in gains.items() if gain != "?")
        whole = says.factor(run, size, "graph")
        return f"{whole} as fast in a CUDA Graph, {alone} with its network alone in graphs{apart}"

    return f"compared with an eager one, a training step is {says.at_sizes(run, gain)}"


study = Study(
    file=__file__,
    summary="a whole training step, eager and in a CUDA Graph, and with the network alone in graphs",
    sizes={
        "small": {"batch": 32, "layers": (128, 256, 16)},
        "large": {"batch": 640, "layers": (4096, 2048, 1024)},
        "tiny": {"batch": 4, "layers": (16, 32, 8)},
    },
    defaults={"cuda": ("small", "large")},
    why="CUDA Graphs need a GPU; --size tiny compares the step that would be captured",
    variants=(
        Variant("eager", trained(eager)),
        Variant("static", trained(static)),
        Variant("graph", trained(graph), ("cuda",), NO_GRAPHS),
        Variant("callables", trained(callables), ("cuda",), NO_GRAPHS),
    ),
    baseline="eager",
    kinds=("wall", "hot", "call"),
    tolerance=1e-4,  # of losses after twenty steps: a captured product may sum in another order
    finding=finding,
    published=(
        Published(
            "Accelerating PyTorch with CUDA Graphs",
            "as published, torch 1.10",
            {("small", "eager"): 1.11e-3, ("small", "graph"): 0.471e-3},
            "one clock over many steps; here medians with intervals, and the steps in turns",
        ),
    ),
    about="wall: a step, with the time that the host needs to launch. hot: the GPU's time alone; the queue is "
    "held while it fills.\n"
    "call: the host's time alone, until a step is in the queue.\n"
    "The compared loss curves are without dropout, because a graph draws other random numbers.",
)
