"""Softmax of the last dimension."""

from __future__ import annotations

from typing import Any

import torch

from cudalab.call import kernel as kernels
from cudalab.nn.inputs import autocast_widens, rows, takes

SOFTMAX = kernels.by_name("softmax")


class Softmax(torch.nn.Softmax):
    """`torch.nn.Softmax` with the lab's kernel: the same argument and (empty) state.

    Inputs of any shape in float32, float16 and bfloat16 go to the kernel, if `dim` is their last dimension. What else
    torch.nn.Softmax takes goes to torch.nn.Softmax: other dimensions, float64, float16 and bfloat16 under autocast, and
    tensors that GELU does not take. A second derivative (`create_graph=True`) on a GPU raises InputError.
    """

    def forward(self, input: Any) -> Any:
        last = takes(SOFTMAX, input) and input.dim() > 0 and self.dim in (-1, input.dim() - 1)
        if not last or input.shape[-1] == 0 or autocast_widens(input):
            return super().forward(input)
        return SOFTMAX(rows(input, input.shape[-1])).view(input.shape)
