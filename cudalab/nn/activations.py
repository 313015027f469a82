"""Activations: GELU and SwiGLU."""

from __future__ import annotations

from typing import Any

import torch

from cudalab.call import kernel as kernels
from cudalab.nn.inputs import dense, takes

FORMS = {"none": kernels.by_name("gelu"), "tanh": kernels.by_name("gelu_tanh")}
SWIGLU = kernels.by_name("swiglu")


class GELU(torch.nn.GELU):
    """`torch.nn.GELU` with the lab's kernels: the same arguments, name and (empty) state.

    Tensors of float32, float16 and bfloat16 go to the kernels; one that is not contiguous is copied first. What else
    torch.nn.GELU takes goes to torch.nn.GELU: float64, devices other than a GPU or the CPU, sparse and nested tensors,
    and tensor subclasses with a torch function. torch.jit.script cannot read this module.
    """

    def forward(self, input: Any) -> Any:
        kernel = FORMS.get(self.approximate)
        return kernel(dense(input)) if kernel and takes(kernel, input) else super().forward(input)


class SwiGLU(torch.nn.Module):
    """silu(gate) * up, elementwise, with the lab's kernel, which reads both once. It has no parameters.

    `gate` and `up` are tensors of any one shape. In float32, float16 and bfloat16 they go to the kernel. Other dtypes,
    two dtypes, and shapes that broadcast go to `torch.nn.functional.silu(gate) * up`, which raises RuntimeError for
    shapes that do not.
    """

    def forward(self, gate: Any, up: Any) -> Any:
        if takes(SWIGLU, gate, up) and gate.shape == up.shape:
            return SWIGLU(dense(gate), dense(up))
        return torch.nn.functional.silu(gate) * up
