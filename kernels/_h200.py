"""What the launches are shaped for: an H200. Cards with another number of multiprocessors are loaded less evenly."""

from __future__ import annotations

from cudalab import blocks

MULTIPROCESSORS = 132
AT_ONCE = 2**18  # threads that fit on it at once: 2,048 a multiprocessor, rounded down to a power of two


def even_threads(n: int) -> int:
    """Threads of a block where each of `n` elements has a thread of its own.

    Up to AT_ONCE elements all threads fit at once. Then every multiprocessor gets the same number of blocks (to within
    a tenth), or at most one, and few of them, since a block takes time to start: 128 to 640 threads each. Beyond
    AT_ONCE it is 256.
    """
    if n > AT_ONCE:
        return 256
    each = max(blocks(n, MULTIPROCESSORS * 640), 1)
    return max(32 * blocks(n, MULTIPROCESSORS * each * 32), 128)
