"""A transformer that predicts the next token. Import this module in a function, after `lab.torch()`: it needs torch."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional


class SwiGLU(nn.Module):
    """silu(gate) * up by PyTorch's functions: it has no module for it."""

    def forward(self, gate: Any, up: Any) -> Any:
        return functional.silu(gate) * up


class Attention(nn.Module):
    """Causal attention of `heads` heads, for inputs of shape (batch, tokens, width)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.mixed, self.out = heads, nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)

    def forward(self, x: Any) -> Any:
        batch, tokens, width = x.shape
        q, k, v = self.mixed(x).view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))


class FeedForward(nn.Module):
    """Two products around GELU, or three around SwiGLU (`gate` has the third one's weights)."""

    def __init__(self, width: int, hidden: int, activation: Any, gated: bool) -> None:
        super().__init__()
        self.up, self.down, self.activation = nn.Linear(width, hidden), nn.Linear(hidden, width), activation
        self.gate = nn.Linear(width, hidden) if gated else None

    def forward(self, x: Any) -> Any:
        parts = (self.up(x),) if self.gate is None else (self.gate(x), self.up(x))
        return self.down(self.activation(*parts))

    @torch.no_grad()
    def reorder(self) -> None:
        """Put the hidden units into another order: the same function, but `down` sums in another order."""
        order = torch.randperm(self.down.in_features, device=self.down.weight.device)
        for layer in (self.up, self.gate):
            if layer is not None:
                layer.weight.copy_(layer.weight[order])
                layer.bias.copy_(layer.bias[order])
        self.down.weight.copy_(self.down.weight[:, order])


class Block(nn.Module):
    def __init__(self, modules: Any, form: str, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        gated = form == "llama"
        norm, activation = (modules.RMSNorm, modules.SwiGLU) if gated else (modules.LayerNorm, modules.GELU)
        self.before, self.attention = norm(width), Attention(width, heads)
        self.between, self.forth = norm(width), FeedForward(width, hidden, activation(), gated)

    def forward(self, x: Any) -> Any:
        x = x + self.attention(self.before(x))
        return x + self.forth(self.between(x))


class Decoder(nn.Module):
    """Logits of the next token, of shape (batch * tokens, vocabulary), for tokens of shape (batch, tokens).

    `form`: "llama" has RMSNorm and SwiGLU, "gpt" has LayerNorm and GELU, which `modules` (torch.nn with a SwiGLU, or
    cudalab.nn) makes. Models of either have the same names of parameters, so one state fits both.
    """

    def __init__(
        self, modules: Any, form: str, layers: int, width: int, heads: int, hidden: int, vocabulary: int, tokens: int
    ) -> None:  # fmt: skip
        super().__init__()
        self.token, self.place = nn.Embedding(vocabulary, width), nn.Embedding(tokens, width)
        self.blocks = nn.Sequential(*(Block(modules, form, width, heads, hidden) for _ in range(layers)))
        self.norm = (modules.RMSNorm if form == "llama" else modules.LayerNorm)(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, x: Any) -> Any:
        x = self.token(x) + self.place.weight
        return self.head(self.norm(self.blocks(x))).flatten(0, 1)

    def reorder(self) -> None:
        """Put the hidden units of all layers into another order, which changes results by rounding alone."""
        for block in self.blocks:
            block.forth.reorder()
