"""The forms of a copy that the lab tries for its ceiling: kernels of copies.cu, and the driver's own copy.

`cudalab.timing.ceiling` chooses among them. All of them read and write the same bytes; they differ in how many loads a
thread has on its way, in what L2 is advised to keep, and in who moves the bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cudalab.device import cuda, driver
from cudalab.spec.kernel import blocks

SOURCE = Path(__file__).with_name("copies.cu")
PACK = 16  # bytes
THREADS = 256

Run = Callable[[], object]


@dataclass(frozen=True)
class Form:
    """One way to copy. `name` is the kernel's, or `memcpy`."""

    name: str
    says: str
    packs: int = 1  # of a thread, at once
    a_sm: int = 0  # blocks of a multiprocessor in a grid that is on the GPU at once; 0: as many as there is work for
    piece: int = 0  # packs that a TMA copy moves at once
    least: float = 0.0  # the compute capability that it needs


FORMS = {
    form.name: form
    for form in (
        Form("one_pack", "16 bytes per thread, evict_last loads"),
        Form("plain", "16 bytes per thread"),
        Form("two_packs", "32 bytes per thread, evict_last loads", packs=2),
        Form("four_packs", "64 bytes per thread, evict_last loads", packs=4),
        Form("store_cs", "16 bytes per thread, evict_last loads, streaming stores"),
        Form("store_wt", "16 bytes per thread, evict_last loads, write-through stores"),
        Form("store_evict_first", "16 bytes per thread, evict_last loads, evict_first stores", least=8.0),
        Form("two_packs_evict_first", "32 bytes per thread, evict_last loads, evict_first stores", packs=2, least=8.0),
        Form("persistent", "a persistent grid, 4 x 16 bytes per thread, evict_last loads", packs=4, a_sm=8),
        Form("bulk_2k", "TMA, pieces of 2 KB", a_sm=12, piece=128, least=9.0),
        Form("bulk_4k", "TMA, pieces of 4 KB", a_sm=6, piece=256, least=9.0),
        Form("bulk_8k", "TMA, pieces of 8 KB", a_sm=6, piece=512, least=9.0),
        Form("bulk_4k_kept", "TMA, pieces of 4 KB, evict_last loads", a_sm=6, piece=256, least=9.0),
        Form("bulk_8k_kept", "TMA, pieces of 8 KB, evict_last loads", a_sm=6, piece=512, least=9.0),
        Form("memcpy", "cudaMemcpyAsync"),
    )
}
USUAL = "one_pack"  # where none is asked for


def available(capability: tuple[int, int]) -> list[str]:
    """The forms that a GPU of this compute capability has."""
    return [form.name for form in FORMS.values() if form.least <= capability[0] + capability[1] / 10]


def grid(form: Form, packs: int, multiprocessors: int) -> tuple[int, int]:
    """(blocks, threads) of the launch that copies so many packs."""
    threads = 32 if form.piece else THREADS
    wanted = max(blocks(packs, form.piece or threads * form.packs), 1)
    return (min(wanted, form.a_sm * multiprocessors) if form.a_sm else wanted), threads


def ready(name: str, origin: int, target: int, packs: int, stream: Any, multiprocessors: int) -> Run:
    """What enqueues a copy of `packs` packs from one address to another."""
    if name == "memcpy":
        copy = driver.pycuda().memcpy_dtod_async
        return lambda: copy(target, origin, PACK * packs, stream)
    form, function = FORMS[name], _module().get_function(name).prepare("PPq")
    if form.piece:  # a ring of pieces in each block's shared memory: all of it, so that `a_sm` blocks fit
        function.set_attribute(driver.pycuda().function_attribute.PREFERRED_SHARED_MEMORY_CARVEOUT, 100)
    count, threads = grid(form, packs, multiprocessors)
    return lambda: function.prepared_async_call((count, 1), (threads, 1, 1), stream, origin, target, packs)


def fill(target: int, packs: int, stream: Any) -> None:
    """Write `pattern` to an address when the stream gets there."""
    function = _module().get_function("fill").prepare("Pq")
    function.prepared_async_call((max(blocks(packs, THREADS), 1), 1), (THREADS, 1, 1), stream, target, packs)


def pattern(words: int) -> np.ndarray:
    """What is copied: float32 numbers from 1 to 2 that look random. A constant would save the memory bus power."""
    mixed = np.arange(words, dtype=np.uint32) * np.uint32(0x9E3779B1)
    return (np.uint32(0x3F800000) | (mixed >> np.uint32(9))).view(np.float32)


def _module() -> Any:
    return cuda.compiled(SOURCE.read_text(), SOURCE.name)
