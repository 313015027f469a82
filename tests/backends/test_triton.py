"""Triton's forms: how a spec names them, how they are tuned, and whether each configuration gives the right result."""

from __future__ import annotations

import math
import os
import runpy
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from cudalab.backends import _triton, triton
from cudalab.base import cache
from cudalab.base.errors import SpecError
from cudalab.device.arrays import installed
from cudalab.engine.groups import Group
from cudalab.spec import find
from cudalab.spec.dtype import dtype

FILES = [name for name, kernel in find.kernels().items() if kernel.triton_file]
# Triton's interpreter makes 4 of 7.96 in fp8: it loses the carry of a mantissa that is rounded up.
INTERPRETED_RIGHT = [name for name in FILES if name != "quantize_fp8"]


@pytest.mark.parametrize("name", find.kernels())
def test_every_kernel_of_the_lab_has_a_form(name):
    assert triton.variants(find.kernel(name)) == ("",)


def test_an_expression_is_of_one_element():
    assert triton.variants(replace(find.kernel("softmax"), triton="x + 1")) == ()
    assert triton.variants(replace(find.kernel("softmax"), triton=lambda x, y: None)) == ("",)
    assert triton.variants(replace(find.kernel("softmax"), triton=None)) == ()


def test_the_file_of_a_form_is_among_the_sources():
    group = Group(find.kernel("softmax"), "small", (2, 3), dtype("float32"), alias="mine/softmax")
    assert group.files["mine/softmax.triton.py"] == Path(find.kernel("softmax").file).parent / "triton" / "softmax.py"
    assert len(Group(find.kernel("gelu"), "small", (2,), dtype("float32")).files) == 2


def test_a_file_without_launch_is_refused(tmp_path):
    (tmp_path / "form.py").write_text("def start(x, y): ...\n")
    kernel = replace(find.kernel("softmax"), triton=str(tmp_path / "form.py"))
    with pytest.raises(SpecError, match=r"form.py has no function 'launch'; define launch\(inputs..., output\)"):
        triton._launch(kernel, dtype("float32"), [])


# ---- tuning ----------------------------------------------------------------------------------------------------------


class Config(SimpleNamespace):
    def all_kwargs(self):
        return vars(self)


