"""What do a DataLoader's workers, pinned memory and copies that do not block each save?

After PyTorch's "Performance Tuning Guide", which advises num_workers > 0, pin_memory=True and non_blocking=True. An
image takes about 2 ms to decode here, as a JPEG does: its 8 x 8 blocks are turned by an inverse cosine transform.
Without workers the training step waits for all of it; n workers decode n batches at once, as far as there are cores.
Pinned memory makes the copy to the GPU faster, and non_blocking lets the host go on meanwhile; from memory that is not
pinned it changes nothing.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from cudalab.base.child import end_with
from cudalab.results.record import Results
from cudalab.study import Study, Variant, Work, says
from cudalab.study.lab import Lab

FILES = 16  # different images, each shown at several scales
BLOCK = 8
CLASSES = 10
NO_COPY = "nothing is copied on a CPU"


class Images:
    """Images like a decoder's, uint8, 3 x side x side, each computed from the coefficients of its blocks."""

    def __init__(self, count: int, side: int, seed: int) -> None:
        rng, blocks = np.random.default_rng(seed), side // BLOCK
        falling = 300 / (1 + np.add.outer(np.arange(BLOCK), np.arange(BLOCK))) ** 2  # small where frequencies are high
        normal = rng.standard_normal((FILES, 3, blocks, blocks, BLOCK, BLOCK))
        self.coefficients = np.round(normal * falling).astype(np.int16)
        self.count, self.side = count, side

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        from scipy.fft import idctn

        file, scale = index % FILES, 1 + index // FILES % 7 / 7
        blocks = idctn(self.coefficients[file] * np.float32(scale), axes=(-2, -1), norm="ortho")
        image = blocks.transpose(0, 1, 3, 2, 4).reshape(3, self.side, self.side)
        return np.clip(image + 128, 0, 255).astype(np.uint8), index % CLASSES


def order(lab: Lab) -> list[int]:
    """A shuffled order, the same in each epoch."""
    return list(np.random.default_rng(lab.seed).permutation(lab["images"]).tolist())


def loader(lab: Lab, workers: int, pinned: bool) -> Any:
    """A loader of the same batches in the same order, with any options.

    Workers are forked from a server without a CUDA context, not from this process, which has one and threads. They live
    on from epoch to epoch.
    """
    import multiprocessing

    from torch.utils.data import DataLoader

    images = lab.once("images", lambda: Images(lab["images"], lab["side"], lab.seed))
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch.utils.data", __name__])  # imported once, not by each worker
    known = {"multiprocessing_context": context, "worker_init_fn": partial(attached, os.getpid())}
    apart = {"persistent_workers": True, **known} if workers else {}
    with silent():
        return DataLoader(images, lab["batch"], sampler=order(lab), num_workers=workers, pin_memory=pinned, **apart)


def attached(pid: int, worker: int) -> None:
    """Called in a loader's worker: end with the lab's worker. The fork server waits for its workers, so it ends too."""
    end_with(pid)


@contextmanager
def silent() -> Iterator[None]:
    """Suppress torch's warning that there are fewer cores than workers: the study measures that too."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "This DataLoader will create")
        yield


def model(torch: Any) -> Any:
    """A small network: the study is about the loader."""
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(3, 16, 7, stride=4, padding=3), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, CLASSES),
    )  # fmt: skip


def loading(workers: int, pinned: bool = False, non_blocking: bool = False) -> Callable[[Lab], Work]:
    """A run is an epoch of training."""

    def make(lab: Lab) -> Work:
        torch = lab.torch()
        net = model(torch).to(lab.where)
        optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
        held, waits = [loader(lab, workers, pinned)], []  # the only reference: its workers end when it goes

        def batches() -> Iterator[list[Any]]:
            """The batches, on the device. Appends the time that the host waited for them to `waits`."""
            waited = 0.0
            with silent():
                source = iter(held[0])
            while True:
                start = perf_counter()
                batch = next(source, None)
                waited += perf_counter() - start
                if batch is None:
                    waits.append(waited)
                    return
                yield [part.to(lab.where, non_blocking=non_blocking) for part in batch]

        def epoch() -> None:
            for x, y in batches():
                loss = torch.nn.functional.cross_entropy(net(x.float() / 255), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

        def seen() -> Any:
            """Return for each image in order its sum (modulo a prime: exact in float32), some pixels, its class."""
            found = [(x.sum((1, 2, 3)) % 65521, x[:, :, ::BLOCK, ::BLOCK], y) for x, y in batches()]
            return [torch.cat(parts) for parts in zip(*found, strict=True)]

        return Work(
            epoch, seen, {"wall": lab.wall(epoch, 1)}, items=float(lab["images"]),
            afterwards=lambda: {"waited_s": median(waits)}, close=held.clear,
        )  # fmt: skip

    return make


def finding(run: Results) -> str:
    parts = []
    for size in says.sizes(run):
        two, four = (says.factor(run, size, f"{n}-workers") for n in (2, 4))
        more = says.ratio(run, size, "4-workers+pin+non_blocking", "4-workers")
        pinned = "" if more == "?" else f"; pinned memory and copies that do not block gain another {more}"
        parts.append(f"an epoch at {size} is {two} as fast with 2 workers as with none, {four} with 4{pinned}")
    return "; ".join(parts)


study = Study(
    file=__file__,
    summary="an epoch of training with 0, 2 and 4 workers, pinned memory and copies that do not block",
    sizes={
        "images": {"images": 384, "batch": 16, "side": 224},
        "few": {"images": 64, "batch": 8, "side": 224},
        "tiny": {"images": 6, "batch": 2, "side": 16},
    },
    defaults={"cuda": ("images",), "cpu": ("few",)},
    variants=(
        Variant("0-workers", loading(0)),
        Variant("0-workers+pin", loading(0, pinned=True), ("cuda",), NO_COPY),
        Variant("2-workers", loading(2)),
        Variant("2-workers+non_blocking", loading(2, non_blocking=True), ("cuda",), NO_COPY),
        Variant("2-workers+pin", loading(2, pinned=True), ("cuda",), NO_COPY),
        Variant("2-workers+pin+non_blocking", loading(2, True, True), ("cuda",), NO_COPY),
        Variant("4-workers", loading(4)),
        Variant("4-workers+pin", loading(4, pinned=True), ("cuda",), NO_COPY),
        Variant("4-workers+pin+non_blocking", loading(4, True, True), ("cuda",), NO_COPY),
    ),
    baseline="0-workers",
    tolerance=0.0,  # whole numbers, which must be equal
    rounds=6,
    finding=finding,
    about="wall: one epoch. waited: the part of it in which the training loop waits for its next batch. "
    "Workers live on between\n"
    "epochs, so an epoch does not include their start. It includes the time to fill their queues.\n"
    "On a CPU, workers and the training step share the cores: more workers than cores gain nothing.",
)
