"""The studies after NVIDIA's tuning guide: what each claims, at tiny size on the CPU, in this process."""

from __future__ import annotations

import threading
from math import inf
from types import SimpleNamespace

import numpy as np
import pytest
from studying import a_lab, module, workload

from cudalab.base.errors import Unavailable
from cudalab.study import engine, says, training
from cudalab.study.lab import Lab

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.usefixtures("quick_studies")]

NAMES = ("cudnn-benchmark", "batch-size", "conv-bias", "zero-grad", "debug-apis", "fused-modules", "checkpoint",
         "transformer")  # fmt: skip


def count(run, label, name, size="tiny"):
    value = says.counted(run, size, label, name)
    assert value is not None, (label, name)
    return value


@pytest.mark.parametrize("name", NAMES)
def test_a_variant_that_learns_something_else_is_wrong(name, monkeypatch):
    """The comparison detects a step that is left out, and a gradient of another function."""
    study = module(name).study
    if name == "fused-modules":
        monkeypatch.setattr(module(name), "STEPS", 5)
        right = module(name).fused
        other = module(name).optimized(lambda lab, held, rate: right(lab, held, 1.1 * rate))
    else:
        right, others = training.Training.__post_init__, [v for v in study.variants if v.label != study.baseline]
        other = others[0].make

        def scaled(self):
            right(self)
            with torch.no_grad():
                for p in self.model.parameters():
                    p.mul_(1.5)

        def make(lab, make=other):
            with monkeypatch.context() as patch:
                patch.setattr(training.Training, "__post_init__", scaled)
                work = make(lab)
                work.run()
                wrong = work.result()
            work.result = lambda: wrong
            return work

        other = make
    lab = a_lab(name)
    base = next(v for v in study.variants if v.label == study.baseline).make(lab)
    work = other(lab)
    wanted, got = engine.arrays(base.result()), engine.arrays(work.result())
    assert not engine.agreement(got, wanted, study.tolerance).ok
    base.close()
    work.close()


def test_mixed_precision_and_checkpoints_need_less_memory_and_a_larger_batch_fits(studied):
    run = studied.run("batch-size")
    for label in ("amp-bf16", "amp-fp16"):
        assert count(run, label, "peak_bytes") < 0.9 * count(run, "float32", "peak_bytes")
        assert count(run, label, "largest_batch") > count(run, "float32", "largest_batch") > 0
    lab = a_lab("batch-size", memory_gib=0.002)
    twice = module("batch-size").trained()(lab).quantities()["largest_batch"]
    assert 1.5 < twice / count(studied.run("batch-size"), "float32", "largest_batch") < 3
    run = studied.run("checkpoint")
    for label, share in {"each layer": 0.6, "segments": 0.8}.items():
        assert count(run, label, "peak_bytes") < share * count(run, "kept", "peak_bytes")
        assert share * count(run, label, "largest_batch") > count(run, "kept", "largest_batch") > 0
    assert all(case.quantities["largest_batch"] for case in studied.run("checkpoint").cases)
    told = {step.label for step in studied.steps["checkpoint"] if "batch of" in step.phase}
    assert told == {"kept", "each layer", "segments"}


def test_no_bias_and_fused_optimizers_need_fewer_operators(studied):
    run, width = studied.run("conv-bias"), module("conv-bias").study.sizes["tiny"]["width"]
    assert count(run, "bias", "parameters") - count(run, "no bias", "parameters") == (1 + 2 + 4) * width
    assert count(run, "no bias", "operators") < count(run, "bias", "operators")
    lab = a_lab("conv-bias")
    biased, x, _ = module("conv-bias").make_inputs(lab)
    plain = module("conv-bias").without(lab, biased)
    assert torch.allclose(biased.train()(x), plain.train()(x), atol=1e-5)
    assert not torch.allclose(biased.features[0](x), plain.features[0](x), atol=1e-2)
    run = studied.run("fused-modules")
    for size in ("tiny", "tiny-sgd"):
        unfused, foreach, fused = (count(run, label, "operators", size) for label in ("unfused", "foreach", "fused"))
        assert fused < foreach < unfused / 2, size
        assert count(run, "default", "operators", size) == unfused  # on a CPU
    assert count(run, "default", "operators", "tiny-layernorm") < count(run, "unfused", "operators", "tiny-layernorm")
    assert count(studied.run("zero-grad"), "none", "peak_bytes") < 0.9 * count(
        studied.run("zero-grad"), "zeros", "peak_bytes"
    )


def test_float32_steps_have_the_precision_that_they_name_and_leave_it_as_before(monkeypatch):
    def state():
        return torch.backends.cudnn.allow_tf32, torch.get_float32_matmul_precision()

    before = state()
    for tf32, precision in ((False, "highest"), (True, "high")):
        with training.float32(tf32):
            assert state() == (tf32, precision)
        assert state() == before
    with pytest.raises(ZeroDivisionError), training.float32(not before[0]):
        raise ZeroDivisionError
    assert state() == before
    seen, backward = [], torch.Tensor.backward

    def spied(self, *args, **kwargs):
        seen.append((torch.backends.cudnn.allow_tf32, torch.get_float32_matmul_precision()))
        return backward(self, *args, **kwargs)

    monkeypatch.setattr(torch.Tensor, "backward", spied)
    variants = {v.label: v.make for v in module("batch-size").study.variants}
    for label in ("float32", "tf32"):
        variants[label](a_lab("batch-size")).run()
    assert seen == [(False, "highest"), (True, "high")]


