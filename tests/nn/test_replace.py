"""`cudalab.nn.replace`: the modules of a model of PyTorch's become those of `cudalab.nn`."""

from __future__ import annotations

import pytest
from documents import ROOT, blocks

torch = pytest.importorskip("torch")

from cudalab import nn  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")


class Own(torch.nn.LayerNorm):
    """A subclass of a module as users write it."""


def test_replace_changes_the_class_and_nothing_else():
    norm = torch.nn.LayerNorm(6)
    model = torch.nn.Sequential(
        torch.nn.Linear(6, 6), torch.nn.GELU("tanh"), norm, torch.nn.ModuleList([torch.nn.RMSNorm(6, eps=0.5), norm]),
        torch.nn.ModuleDict({"weights": torch.nn.Softmax(-1), "loss": torch.nn.CrossEntropyLoss(torch.rand(6))}),
    )  # fmt: skip
    model.eval()
    before, state, text = list(model.modules()), list(model.state_dict(keep_vars=True).items()), repr(model)
    assert nn.replace(model) is model
    assert [id(one) for one in model.modules()] == [id(one) for one in before]
    assert all(a is b for (_, a), (_, b) in zip(model.state_dict(keep_vars=True).items(), state, strict=True))
    assert repr(model) == text
    kinds = [type(one) for one in model.modules() if type(one).__module__.startswith("cudalab.nn")]
    assert kinds == [nn.GELU, nn.LayerNorm, nn.RMSNorm, nn.Softmax, nn.CrossEntropyLoss]
    assert not any(one.training for one in model.modules())
    assert type(nn.replace(torch.nn.GELU())) is nn.GELU
    assert type(nn.replace(norm)) is nn.LayerNorm  # again


def test_what_replace_leaves_alone():
    hooked, back, patched = torch.nn.GELU(), torch.nn.LayerNorm(6), torch.nn.GELU()
    hooked.register_forward_hook(lambda *_: None)
    back.register_full_backward_hook(lambda *_: None)
    patched.forward = lambda x: x
    scaled = torch.nn.utils.parametrizations.weight_norm(torch.nn.RMSNorm(6), dim=None)
    alone = [hooked, back, patched, scaled, Own(6), torch.nn.Softmax(1), torch.nn.Softmax(), torch.nn.SiLU()]
    kinds = [type(one) for one in alone]
    nn.replace(torch.nn.ModuleList(alone))
    assert [type(one) for one in alone] == kinds


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second = torch.nn.LayerNorm(width), torch.nn.RMSNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.weights = torch.nn.Softmax(dim=-1)
        self.mlp = torch.nn.Sequential(
            torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width)
        )

    def forward(self, x):
        q, k, v = self.qkv(self.first(x)).chunk(3, -1)
        future = torch.ones(x.shape[-2], x.shape[-2], dtype=torch.bool, device=x.device).triu(1)
        scores = (q @ k.transpose(-1, -2) * x.shape[-1] ** -0.5).masked_fill(future, -torch.inf)
        x = x + self.out(self.weights(scores) @ v)
        return x + self.mlp(self.second(x))


class Transformer(torch.nn.Module):
    """It predicts the next token."""

    def __init__(self, width=32, tokens=29):
        super().__init__()
        self.start = torch.nn.Embedding(tokens, width)
        self.blocks = torch.nn.Sequential(*(Block(width) for _ in range(4)))
        self.end = torch.nn.Sequential(torch.nn.RMSNorm(width), torch.nn.Linear(width, tokens))
        self.loss = torch.nn.CrossEntropyLoss()

    def forward(self, text):
        logits = self.end(self.blocks(self.start(text[:, :-1])))
        return self.loss(logits.flatten(0, 1), text[:, 1:].flatten())


def losses(change, device, steps=200):
    torch.manual_seed(0)
    model = change(Transformer()).to(device)
    text = torch.randint(29, (4, 13)).to(device)
    text[1, 5:] = text[0, 5:]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    found = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(text)
        loss.backward()
        optimizer.step()
        found.append(loss.detach())
    return torch.stack(found).cpu()


@pytest.mark.sweep
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_two_hundred_steps_of_a_transformer_give_the_same_losses(device):
    """Each step adds roundings of float32, 6e-8; training makes them grow, more so as the loss falls."""
    want = losses(lambda model: model, device)
    assert want[-1] < want[0] / 10
    torch.testing.assert_close(losses(nn.replace, device), want, rtol=1e-3, atol=1e-5)


def test_the_example_of_the_page_runs():
    (block,) = (b for b in blocks(ROOT / "docs" / "pytorch.md") if "replace(" in b.text)
    names = {"torch": torch}
    exec(block.text, names)
    assert type(names["model"].norm1) is nn.LayerNorm