def chosen(monkeypatch, elements, fits=lambda values: True, **constants):
    """Which of three configurations `tuned` times."""

    def autotune(configs, key, prune_configs_by):
        return lambda kernel: prune_configs_by["early_config_prune"](configs, given, **constants)

    given = {"x": np.empty(elements, "i1"), "y": np.empty(1, "i1"), "n": elements}
    given |= {name: SimpleNamespace(numel=lambda a=a: a.size) for name, a in given.items() if name != "n"}
    monkeypatch.setitem(sys.modules, "triton", SimpleNamespace(autotune=autotune))
    configs = [Config(BLOCK=block, num_warps=block // 64) for block in (256, 512, 1024)]
    return [config.BLOCK for config in _triton.tuned(configs, ["n"], fits)(None)]


def test_small_arrays_and_what_does_not_fit_are_not_tried_unless_nothing_fits(monkeypatch):
    def fits(values):
        return values["BLOCK"] * 2 >= values["COLS"] > values["num_warps"]

    assert chosen(monkeypatch, _triton.SMALL) == [256]
    assert chosen(monkeypatch, _triton.SMALL + 1) == [256, 512, 1024]
    assert chosen(monkeypatch, 10**6, fits, COLS=1000) == [512, 1024]
    assert chosen(monkeypatch, 10, fits, COLS=1000) == [512]
    assert chosen(monkeypatch, 10**6, fits, COLS=10**6) == [1024], "that with most warps"


@pytest.mark.parametrize("name", ["rope", "rope_interleaved"])
def test_heads_of_any_length_are_all_turned_with_at_most_32_elements_a_thread(monkeypatch, name):
    """ptxas takes minutes for thousands of them."""

    def autotune(configs, key, prune_configs_by):
        def launch(grid, x, *more, **constants):
            for one in prune_configs_by["early_config_prune"](configs, {"x": x}, **constants):
                values = {**constants, **one.all_kwargs()}
                tried.append((SimpleNamespace(**values), grid(values)))

        return lambda kernel: type("Tuner", (), {"__class_getitem__": lambda _, grid: partial(launch, grid)})

    tried, kernel = [], find.kernel(name)
    triton = SimpleNamespace(
        jit=lambda kernel: kernel, autotune=autotune, language=SimpleNamespace(constexpr=int),
        Config=lambda values, num_warps: Config(**values, num_warps=num_warps),
        cdiv=lambda a, b: -(-a // b), next_power_of_2=lambda n: 1 << (n - 1).bit_length(),
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "triton", triton)
    monkeypatch.setitem(sys.modules, "triton.language", triton.language)
    launch = runpy.run_path(kernel.triton_file)["launch"]
    for tokens, heads, half in ((1, 2, 8200), (9, 5, 2048), (64, 4, 2049), *kernel.sizes.values()):
        shapes = (tokens, heads, 2 * half), (tokens, half), (tokens, half), (tokens, heads, 2 * half)
        launch(*(SimpleNamespace(shape=shape, numel=partial(math.prod, shape)) for shape in shapes))
        for one, grid in tried:
            assert 32 * 32 * one.num_warps >= one.SOME * one.HALF
            assert grid == (tokens, -(-heads // one.SOME), one.PARTS) and half <= one.HALF * one.PARTS
            assert (one.PARTS > 1) == (half > 2048)
        tried.clear()


def test_compiled_code_goes_to_the_lab_s_cache_unless_the_user_names_a_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("CUDALAB_CACHE", str(tmp_path))
    monkeypatch.setenv("TRITON_CACHE_DIR", "/mine")
    cache.use_for("TRITON_CACHE_DIR")
    assert os.environ["TRITON_CACHE_DIR"] == "/mine"
    monkeypatch.delenv("TRITON_CACHE_DIR")
    cache.use_for("TRITON_CACHE_DIR")
    assert os.environ["TRITON_CACHE_DIR"] == str(tmp_path / "triton")


# ---- results, in Triton's interpreter --------------------------------------------------------------------------------

# Another process, since Triton decides at the decorator whether it interprets. The interpreter cuts bfloat16 off where
# a GPU rounds, so results there may be a whole ULP off.
INTERPRETED = """
import sys
from dataclasses import replace
import numpy as np
from cudalab.backends import _triton, triton
from cudalab.checks.expected import Expected
from cudalab.checks.parity import judged
from cudalab.device.arrays import as_plain
from cudalab.device.cpu import Cpu
from cudalab.device.guard import POISON_BYTE
from cudalab.device.operands import pieces
from cudalab.spec import find
from cudalab.spec.dtype import dtype

kernel, wrong, tried = find.kernel(sys.argv[1]), [], 0
shapes = sorted((edge for edge in kernel.edges if 0 < np.prod(edge) <= 600), key=np.prod)[-2:]
_triton.SMALL = 0

def judge(how, got=None, part=False):
    "`part`: of the outputs that have been written, since a later kernel of the form may write the others."
    got = [as_plain(piece) for piece in pieces(operands.output if got is None else got)]
    by_name = dict(zip(kernel.outs, got, strict=True))
    names = [out for out, one in by_name.items() if not part or (one.reshape(-1).view(np.uint8) != POISON_BYTE).any()]
    if not names:
        wrong.append(f"{name} {shape} {how}: no output is written")
    for out in names:
        found = judged(kernel, kind, out, budgets[out], by_name, want, arrays)
        if not found.ok:
            wrong.append(f"{name} {shape} {how}: {out}: {found.message}")

def renew():
    device.restore(arrays)  # what is updated in place
    device.poison(operands.output)

def seconds(call, quantiles):
    global tried
    tried += 1
    renew()
    call()
    judge(f"configuration {tried}", part=True)
    return [1.0 / tried] * 3

_triton.seconds = seconds
for name in kernel.dtypes:
    kind, device = dtype(name), Cpu()
    budgets = {out: kernel.budget(kind, triton.budget, out) for out in kernel.outs}
    if name == "bfloat16":
        budgets = {out: replace(budget, ulp=max(budget.ulp, 1.01)) for out, budget in budgets.items()}
    for shape in shapes if name == kernel.dtypes[0] else shapes[-1:]:
        arrays = kernel.make(shape, kind)
        want = Expected(kernel, arrays)
        operands = device.place(kernel, kind, arrays)
        bound = triton.bind(kernel, "", kind, operands)
        renew()
        bound.run()
        judge("bound")
        if bound.api:
            judge("as a user's call", bound.api()())
assert tried >= 20, tried
sys.exit("\\n".join(wrong[:10]) or 0)
"""


@pytest.mark.sweep
@pytest.mark.skipif(not installed("triton"), reason="Triton is not installed; pip install triton (Linux)")
@pytest.mark.parametrize("name", [*INTERPRETED_RIGHT, "gelu", "gelu_backward", "plus_one"])
def test_every_configuration_is_right(name, tmp_path):
    environment = {**os.environ, "TRITON_INTERPRET": "1", "CUDALAB_CACHE": str(tmp_path)}
    command = [sys.executable, "-W", "ignore", "-c", INTERPRETED, name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if "only 0-dimensional arrays can be converted to Python scalars" in done.stderr:
        pytest.skip("this Triton's interpreter does not work with NumPy 2.5")
    assert done.returncode == 0, done.stderr