@pytest.mark.parametrize("size", ["tiny", "tiny-sgd", "tiny-layernorm"])
def test_without_apex_its_row_says_so(size):
    apex = next(v for v in module("fused-modules").study.variants if v.label == "apex")
    with pytest.raises(Unavailable, match="Apex is not installed"):
        apex.make(a_lab("fused-modules", size))


def test_the_aids_are_on_during_a_step(monkeypatch):
    """Each variant's step has its debugging aid on, and the plain one has none."""
    debug = module("debug-apis")
    seen = {}
    for variant in debug.study.variants:
        if "cpu" not in variant.devices:
            continue
        lab, marks = a_lab("debug-apis"), set()
        work = variant.make(lab)
        with monkeypatch.context() as patch:
            backward = torch.Tensor.backward

            def spied(self, *args, backward=backward, marks=marks, **kwargs):
                marks |= {"anomaly"} if torch.is_anomaly_enabled() else set()
                marks |= {"profiler"} if torch.autograd._profiler_enabled() else set()
                return backward(self, *args, **kwargs)

            patch.setattr(torch.Tensor, "backward", spied)
            check = torch.autograd.gradcheck
            patch.setattr(torch.autograd, "gradcheck", lambda *a, m=marks, check=check: (m.add("gradcheck"), check(*a)))
            work.run()
        seen[variant.label] = marks
    assert seen == {"none": set()} | {label: {label} for label in ("anomaly", "profiler", "gradcheck")}
    assert not torch.is_anomaly_enabled()


def a_lane(benchmark):
    return module("cudnn-benchmark").Lane(SimpleNamespace(cuda=True, torch=lambda: None), benchmark)


def test_each_lane_has_a_thread_and_a_flag_of_its_own_and_an_error_is_the_callers():
    before = torch.backends.cudnn.benchmark
    lanes = {flag: a_lane(flag) for flag in (False, True)}
    seen = {flag: [lane(lambda: (threading.get_ident(), torch.backends.cudnn.benchmark)) for _ in range(2)]
            for flag, lane in lanes.items()}  # fmt: skip
    assert [flag for _, flag in seen[False] + seen[True]] == [False, False, True, True]
    assert seen[False][0] == seen[False][1]
    assert len({threading.get_ident(), *(ident for ident, _ in seen[False] + seen[True])}) == 3
    assert torch.backends.cudnn.benchmark == before
    for lane in lanes.values():
        lane.close()
        with pytest.raises(RuntimeError):
            lane(int)
    before, lane = torch.backends.cudnn.benchmark, a_lane(not torch.backends.cudnn.benchmark)
    with pytest.raises(ZeroDivisionError):
        lane(lambda: 1 / 0)
    assert torch.backends.cudnn.benchmark == before
    lane.close()


@pytest.mark.parametrize("largest", [0, 1, 2, 3, 7, 8, 9, 100, 1023])
@pytest.mark.parametrize("shape", ["line", "steps", "cliff", "flat"])
def test_the_largest_that_fits(largest, shape):
    shapes = {
        "line": (lambda n: 5 + 3 * n, 5 + 3 * largest),
        "steps": (lambda n: n // 4 + n**1.5, largest // 4 + largest**1.5),
        "cliff": (lambda n: 1 if n <= largest else inf, 1),
        "flat": (lambda n: 1 if n <= largest else 2, 1.5),
    }
    needed, budget = shapes[shape]
    for start in (1, 8, 500):
        tried = []
        assert training.most(lambda n, tried=tried: tried.append(n) or needed(n), budget, start) == largest, start
        assert len(tried) == len(set(tried)), start
        assert min(tried) > 0, start
        assert shape != "line" or len(tried) <= 4 + (largest == 0), start


def test_the_search_ends_where_everything_fits():
    assert training.most(lambda n: n, 1e12, 1) == training.most(lambda n: 1, 1e12, 1) == training.MOST


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("can't allocate memory")])
def test_a_batch_for_which_there_is_no_memory_does_not_fit(error):
    def needed():
        raise error

    assert training._survived(a_lab("batch-size"), needed) == inf
    with pytest.raises(RuntimeError, match="something else"):
        training._survived(a_lab("batch-size"), lambda: (_ for _ in ()).throw(RuntimeError("something else")))


def test_a_training_starts_anew_and_can_be_repeated_for_ever():
    debug = module("debug-apis")
    trained = training.Training(*debug.make_inputs(a_lab("debug-apis")))
    given = {name: value.clone() for name, value in trained.given.state_dict().items()}
    first = [float(loss) for loss in trained.losses()]
    for _ in range(5):
        trained.step()
    assert first == [float(loss) for loss in trained.losses()]
    assert all(torch.equal(value, given[name]) for name, value in trained.given.state_dict().items())
    assert np.isfinite(first).all()
    assert len(set(first)) == len(first)  # it does learn
    zero_grad = module("zero-grad")
    trained = training.Training(*zero_grad.make_inputs(a_lab("zero-grad")))
    start = float(trained.step())
    for _ in range(2000):
        last = trained.step()
    assert np.isfinite(float(last))
    assert float(last) <= start


@pytest.mark.gpu
def test_on_a_gpu_a_lane_s_backward_pass_is_in_its_thread(gpu):
    lane = module("cudnn-benchmark").Lane(Lab(gpu, workload("cudnn-benchmark"), 0, lambda phase: None), True)
    seen = []

    def work():
        x = torch.ones(3, device="cuda", requires_grad=True)
        x.register_hook(lambda gradient: seen.append(threading.get_ident()))
        x.sum().backward()
        return threading.get_ident()

    assert [lane(work)] == seen
    lane.close()
