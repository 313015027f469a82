"""Modules that replace PyTorch's: `cudalab.nn.LayerNorm` for `torch.nn.LayerNorm`, and `replace` for a whole model."""

from cudalab.nn.activations import GELU, SwiGLU
from cudalab.nn.loss import CrossEntropyLoss
from cudalab.nn.norms import LayerNorm, RMSNorm
from cudalab.nn.softmax import Softmax
from cudalab.nn.swap import replace

__all__ = ["GELU", "CrossEntropyLoss", "LayerNorm", "RMSNorm", "Softmax", "SwiGLU", "replace"]
