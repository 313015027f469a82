"""Liger-Kernel (Triton kernels for training): the lab's kernels that it has, by `liger_kernel.transformers.functional`.

A kernel of your own gets a row of it as a rival: `rivals={"liger": liger_rms_norm}`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
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
library = "liger"

LONGEST = 65536  # elements of a row that its kernels take


def softmax(x: Any) -> Any:
    from liger_kernel.transformers import functional

    return functional.liger_softmax(x)


def softmax_backward(y: Any, dy: Any) -> Any:
    from liger_kernel.ops import softmax as ops
    from liger_kernel.ops.utils import calculate_settings

    block, warps = calculate_settings(y.shape[-1])
    return ops._softmax_backward(dy, y, block, warps, multi_block_launch=False)


def layernorm(x: Any, gamma: Any, beta: Any) -> Any:
    from liger_kernel.transformers import functional

    return functional.liger_layer_norm(x, gamma, beta, 1e-5)


def rmsnorm(x: Any, weight: Any, eps: float) -> Any:
    from liger_kernel.transformers import functional

    return functional.liger_rms_norm(x, weight, eps)


def fused_add_rmsnorm(x: Any, residual: Any, weight: Any, eps: float) -> Any:
    from liger_kernel.transformers import functional

    y, total = functional.liger_fused_add_rms_norm(x, residual, weight, eps)
    return total, y


def swiglu(gate: Any, up: Any) -> Any:
    from liger_kernel.transformers import functional

    return functional.liger_swiglu(gate, up)


def rope(x: Any, cos: Any, sin: Any) -> Any:
    """Of a copy, since it turns its arguments in place; it takes keys too, here those of one head.

    The tables have half a head: a Liger that knows `rotary_dim` (0.8.5) would turn no more than as many elements.
    """
    from liger_kernel.transformers.functional import liger_rope

    whole = {"rotary_dim": x.shape[2]} if "rotary_dim" in inspect.signature(liger_rope).parameters else {}
    queries, keys = (one[None].transpose(1, 2) for one in (x.clone(), x.new_empty(x.shape[0], 1, x.shape[2])))
    return liger_rope(queries, keys, cos[None], sin[None], **whole)[0].transpose(1, 2)[0]


FORMS: dict[tuple[str, ...], Callable[..., Any]] = {  # by a kernel of the lab and its inputs
    ("softmax", "x"): softmax,
    ("softmax_backward", "y", "dy"): softmax_backward,
    ("layernorm", "x", "gamma", "beta"): layernorm,
    ("rmsnorm", "x", "weight"): rmsnorm,
    ("fused_add_rmsnorm", "x", "residual", "weight"): fused_add_rmsnorm,
    ("swiglu", "gate", "up"): swiglu,
    ("rope", "x", "cos", "sin"): rope,
}


@cache
def missing(device: str) -> str | None:
    if not installed("liger_kernel"):
        return f"Liger-Kernel is not installed; {advice.packages('liger-kernel')}"
    if reason := torch_missing(device):
        return reason
    try:
        from liger_kernel.transformers import functional  # noqa: F401
    except Exception as error:  # a broken installation raises what it likes
        return packages.broken("liger", error)
    return None


def variants(kernel: Kernel) -> tuple[str, ...]:
    return ("",) if _torch.form_of(kernel, FORMS) else ()


def bind(kernel: Kernel, variant: str, dtype: DType, operands: Operands) -> Bound:
    form = _torch.form_of(kernel, FORMS)
    assert form is not None
    columns = next(iter(operands.inputs.values())).shape[-1]
    if not columns:
        raise Unavailable("Liger-Kernel takes rows of at least one element")
    if columns > LONGEST:
        raise Unavailable(f"Liger-Kernel takes rows of at most {LONGEST:,} elements, and these have {columns:,}")
    return _torch.bound(form, operands)
