"""Cross-entropy of logits with target classes."""

from __future__ import annotations

from typing import Any

import torch

from cudalab.call import kernel as kernels
from cudalab.nn.inputs import autocast_widens, dense, is_plain, rows, takes

CROSS_ENTROPY = kernels.by_name("cross_entropy")


class CrossEntropyLoss(torch.nn.CrossEntropyLoss):
    """`torch.nn.CrossEntropyLoss` with the lab's kernel: the same arguments and state.

    Logits of shape (rows, classes) in float32, float16 and bfloat16 with int64 targets of shape (rows,) go to the
    kernel. It computes in float32; the loss has the dtype of the logits, under autocast float32. What else
    torch.nn.CrossEntropyLoss takes goes to torch.nn.CrossEntropyLoss: `weight`, `label_smoothing`, probabilities as
    targets, other numbers of dimensions, float64, and tensors that GELU does not take. A target that is no class raises
    IndexError on the CPU. On a GPU its loss is NaN, where PyTorch's is an error of the device.
    """

    def forward(self, input: Any, target: Any) -> Any:
        if not self._kernel_takes(input, target):
            return super().forward(input, target)
        loss, _ = CROSS_ENTROPY(rows(input, input.shape[1]), dense(target), ignore_index=self.ignore_index)
        if self.reduction == "mean":
            loss = loss.sum() / (target != self.ignore_index).sum()
        elif self.reduction == "sum":
            loss = loss.sum()
        return loss if autocast_widens(input) else loss.to(input.dtype)

    def _kernel_takes(self, input: Any, target: Any) -> bool:
        if self.weight is not None or self.label_smoothing or self.reduction not in ("mean", "sum", "none"):
            return False
        if not takes(CROSS_ENTROPY, input) or not is_plain(target):
            return False
        if target.dtype != torch.int64 or target.device != input.device:
            return False
        return input.dim() == 2 and input.shape[1] > 0 and tuple(target.shape) == (input.shape[0],)
