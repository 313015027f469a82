"""QuACK (kernels in CuTe DSL): the lab's kernels that it has, by the functions of its forward passes.

It compiles for every length of a row, in `bind`. A kernel of your own gets a row of it as a rival:
`rivals={"quack": rmsnorm}`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import gcd
from typing import Any

from cudalab.backends import _torch
from cudalab.base import advice
from cudalab.base.errors import Unavailable
from cudalab.device.arrays import installed, torch_missing
from cudalab.device.operands import Bound, Operands
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Kernel

devices = ("cuda",)
timed = True
budget = "peers"
own_indexing = True

OLDEST = (8, 0)  # compute capability


def softmax(x: Any) -> Any:
    from quack.softmax import softmax_fwd

    return softmax_fwd(x)


def layernorm(x: Any, gamma: Any, beta: Any) -> Any:
    from quack.rmsnorm import layernorm_fwd

    return layernorm_fwd(x, gamma, beta, eps=1e-5)


FORMS: dict[tuple[str, ...], Callable[..., Any]] = {  # by a kernel of the lab and its inputs
    ("softmax", "x"): softmax,
    ("layernorm", "x", "gamma", "beta"): layernorm,
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
        import quack.rmsnorm
        import quack.softmax  # noqa: F401
    except Exception as error:  # a broken installation raises what it likes
        return f"QuACK does not load: {error}; reinstall it"
    return None


def variants(kernel: Kernel) -> tuple[str, ...]:
    return ("",) if _torch.form_of(kernel, FORMS) else ()


def bind(kernel: Kernel, variant: str, dtype: DType, operands: Operands) -> Bound:
    form = _torch.form_of(kernel, FORMS)
    assert form is not None
    refuse(operands)
    bound = _torch.bound(form, operands)
    bound.run()  # compiles: a later run must not, least of all while a graph is captured
    return bound


def refuse(operands: Operands) -> None:
    """Raise Unavailable for arrays that QuACK's functions do not take."""
    for name, array in operands.inputs.items():
        if name in FLOAT32 and array.dtype.name != "float32":
            raise Unavailable(f"QuACK takes {name} in float32, and it is in {array.dtype.name}")
        wanted = gcd(16 // array.dtype.itemsize, array.shape[-1]) * array.dtype.itemsize
        if array.size and array.ptr % wanted:
            raise Unavailable(f"QuACK needs {name} aligned to {wanted} bytes, and it is not")
