"""What the studies say of a GPU's numbers: each ratio with its verdict, each clock against what it claims."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from findings import run_of, timed, told

from cudalab.report import study as report
from cudalab.results.file import load
from cudalab.study import found, sources

PUBLISHED = Path(__file__).parents[2] / "bench" / "results" / "h200" / "studies"
NOISY = [1.0, 2.0, 0.5, 1.3, 0.7, 1.0, 2.0, 0.5, 1.3, 0.7]


def test_each_clock_is_compared_with_the_time_that_it_claims():
    def row(label, **times):
        return timed("timing", label, "batch1", **times)

    cases = [row("engine", wall=5e-3, gpu=1e-3), row("naive", wall=1e-3, timed=5e-3)]
    cases += [row("synchronize", wall=5e-3, timed=6e-3), row("event", gpu=4e-3, timed=5e-3)]
    assert told(run_of("timing", cases)) == (
        "at batch1 a step takes 5.00 ms of wall time; a clock that does not wait for the GPU makes it look 5 "
        "FASTER as fast, one that waits 1 SAME as fast; the GPU works 1.00 ms of it, and events make this work look "
        "0.25 SLOWER as fast"
    )
    here = [row("engine", wall=5e-3), row("naive", wall=5e-3, timed=5e-3)]
    assert told(run_of("timing", here, "cpu")) == (
        "at batch1 a step takes 5.00 ms; a clock around the call makes it look 1 SAME as fast"
    )


def test_a_graphs_gain_is_told_apart_for_the_gpu_and_the_host():
    def row(label, wall, **times):
        return timed("training-graph", label, "small", wall=wall, **times)

    cases = [row("eager", 1e-3, hot=1e-4, call=1e-3), row("graph", 1e-4, hot=1e-4, call=1e-5)]
    cases.append(row("callables", 2e-3))
    assert told(run_of("training-graph", cases)) == (
        "compared with an eager one, a training step is 10 FASTER as fast in a CUDA Graph, 0.5 SLOWER with its network "
        "alone in graphs, the GPU's own work in the graph 1 SAME, the host's enqueueing in the graph 100 FASTER at "
        "small"
    )


def test_what_a_profiled_step_is_made_of():
    counted = {"kernels": 60, "idle_share": 0.25, "inference_share": 0.5, "backward_share": 0.5}
    cases = [timed("profile", "plain", "gpu", wall=1e-3), timed("profile", "profiler", "gpu", counted, wall=2e-3)]
    assert told(run_of("profile", cases)) == (
        "of a training step's time on the GPU the forward pass takes 50 %, the backward pass 50 %; it runs 60 kernels "
        "and leaves the GPU idle for 25 % of its time; while the profiler records it, it is 0.5 SLOWER as fast"
    )


def test_the_labs_own_kernel_stands_beside_f_gelu():
    def row(label, kernels, moved, wall, hot):
        counted = {"kernels": kernels, "moved_bytes": moved}
        return timed("jit-gelu", label, "small", counted, wall=wall, hot=hot)

    cases = [row("eager", 5, 11, 1.0, 1.0), row("F.gelu", 1, 2, 0.2, 0.5), row("ours", 1, 2, 0.25, 0.5)]
    said = "compared with eager GELU, F.gelu takes 1 instead of 5 kernels, moves 18.2 % of the bytes, and is 5 FASTER "
    assert told(run_of("jit-gelu", cases[:2])) == f"{said}as fast at small"
    assert told(run_of("jit-gelu", cases)) == (
        f"{said}as fast at small; the lab's kernel, called from Python, is 4 FASTER as fast at small; compared with "
        "F.gelu it is 0.8 SLOWER as fast at small; compared with F.gelu, by the GPU's work alone it is 1 SAME as fast "
        "at small"
    )


def test_cudnn_has_the_gpus_time_beside_the_wall_time_and_its_verdict():
    cases = [timed("cudnn-benchmark", "off", "batch-16", {"first_step_s": 0.5}, wall=NOISY, gpu=2.0)]
    cases.append(timed("cudnn-benchmark", "on", "batch-16", {"first_step_s": 19.0}, wall=[1.0] * 10, gpu=1.0))
    said = told(run_of("cudnn-benchmark", cases))
    assert re.fullmatch(
        r"where cuDNN tries its algorithms before it takes one, at batch-16 a training step is [\d.]+ to [\d.]+ "
        r"times \(UNCLEAR\) as fast; the GPU's part of it is 2 FASTER as fast; the first step takes 19 s, not 0\.5 s",
        said,
    )


def test_fused_forms_are_compared_with_torchs_defaults():
    def row(label, size, wall):
        return timed("fused-modules", label, size, wall=wall)

    cases = [row("default", "adamw", 4.0), row("foreach", "adamw", 4.0), row("fused", "adamw", 1.0)]
    cases += [row("unfused", "adamw", 40.0), row("default", "layernorm", 1.0), row("unfused", "layernorm", 5.0)]
    assert told(run_of("fused-modules", cases)) == (
        "compared with torch's defaults (foreach; LayerNorm's own kernel), adamw is 4 FASTER as fast fused, "
        "0.1 SLOWER in single operations; layernorm is 0.2 SLOWER as fast in single operations"
    )


def scaling(busy_one, busy_half):
    def row(label, wall, busy=0.0):
        return timed("ddp", label, "large", {"gpu_busy_s": busy} if busy else {}, wall=wall)

    return [
        row("one", 1.0), row("ddp", 2.0, busy_half), row("ddp+one_bucket", 1.25, busy_half),
        row("ddp+no_exchange", 1.0, busy_half), row("ddp+weak", 1.25, busy_one),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("busy", "bound"),
    [
        ((0.5, 0.25), "the GPU works 50 % of a step with the whole batch, 25 % of a step with half of it, so it is "
         "launch-bound"),
        ((1.0, 0.5), "the GPU works 100 % of a step with the whole batch, 50 % of a step with half of it, so half a "
         "batch is launch-bound"),
        ((1.0, 0.95), "the GPU works 100 % of a step with the whole batch, 95 % of a step with half of it"),
    ],
)  # fmt: skip
def test_ddp_scales_strongly_and_weakly_and_says_what_bounds_it(busy, bound):
    assert told(run_of("ddp", scaling(*busy))) == (
        "compared with one GPU, two are at large: with the same batch (strong scaling) 0.5 SLOWER as fast by DDP, "
        "0.8 SLOWER by DDP in one bucket, 1 SAME by DDP if it exchanged no gradients; "
        f"{bound}; with a batch each as large as that of one (weak scaling) 1.6 FASTER as many samples per second"
    )


def test_one_gpu_alone_has_no_scaling():
    assert told(run_of("ddp", scaling(1.0, 1.0)[:1])) == "only one GPU was measured"


def test_batches_are_compared_with_float32_without_tf32():
    def row(label, size, wall, **largest):
        return timed("batch-size", label, size, {"items": float(size), **largest}, wall=wall)

    cases = [row("float32", "16", 1.0), row("tf32", "16", 0.5), row("amp-bf16", "16", 1.0)]
    cases += [row("float32", "64", 4.0, largest_batch=96), row("tf32", "64", 1.0, largest_batch=97)]
    cases += [row("amp-bf16", "64", 0.5, largest_batch=186)]
    said = told(run_of("batch-size", cases))
    rates, _, compared = said.partition("; ")
    assert re.fullmatch(
        r"training in float32 without TF32 processes 16(\.0+)? samples per second at a batch of 16 and 16(\.0+)? "
        r"samples per second at a batch of 64",
        rates,
    )
    assert compared == (
        "compared with it, tf32 is 2 FASTER as fast at 16, 4 FASTER at 64; amp-bf16 is 1 SAME as fast at 16, 8 FASTER "
        "at 64; the largest batch within 8 GiB: float32 96, tf32 97, amp-bf16 186"
    )
    assert told(run_of("batch-size", cases[:1])).endswith("samples per second at a batch of 16")


def test_an_epoch_with_workers_says_what_is_unclear():
    cases = [timed("dataloader", label, "images", wall=wall) for label, wall in (
        ("0-workers", [4.0] * 10), ("2-workers", [2.0] * 10), ("4-workers", NOISY),
        ("4-workers+pin+non_blocking", [1.0] * 10),
    )]  # fmt: skip
    assert re.fullmatch(
        r"an epoch at images is 2 FASTER as fast with 2 workers as with none, [\d.]+ FASTER with 4; pinned memory and "
        r"copies that do not block gain another [\d.]+ to [\d.]+ times \(UNCLEAR\)",
        told(run_of("dataloader", cases)),
    )


def test_inputs_are_told_by_their_verdict():
    def row(label, size, busy):
        return timed("data-values", label, size, busy=busy)

    cases = [row("random", "matmul", 2.0), row("zeros", "matmul", 1.6), row("ones", "matmul", 2.0)]
    cases += [row("random", "gelu", 1.0), row("zeros", "gelu", NOISY), row("tails", "gelu", NOISY)]
    cases += [row("random", "copy", 1.0), row("ones", "copy", 1.0)]
    assert told(run_of("data-values", cases)) == (
        "compared with random numbers, matmul is 1.25 FASTER as fast on zeros; UNCLEAR: gelu on zeros, on GELU's "
        "tails; SAME: copy"
    )


def test_a_product_after_a_load_has_its_verdict_and_clock():
    cases = [timed("clocks", label, "large", {"sm_hz": hertz}, busy=busy)
             for label, hertz, busy in (("idle", 1.98e9, 1.0), ("3 s", 1.5e9, 1.25))]  # fmt: skip
    assert told(run_of("clocks", cases)) == (
        "a matrix product at large is 0.8 SLOWER as fast after 3 s of load as after a rest, the clock at 1,500 instead "
        "of 1,980 MHz"
    )
    cases[1].times["busy"] = [[0.5], [2.0]]
    assert "(UNCLEAR) as fast after 3 s of load" in told(run_of("clocks", cases))


def test_an_aid_that_makes_a_step_longer_is_slower():
    cases = [timed("debug-apis", label, "small", wall=wall) for label, wall in (("none", 1.0), ("anomaly", 4.0))]
    assert told(run_of("debug-apis", cases)) == (
        "compared with one without debugging aids, a training step takes 4 SLOWER as long with anomaly at small"
    )


@pytest.mark.parametrize("name", sorted(found.studies()))
def test_a_published_run_has_a_finding_or_says_that_it_is_older(name):
    path = PUBLISHED / f"{name}.json"
    if not path.exists():
        pytest.skip(f"{name} has no published run")
    run, study = load(path), found.study(name)
    said = report.finding(run)
    if reason := sources.outdated(study, run):
        assert said == reason
        assert sources.changed(study, run)
    else:
        assert said and "the finding fails on this run" not in said
        assert "times" not in re.sub(r"times \([^()]*(FASTER|SAME|SLOWER|UNCLEAR)\)", "", said)  # each has a verdict
