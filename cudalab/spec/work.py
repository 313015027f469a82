"""How much work a task is: the bytes that must be moved, and the operations that its spec counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cudalab.base.errors import SpecError, short
from cudalab.spec.kernel import Arrays, Kernel
from cudalab.spec.validate import called


@dataclass(frozen=True)
class Amount:
    """The work of one run."""

    nbytes: int  # each input read once, the output written once; or what the spec's `bytes` says
    written: int  # of these, at most: those of the output
    flops: int  # 0: the spec does not count them


def amount(kernel: Kernel, arrays: Arrays, output_bytes: int) -> Amount:
    """The work on these inputs, for an output of so many bytes. SpecError where `bytes` or `flops` gives no count."""
    whole = sum(array.nbytes for array in arrays.values()) + output_bytes
    nbytes = _count(kernel, "bytes", kernel.bytes, arrays) if kernel.bytes else whole
    if nbytes > whole:
        raise SpecError(
            f"{kernel.file}: bytes returns {nbytes:,}, but inputs and output have {whole:,}; count each once"
        )
    if whole and not nbytes:
        raise SpecError(f"{kernel.file}: bytes returns 0; count what must be moved, or leave bytes out to count all")
    flops = _count(kernel, "flops", kernel.flops, arrays) if kernel.flops else 0
    return Amount(nbytes, min(output_bytes, nbytes), flops)


def doubts(work: Amount, output_bytes: int) -> list[str]:
    """A note where the spec counts fewer bytes than its outputs have: that is right where a run leaves some alone."""
    if work.nbytes >= output_bytes:
        return []
    return [
        f"the spec counts {work.nbytes:,} bytes, fewer than its outputs have ({output_bytes:,}): % limit counts these"
    ]


def _count(kernel: Kernel, field: str, function: Callable[..., int], arrays: Arrays) -> int:
    found = called(function, **arrays)
    if isinstance(found, bool) or not isinstance(found, (int, np.integer)) or not 0 <= found <= 2**62:
        raise SpecError(f"{kernel.file}: {field} returns {short(found)}; return a whole number, 0 or more")
    return int(found)
