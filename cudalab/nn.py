"""Modules that replace PyTorch's: `cudalab.nn.GELU` for `torch.nn.GELU`."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import has_torch_function_unary

from cudalab.call import kernel as kernels

FORMS = {"none": kernels.by_name("gelu"), "tanh": kernels.by_name("gelu_tanh")}
DTYPES = {form: tuple(getattr(torch, name) for name in kernel.dtypes) for form, kernel in FORMS.items()}


class GELU(torch.nn.GELU):
    """`torch.nn.GELU` with the lab's kernels: the same arguments, name and (empty) state.

    Tensors of float32, float16 and bfloat16 go to the kernels; one that is not contiguous is copied first. What else
    torch.nn.GELU takes goes to torch.nn.GELU: float64, devices other than a GPU or the CPU, sparse and nested tensors,
    and tensor subclasses with a torch function. torch.jit.script cannot read this module.
    """

    def forward(self, input: Any) -> Any:
        known = input.dtype in DTYPES.get(self.approximate, ()) and (input.is_cuda or input.is_cpu)
        # Tensors can have a torch function without being a subclass: torch.set_default_device adds one to all.
        own = type(input) not in (torch.Tensor, torch.nn.Parameter) and has_torch_function_unary(input)
        if known and input.layout is torch.strided and not input.is_nested and not own:
            return FORMS[self.approximate](input.resolve_neg().contiguous())
        return super().forward(input)
