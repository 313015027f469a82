"""How far a result is from the same computed in float64, for variants that have no other to be equal to."""

from __future__ import annotations

from typing import Any

from cudalab.base.errors import CudalabError


def error(got: Any, want: Any) -> float:
    """The largest difference of a tensor from `want` (float64), as a share of the largest value of `want`.

    Less than the smallest normal number of got's dtype is no difference: libraries may take such for zero.
    """
    import torch

    least = torch.finfo(got.dtype).tiny
    want = want.cpu()
    off = (got.detach().cpu().double() - want).abs()
    off[off <= least] = 0  # a NaN stays
    return float(off.max() / want.abs().max().clamp(min=least))


def judged(error: float, tolerance: float) -> float:
    """The error, if it is within the tolerance; raises CudalabError for a larger one, or none that is a number."""
    if not error <= tolerance:
        raise CudalabError(f"off from float64 by {error:.3g} of the largest value; {tolerance:.3g} are allowed")
    return error
