"""Is it worth letting cuDNN try its convolutions before it takes one?

After NVIDIA's PyTorch performance tuning guide, "Enable cuDNN auto-tuner". With `torch.backends.cudnn.benchmark` off,
cuDNN takes for each shape what its heuristics name first; with it on, it runs several at the shape's first use and
keeps the fastest. So the first step is slow, and later ones are faster where the heuristics chose badly.

torch keeps the plan of a shape as long as the thread lives, with the flag on or off: in a program that has run a shape
before, the flag does nothing. Here each variant therefore has a thread, and so plans, of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Any

from cudalab.results.record import Results
from cudalab.study import Study, Variant, Work, says
from cudalab.study.lab import Lab
from cudalab.study.launches import busy
from cudalab.study.training import Training, exactly

GPU = "gpu"


class Lane:
    """A thread that enqueues a variant's work, backward passes included, with its own cuDNN flag."""

    def __init__(self, lab: Lab, benchmark: bool) -> None:
        self.benchmark = benchmark
        # Each thread has its own current device and stream. A CPU has no plans, and its profiler sees one thread.
        self.thread = ThreadPoolExecutor(1, initializer=lab.torch) if lab.cuda else None

    def __call__(self, work: Callable[[], Any]) -> Any:
        """The result of `work`. Waits until the work is enqueued, not until it is done."""
        return self.thread.submit(self._flagged, work).result() if self.thread else self._flagged(work)

    def _flagged(self, work: Callable[[], Any]) -> Any:
        import torch

        before, torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark, self.benchmark
        try:
            with torch.autograd.set_multithreading_enabled(False):  # else torch's own thread runs the backward passes
                return work()
        finally:
            torch.backends.cudnn.benchmark = before

    def close(self) -> None:
        if self.thread:
            self.thread.shutdown()


def make_inputs(lab: Lab) -> tuple[Any, Any, Any]:
    """Model, images and classes."""
    torch, where = lab.torch(), lab.where
    from cudalab.study import models

    batch, image = lab["batch"], lab["image"]
    x = torch.randn(batch, 3, image, image, device=where)
    torch.nn.functional.conv2d(x[:1], torch.ones(1, 3, 3, 3, device=where)).sum().item()  # loads cuDNN
    return models.resnet50(10, lab["width"]).to(where), x, torch.randint(10, (batch,), device=where)


def trained(benchmark: bool) -> Callable[[Lab], Work]:
    def make(lab: Lab) -> Work:
        training = Training(*lab.once("given", lambda: make_inputs(lab)))
        lane = Lane(lab, benchmark)
        start = perf_counter()
        lane(training.step)
        lab.synchronize()
        first = perf_counter() - start

        def losses() -> list[Any]:
            with exactly(benchmark):  # errors of TF32 through fifty layers would hide all others
                return training.losses()

        def step() -> None:
            lane(training.step)

        gpu = {GPU: busy(lab, step)} if lab.cuda else {}
        return Work(
            step,
            lambda: lane(losses),
            {"wall": lab.wall(step), **gpu},
            quantities=lambda: {"first_step_s": first},
            items=lab["batch"],
            notes=[] if lab.cuda else ["no cuDNN on a CPU: the flag does nothing"],
            close=lane.close,
        )

    return make


def finding(run: Results) -> str:
    def gain(size: str) -> str:
        first = [says.counted(run, size, label, "first_step_s") for label in ("off", "on")]
        cost = f"; the first step takes {first[1]:.2g} s, not {first[0]:.2g} s" if all(first) else ""
        gpu = says.factor(run, size, "on", GPU)
        work = f"; the GPU's part of it is {gpu} as fast" if gpu != "?" else ""
        return f"at {size} a training step is {says.factor(run, size, 'on')} as fast{work}{cost}"

    return f"where cuDNN tries its algorithms before it takes one, {'; '.join(map(gain, says.sizes(run)))}"


study = Study(
    file=__file__,
    summary="ResNet-50 in training with cuDNN's choice of convolutions by heuristics and by trial",
    sizes={
        "batch-16": {"batch": 16, "image": 224, "width": 64},
        "batch-128": {"batch": 128, "image": 224, "width": 64},
        "tiny": {"batch": 4, "image": 64, "width": 4},
    },
    defaults={"cuda": ("batch-16", "batch-128")},
    why="cuDNN needs a GPU; --size tiny shows that both ways give the same losses",
    variants=(Variant("off", trained(False)), Variant("on", trained(True))),
    baseline="off",
    kinds=("wall", GPU),
    tolerance=1e-2,  # other algorithms round otherwise, and training steps amplify the differences
    memory=True,
    rounds=7,
    finding=finding,
    about="gpu: how long the GPU works in a step, by torch.profiler. The wall time includes the host's part.\n"
    "first step: the first step of a shape, with the search where it is on. Peak MB includes cuDNN's workspace.\n"
    "float32 with torch's defaults: convolutions may use TF32. cuDNN searches again for each new input shape.",
)
