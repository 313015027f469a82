"""Functions that a spec replaces are named; what libraries load lazily is not."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import pytest
from tables import table

from cudalab.base import genuine
from cudalab.base.threads import cores

PROGRAM = """
import json, os, sys
import cudalab.timing.cpu
from cudalab.base import genuine

genuine.watch()
for code in json.loads(sys.argv[1]):
    if not os.fork():
        exec(code)
        print(*genuine.replaced(), flush=True)
        sys.exit()
    assert os.wait()[1] == 0, code
"""


def said(*codes):
    """For each code, what a process that watches and runs it tells was replaced: a fork of one process each."""
    program = [sys.executable, "-c", PROGRAM, json.dumps([textwrap.dedent(code) for code in codes])]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [line.split() for line in done.stdout.splitlines()]


REPLACED = table("genuine", "replaced")


@pytest.fixture(scope="module")
def found():
    codes = [code for code, _ in REPLACED]
    return dict(zip(codes, said(*codes), strict=True))


@pytest.mark.process
@pytest.mark.parametrize(("code", "names"), REPLACED)
def test_what_is_replaced_is_named(found, code, names):
    assert found[code] == ([] if names == "os.sched_setaffinity" and cores() == 1 else names.split())


@pytest.mark.process
@pytest.mark.sweep
def test_a_library_that_a_spec_imports_itself_is_watched():
    pytest.importorskip("torch")
    code = """
        import torch
        import torch.nn.functional as F
        real = F.gelu
        F.gelu = lambda *a, **k: real(*a, **k)
        torch.Tensor.sin = lambda self: self
        torch.cuda.Event.elapsed_time = lambda self, other: 1.0
        F.softmax.__code__ = (lambda *a: 1).__code__
    """
    names = ["Tensor.sin", "cuda.streams.Event.elapsed_time", "nn.functional.gelu", "nn.functional.softmax"]
    assert said(code) == [[f"torch.{name}" for name in names]]


@pytest.mark.sweep
def test_what_torch_loads_later_is_no_alarm():
    pytest.importorskip("torch")
    code = """
        import torch
        import torch._dynamo, torch._inductor, torch.profiler, torch.distributed, torch.func, torch.export
        torch.compile(lambda x: x + 1, backend="eager")(torch.ones(3))
        with torch.profiler.profile():
            torch.ones(3)
    """
    assert said(code) == [[]]


def test_it_says_what_was_replaced():
    assert genuine.refusal(["a.b"]).startswith("the spec replaced a.b, which")
    many = genuine.refusal([f"a.b{i}" for i in range(7)])
    assert "a.b4 and 2 more" in many
    assert "do not replace them" in many


@pytest.mark.sweep
def test_settings_of_pytorch_that_slow_others_down_are_named():
    pytest.importorskip("torch")
    code = """
        import torch
        torch.use_deterministic_algorithms(True)
        torch.set_num_threads(torch.get_num_threads() + 1)
        torch.backends.cuda.enable_flash_sdp(False)
        torch.set_float32_matmul_precision("high")
        from torch.overrides import TorchFunctionMode
        class Slow(TorchFunctionMode): pass
        Slow().__enter__()
        torch._C._set_mkldnn_enabled(False)
    """
    names = [
        "backends.cuda.enable_flash_sdp", "backends.mkldnn.enabled", "overrides.TorchFunctionMode", "set_num_threads",
        "use_deterministic_algorithms",
    ]  # fmt: skip
    assert said(code) == [[f"torch.{name}" for name in names]]
