"""Modules that take the place of PyTorch's: `cudalab.nn.GELU` for `torch.nn.GELU`."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import has_torch_function_unary

from cudalab.spec import find

FORMS = {"none": find.kernel("gelu"), "tanh": find.kernel("gelu_tanh")}
DTYPES = {form: tuple(getattr(torch, name) for name in kernel.dtypes) for form, kernel in FORMS.items()}


class GELU(torch.nn.GELU):
    """`torch.nn.GELU` by the lab's kernels: the same arguments, name and (empty) state.

    Tensors of float32, float16 and bfloat16 go to the kernels, those that are not contiguous as a copy. All else that
    torch.nn.GELU takes goes to itself: float64, other devices than a GPU or the CPU, sparse and nested tensors, and
    subclasses of tensors that do as they like.
    torch.jit.script cannot read this module.
    """

    def forward(self, input: Any) -> Any:
        known = input.dtype in DTYPES.get(self.approximate, ()) and (input.is_cuda or input.is_cpu)
        # Not only subclasses have a torch function: torch.set_default_device is one that all tensors pass through.
        own = type(input) not in (torch.Tensor, torch.nn.Parameter) and has_torch_function_unary(input)
        if known and input.layout is torch.strided and not input.is_nested and not own:
            return FORMS[self.approximate](input.resolve_neg().contiguous())
        return super().forward(input)
