"""What rivals of JAX need: their arrays, handed over by DLPack.

JAX works on streams of its own. At each call DLPack lets JAX's stream wait for the lab's, where the inputs were
written, and the lab's stream wait for JAX's, where the result is: nobody waits on the host, and the handing over is
part of every time.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import Any

from cudalab.base import advice, packages
from cudalab.base.errors import Unavailable
from cudalab.device.arrays import installed, torch_missing
from cudalab.device.operands import Operands

HANDED_OVER = "JAX uses its own streams: its times include passing each call's arrays to JAX (DLPack)"


@cache
def missing(device: str) -> str | None:
    """Why JAX cannot be used on `device`, and what to type; None if it can."""
    if not installed("jax"):
        return f"JAX is not installed; {advice.packages('jax' if device == 'cpu' else 'jax[cuda13]')}"
    if reason := torch_missing(device):
        return reason
    # Without this JAX takes three quarters of a GPU's memory.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    try:
        import jax

        jax.devices(device)
    except Exception as error:  # a broken installation raises what it likes
        return packages.broken("jax", error, advice.packages("jax" if device == "cpu" else "jax[cuda13]"))
    return None


def refuse_wide(operands: Operands, written: tuple[Any, ...]) -> None:
    """Raise Unavailable for 64-bit arrays, unless JAX has been told to keep them."""
    import jax

    wide = [a.dtype.name for a in (*operands.inputs.values(), *written) if _halved(a.dtype.name)]
    if wide and not jax.config.read("jax_enable_x64"):
        raise Unavailable(f"JAX converts {wide[0]} to a narrower dtype by default; set JAX_ENABLE_X64=1")


def _halved(name: str) -> bool:
    return name in ("float64", "int64", "uint64", "complex128")


def of_tensors(function: Callable[..., Any], operands: Operands) -> Callable[..., Any]:
    """A function of JAX arrays as one of tensors. On the CPU it waits for the result, as all that runs there."""
    import jax
    import torch

    device = jax.devices("cpu")[0] if operands.stream is None else jax.devices("cuda")[operands.device]

    def call(*tensors: Any, **scalars: Any) -> Any:
        with jax.default_device(device):
            result = function(*(jax.dlpack.from_dlpack(tensor) for tensor in tensors), **scalars)
        several = isinstance(result, (tuple, list))
        every = list(result) if several else [result]
        if operands.stream is None:
            jax.block_until_ready(every)
        found = [torch.from_dlpack(one) if isinstance(one, jax.Array) else one for one in every]
        return tuple(found) if several else found[0]

    return call
