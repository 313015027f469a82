"""How often Python looks for objects that refer to each other and that nothing else refers to.

A look takes 0.1 s with PyTorch loaded, and loading it causes several. A process that loads much and ends soon looks
seldom: not after each 700 new objects, but after each 50,000. While times are taken the looks are short and as usual.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_USUAL = gc.get_threshold()


def seldom() -> None:
    """Let this process look seldom from now on."""
    gc.set_threshold(50_000, 20, 20)


@contextmanager
def little() -> Iterator[None]:
    """Collect garbage, and until the end leave what lives now out of the looks, which come as usual.

    A program that has done so before (`gc.freeze`) keeps its own choice. From Python 3.12 on a few hundred objects that
    never die are always left out.
    """
    gc.collect()
    if gc.get_freeze_count() > len(gc.get_objects()) // 10:
        yield
        return
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*_USUAL)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
