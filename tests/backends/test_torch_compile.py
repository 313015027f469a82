"""torch.compile: two rows, each with code that no other row's compilation discards."""

from __future__ import annotations

import pytest

from cudalab.backends import torch_compile
from cudalab.engine.groups import Group
from cudalab.engine.selection import Selection
from cudalab.spec import find
from cudalab.spec.dtype import dtype

torch = pytest.importorskip("torch", reason="PyTorch is not installed")


def double(x):
    return x + x


def test_max_autotune_is_a_row_of_gpus():
    group = Group(find.kernel("gelu"), "small", (2,), dtype("float32"))
    selection = Selection.parse("torch_compile", "")
    assert [v.label for v in selection.variants(group, "cpu")] == ["torch_compile"]
    assert [v.label for v in selection.variants(group, "cuda")] == ["torch_compile", "torch_compile:max_autotune"]


def test_both_modes_are_known_to_inductor():
    from torch._inductor import list_mode_options

    assert list_mode_options(torch_compile.MODES[""]) == {}
    options = list_mode_options(torch_compile.MODES["max_autotune"])
    assert options["max_autotune"]
    assert not options.get("triton.cudagraphs")


@pytest.mark.parametrize("form", [double, torch.nn.functional.gelu, lambda x: x * 2], ids=["def", "built-in", "lambda"])
def test_what_is_compiled_stays_compiled(form):
    compiled_graphs = []

    def count(graph, inputs):
        compiled_graphs.append(graph)
        return graph.forward

    inputs = [torch.arange(n, dtype=torch.float32) for n in range(2, 14)]  # Dynamo keeps 8 versions of one code
    made = [torch.compile(torch_compile.own_code(form), backend=count, dynamic=False) for _ in inputs]
    for _ in range(2):
        for function, x in zip(made, inputs, strict=True):
            assert torch.equal(function(x), form(x))
    assert len(compiled_graphs) == len(inputs)
