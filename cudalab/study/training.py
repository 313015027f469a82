"""Training as studies measure it: a step that can be repeated, what it computes, and the largest batch that fits."""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

from cudalab.results.record import Results
from cudalab.study import memory, says
from cudalab.study.lab import Lab

RATE = 1e-4  # small enough for ten thousand steps on one batch
STEPS = 3  # steps whose losses or weights are compared
GIB = 2**30
MOST = 2**20  # samples of the largest batch that is tried


def sgd(parameters: Iterable[Any]) -> Any:
    import torch

    return torch.optim.SGD(parameters, lr=RATE, momentum=0.9)


def cross_entropy(output: Any, target: Any) -> Any:
    import torch

    at_least_float32 = output.to(torch.promote_types(output.dtype, torch.float32))
    return torch.nn.functional.cross_entropy(at_least_float32, target)


def exactly(benchmark: bool = False) -> AbstractContextManager[Any]:
    """Make a context in which cuDNN runs without TF32, which hides differences, and sums in one order."""
    import torch

    flags: AbstractContextManager[Any] = torch.backends.cudnn.flags(
        enabled=True, benchmark=benchmark, deterministic=True, allow_tf32=False
    )
    return flags


@contextmanager
def float32(tf32: bool) -> Iterator[None]:
    """A context: convolutions and matrix products of float32 in TF32 (10 bits of fraction) or without it (23 bits).

    torch has one state for the process, and its defaults differ: TF32 in convolutions, none in matrix products.
    """
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    try:
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=tf32):
            yield
    finally:
        torch.set_float32_matmul_precision(before)


def plainly(model: Any, x: Any) -> Any:
    return model(x)


@dataclass
class Training:
    """A model that is trained on one batch.

    A copy of `given` is trained, so variants with the same `given` start with the same weights. `autocast` is a torch
    dtype for mixed precision, with a GradScaler for float16. `around` is entered in each step.
    """

    given: Any  # nn.Module
    x: Any
    y: Any
    loss: Callable[[Any, Any], Any] = cross_entropy
    optimized: Callable[[Iterable[Any]], Any] = sgd
    forward: Callable[[Any, Any], Any] = plainly
    autocast: Any = None
    set_to_none: bool = True
    around: Callable[[], AbstractContextManager[Any]] = nullcontext
    model: Any = field(init=False)
    optimizer: Any = field(init=False)
    scaler: Any = field(init=False)

    def __post_init__(self) -> None:
        import torch

        self.model = copy.deepcopy(self.given).train()
        self.optimizer = self.optimized(self.model.parameters())
        half = self.autocast is torch.float16
        self.scaler = torch.amp.GradScaler(self.x.device.type) if half else None

    def step(self) -> Any:
        """Do one step. Returns the loss before it as a tensor, so that nothing waits for the device."""
        with self.around():
            self.optimizer.zero_grad(set_to_none=self.set_to_none)
            loss = self._loss()
            if self.scaler is None:
                loss.backward()
                self.optimizer.step()
            else:
                self.scaler.scale(loss).backward()
                self.scaler.step(self.optimizer)
                self.scaler.update()
        return loss.detach()

    def _loss(self) -> Any:
        if self.autocast is None:
            return self.loss(self.forward(self.model, self.x), self.y)
        import torch

        with torch.autocast(self.x.device.type, dtype=self.autocast):
            return self.loss(self.forward(self.model, self.x), self.y)

    def anew(self) -> Training:
        """Return a new training of `given`, with the same options."""
        return replace(self)

    def losses(self, steps: int = STEPS) -> list[Any]:
        """The losses of the first steps of a new training."""
        other = self.anew()
        return [other.step() for _ in range(steps)]

    def gradients(self) -> dict[str, Any]:
        """The `loss` of the first step of a new training, and its gradients by parameter; computed `exactly`."""
        other = self.anew()
        with exactly():
            loss = other.step()
        return {"loss": loss} | {name: p.grad for name, p in other.model.named_parameters()}

    def in_float64(self) -> Training:
        """A new training in float64. Differences here are not rounding."""
        return replace(self, given=copy.deepcopy(self.given).double(), x=self.x.double())

    def weights(self, steps: int = STEPS) -> dict[str, Any]:
        """The weights after the first steps of a new training, by name."""
        other = self.anew()
        for _ in range(steps):
            other.step()
        return dict(other.model.named_parameters())

    def held(self) -> int:
        """Bytes held between steps: weights, gradients, buffers, the optimizer's state and the batch."""
        states = (value for state in self.optimizer.state.values() for value in state.values())
        gradients = (p.grad for p in self.model.parameters())
        tensors = [*self.model.parameters(), *self.model.buffers(), *gradients, *states, self.x, self.y]
        return sum(tensor.nbytes for tensor in tensors if hasattr(tensor, "nbytes"))  # a gradient may be None


def largest_batch(lab: Lab, training: Training, batch: Callable[[int], tuple[Any, Any]], gib: float) -> int:
    """The largest batch for which a step of `training` needs at most `gib` GiB; 0 if one sample needs more.

    `batch(n)` gives n samples and their targets. Memory is what torch allocates: weights, gradients, the optimizer's
    state, the batch, and the step's peak above these. The allocator's reserve, the context and libraries are not
    counted.
    """
    trial = training.anew()
    trial.x, trial.y = batch(1)
    trial.step()  # allocates gradients and the optimizer's state

    def needed(samples: int) -> float:
        lab.tick(f"trying a batch of {samples}")
        trial.x, trial.y = batch(samples)
        return trial.held() + memory.above(lab, trial.step)

    return most(lambda samples: _survived(lab, lambda: needed(samples)), gib * GIB, len(training.x))


def within(run: Results, size: str) -> str:
    """Return the memory limit of a study's largest batch, as text for its finding: "4 GiB"."""
    return f"{says.parameter(run, size, 'memory_gib') or says.parameter(run, size, 'gib'):g} GiB"


def most(needed: Callable[[int], float], budget: float, start: int) -> int:
    """The largest number up to MOST that needs at most `budget`; 0 if 1 needs more. `needed` must not decrease.

    A straight line through the needs of `start` and `2 * start` gives a first guess. From there the stride doubles
    until the number is bracketed; then bisection.
    """
    known: dict[int, float] = {}

    def fits(number: int) -> bool:
        if number not in known:
            known[number] = needed(number)
        return known[number] <= budget

    for number in (start, 2 * start):
        fits(number)
    slope = (known[2 * start] - known[start]) / start
    guess = start + (budget - known[start]) / slope if 0 < slope < inf else start
    low = high = min(max(int(guess), 1), MOST)
    stride = 1
    while low > 0 and not fits(low):
        low, high, stride = max(low - stride, 0), low, 2 * stride
    while high == low or (high <= MOST and fits(high)):
        low, high, stride = high, high + stride, 2 * stride
    high = min(high, MOST + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _survived(lab: Lab, needed: Callable[[], float]) -> float:
    """`needed()`, or infinity if the device's memory does not suffice."""
    import torch

    try:
        return needed()
    except torch.OutOfMemoryError:
        pass  # leaving the handler frees the traceback, which holds the tensors
    except RuntimeError as error:
        if "allocate memory" not in str(error):  # how torch's CPU allocator fails
            raise
    gc.collect()
    if lab.cuda:
        torch.cuda.empty_cache()
    return inf
