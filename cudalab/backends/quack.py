"""QuACK (kernels in CuTe DSL): the lab's kernels that it has, by the functions of its forward passes.

It compiles for every length of a row, in `bind`. A kernel of your own gets a row of it as a rival:
`rivals={"quack": rmsnorm}`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from math import gcd
from typing import Any

from cudalab.backends import _torch
from cudalab.base import advice, packages
from cudalab.base.errors import Unavailable
from cudalab.device.arrays import installed, torch_missing
from cudalab.device.operands import Bound, Operands
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Kernel

devices = ("cuda",)
timed = True
budget = "peers"
own_indexing = True
library = "quack"

OLDEST = (8, 0)  # compute capability


def softmax(x: Any) -> Any:
    from quack.softmax import softmax_fwd

    return softmax_fwd(x)


def layernorm(x: Any, gamma: Any, beta: Any) -> Any:
    from quack.rmsnorm import layernorm_fwd

    return layernorm_fwd(x, gamma, beta, eps=1e-5)


def rmsnorm(x: Any, weight: Any, eps: float) -> Any:
    from quack.rmsnorm import rmsnorm_fwd

    return rmsnorm_fwd(x, weight, eps=eps)[0]


def fused_add_rmsnorm(x: Any, residual: Any, weight: Any, eps: float) -> Any:
    from quack.rmsnorm import rmsnorm_fwd

    y, total, _ = rmsnorm_fwd(x, weight, residual=residual, eps=eps)
    return total, y


def softmax_backward(y: Any, dy: Any) -> Any:
    from quack.softmax import softmax_bwd

    return softmax_bwd(dy, y)


def cross_entropy(logits: Any, targets: Any, ignore_index: int) -> Any:
    from quack.cross_entropy import cross_entropy_fwd

    return cross_entropy_fwd(logits, targets, ignore_index=ignore_index, return_lse=True)


def cross_entropy_backward(logits: Any, lse: Any, targets: Any, dloss: Any, ignore_index: int) -> Any:
    from quack.cross_entropy import cross_entropy_bwd

    return cross_entropy_bwd(logits, targets, dloss, lse, ignore_index=ignore_index)


FORMS: dict[tuple[str, ...], Callable[..., Any]] = {  # by a kernel of the lab and its inputs
    ("softmax", "x"): softmax,
    ("softmax_backward", "y", "dy"): softmax_backward,
    ("layernorm", "x", "gamma", "beta"): layernorm,
    ("rmsnorm", "x", "weight"): rmsnorm,
    ("fused_add_rmsnorm", "x", "residual", "weight"): fused_add_rmsnorm,
    ("cross_entropy", "logits", "targets"): cross_entropy,
    ("cross_entropy_backward", "logits", "lse", "targets", "dloss"): cross_entropy_backward,
}
FLOAT32 = ("gamma", "beta")  # what it takes in float32 alone


@cache
def missing(device: str) -> str | None:
    if not installed("quack"):
        return f"QuACK is not installed; {advice.packages('quack-kernels[cu13]')}"
    if reason := torch_missing(device):
        return reason
    import torch

    if (found := torch.cuda.get_device_capability()) < OLDEST:
        return f"QuACK needs compute capability {OLDEST[0]}.{OLDEST[1]}, and this GPU has {found[0]}.{found[1]}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # CuTe DSL warns of its own names; a run with -W error would end here
            import quack.rmsnorm
            import quack.softmax  # noqa: F401
    except Exception as error:  # a broken installation raises what it likes
        return packages.broken("quack", error)
    return None


def variants(kernel: Kernel) -> tuple[str, ...]:
    return ("",) if _torch.form_of(kernel, FORMS) else ()


def bind(kernel: Kernel, variant: str, dtype: DType, operands: Operands) -> Bound:
    form = _torch.form_of(kernel, FORMS)
    assert form is not None
    refuse(form, operands)
    bound = _torch.bound(form, operands)
    bound.run()  # compiles: a later run must not, least of all while a graph is captured
    return bound


def refuse(form: Callable[..., Any], operands: Operands) -> None:
    """Raise Unavailable for arrays that one of QuACK's functions does not take."""
    for name, array in operands.inputs.items():
        if name in FLOAT32 and array.dtype.name != "float32":
            raise Unavailable(f"QuACK takes {name} in float32, and it is in {array.dtype.name}")
        if form is softmax and array.shape[-1] * array.dtype.itemsize % 16:
            raise Unavailable("QuACK's softmax takes rows whose size is a multiple of 16 bytes")
        wanted = gcd(16 // array.dtype.itemsize, array.shape[-1]) * array.dtype.itemsize
        if array.size and array.ptr % wanted:
            raise Unavailable(f"QuACK needs {name} aligned to {wanted} bytes, and it is not")
