"""Normalisation of the last dimensions: RMSNorm and LayerNorm."""

from __future__ import annotations

from math import prod
from typing import Any

import torch

from cudalab.call import kernel as kernels
from cudalab.call.kernel import Kernel
from cudalab.nn.inputs import autocast_widens, dense, rows, takes

RMSNORM, LAYERNORM = kernels.by_name("rmsnorm"), kernels.by_name("layernorm")
EPS = 1e-5  # of the kernel layernorm
SMALLEST = torch.finfo(torch.float32).eps  # of eps=None: PyTorch computes float16 and bfloat16 in float32 too


class RMSNorm(torch.nn.RMSNorm):
    """`torch.nn.RMSNorm` with the lab's kernel: the same arguments, parameters, initialisation and state.

    Inputs of shape (*, *normalized_shape) in float32, float16 and bfloat16 go to the kernel, if the weight has the
    input's dtype. What else torch.nn.RMSNorm takes goes to torch.nn.RMSNorm: `elementwise_affine=False`, float64, an
    input of another dtype than the weight, float16 and bfloat16 under autocast, and tensors that GELU does not take.
    """

    def forward(self, x: Any) -> Any:
        if not _fit(RMSNORM, self.normalized_shape, x, self.weight):
            return super().forward(x)
        return _of_rows(RMSNORM, x, self.weight, eps=SMALLEST if self.eps is None else self.eps)


class LayerNorm(torch.nn.LayerNorm):
    """`torch.nn.LayerNorm` with the lab's kernel: the same arguments, parameters, initialisation and state.

    It takes what `RMSNorm` takes. An `eps` other than 1e-5, `elementwise_affine=False` and `bias=False` go to
    torch.nn.LayerNorm.
    """

    def forward(self, input: Any) -> Any:
        if self.eps != EPS or not _fit(LAYERNORM, self.normalized_shape, input, self.weight, self.bias):
            return super().forward(input)
        return _of_rows(LAYERNORM, input, self.weight, self.bias)


def _fit(kernel: Kernel, shape: tuple[int, ...], x: Any, *parameters: Any) -> bool:
    """Whether the kernel takes these tensors, and x ends in the dimensions of `shape`."""
    ends = takes(kernel, x, *parameters) and tuple(x.shape[-len(shape) :]) == tuple(shape)
    return ends and prod(shape) > 0 and not autocast_widens(x)


def _of_rows(kernel: Kernel, x: Any, *parameters: Any, **scalars: Any) -> Any:
    """The kernel's result in the shape of x. A row is as long as a parameter."""
    cols = parameters[0].numel()
    return kernel(rows(x, cols), *(dense(p).view(cols) for p in parameters), **scalars).view(x.shape)
