"""The spec's Triton expression as a kernel of 1,024 elements a program, for pointwise kernels."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable
from functools import cache
from typing import Any

from cudalab.backends import _torch
from cudalab.base.cache import folder
from cudalab.device.arrays import installed, to_torch, torch_missing
from cudalab.device.operands import Bound, Operands, writing
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Kernel, blocks

devices = ("cuda",)
timed = True
budget = "peers"
own_indexing = True

BLOCK = 1024  # elements a program, Triton's own tutorial value
TEMPLATE = """import triton
import triton.language as tl


@triton.jit
def kernel({pointers}, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
{loads}
    tl.store({output}_ptr + i, {expression}, inside)
"""


def missing(device: str) -> str | None:
    if not installed("triton"):
        return "Triton is not installed; pip install triton (Linux)"
    return torch_missing(device)


def variants(kernel: Kernel) -> tuple[str, ...]:
    return ("",) if kernel.triton and kernel.pointwise else ()


def bind(kernel: Kernel, variant: str, dtype: DType, operands: Operands) -> Bound:
    assert kernel.triton is not None
    function = _compiled(tuple(operands.inputs), kernel.output, kernel.triton, dtype.floating and dtype.itemsize == 2)

    def prepare(on: Operands) -> Callable[[], object]:
        tensors, n = [*_torch.tensors(on), to_torch(on.output)], on.output.size
        grid = (blocks(n, BLOCK),)
        return (lambda: function[grid](*tensors, n, BLOCK=BLOCK)) if n else lambda: None

    def as_users_call(on: Operands) -> Callable[[], Any]:
        import torch

        tensors, n = _torch.tensors(on), on.output.size
        grid = (blocks(n, BLOCK),)

        def call() -> Any:
            result = torch.empty_like(tensors[0])
            if n:
                function[grid](*tensors, result, n, BLOCK=BLOCK)
            return result

        return call

    return writing(prepare, operands, as_users_call)


@cache
def _compiled(inputs: tuple[str, ...], output: str, expression: str, widen: bool) -> Any:
    """Triton reads a kernel's source from its file, so the generated one is written to the cache first."""
    text = TEMPLATE.format(
        pointers=", ".join(f"{n}_ptr" for n in (*inputs, output)),
        loads="\n".join(f"    {n} = tl.load({n}_ptr + i, inside){'.to(tl.float32)' if widen else ''}" for n in inputs),
        output=output,
        expression=expression,
    )
    name = f"pointwise_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    path = folder("triton") / f"{name}.py"
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
    found = importlib.util.spec_from_file_location(name, path)
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module.kernel
