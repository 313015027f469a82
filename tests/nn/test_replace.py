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


def test_the_example_of_the_page_runs():
    (block,) = (b for b in blocks(ROOT / "docs" / "pytorch.md") if "replace(" in b.text)
    names = {"torch": torch}
    exec(block.text, names)
    assert type(names["model"].norm1) is nn.LayerNorm
