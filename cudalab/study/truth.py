"""The error of a result against float64, for variants whose results differ from each other."""

from __future__ import annotations

from typing import Any

from cudalab.base.errors import CudalabError


def error(got: Any, want: Any) -> float:
    """The largest difference of a tensor from `want` (float64), as a share of the largest value of `want`.

    Differences below the smallest normal number of got's dtype count as 0: libraries may flush such numbers to zero.
    """
    import torch

    least = torch.finfo(got.dtype).tiny
    want = want.cpu()
    off = (got.detach().cpu().double() - want).abs()
    off[off <= least] = 0  # a NaN stays
    return float(off.max() / want.abs().max().clamp(min=least))


def judged(error: float, tolerance: float) -> float:
    """The error, if it is within the tolerance. Raises CudalabError if it is larger, or NaN."""
    if not error <= tolerance:
        raise CudalabError(f"differs from float64 by {error:.3g} of the largest value; {tolerance:.3g} is allowed")
    return error
