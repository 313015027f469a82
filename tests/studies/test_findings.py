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


def rows(study, size, *labels, quantities=(), **times):
    """A row for each label; of each kind of time, and of the quantities, as many as there are labels; None: none."""
    return [
        timed(study, label, size, quantities[i] if quantities else None,
              **{kind: values[i] for kind, values in times.items() if values[i] is not None})
        for i, label in enumerate(labels)
    ]  # fmt: skip


CLOCKS = rows("timing", "batch1", "engine", "naive", "synchronize", "event", wall=(5e-3, 1e-3, 5e-3, None),
              gpu=(1e-3, None, None, 4e-3), timed=(None, 5e-3, 6e-3, 5e-3))  # fmt: skip
GRAPH = rows("training-graph", "small", "eager", "graph", "callables", wall=(1e-3, 1e-4, 2e-3),
             hot=(1e-4, 1e-4, None), call=(1e-3, 1e-5, None))  # fmt: skip
PROFILE = rows("profile", "gpu", "plain", "profiler", wall=(1e-3, 2e-3), quantities=(
    {"kernels": 60, "idle_share": 0.25, "inference_share": 0.5, "backward_share": 0.5},) * 2)  # fmt: skip
GELU = rows("jit-gelu", "small", "eager", "F.gelu", "ours", wall=(1.0, 0.2, 0.25), hot=(1.0, 0.5, 0.5), quantities=(
    {"kernels": 5, "moved_bytes": 11}, *({"kernels": 1, "moved_bytes": 2},) * 2))  # fmt: skip
F_GELU = (
    "compared with eager GELU, F.gelu takes 1 instead of 5 kernels, moves 18.2 % of the bytes, and is 5 FASTER as fast "
    "at small"
)
FUSED = [*rows("fused-modules", "adamw", "default", "foreach", "fused", "unfused", wall=(4.0, 4.0, 1.0, 40.0)),
         *rows("fused-modules", "layernorm", "default", "unfused", wall=(1.0, 5.0))]  # fmt: skip
INPUTS = [*rows("data-values", "matmul", "random", "zeros", "ones", busy=(2.0, 1.6, 2.0)),
          *rows("data-values", "gelu", "random", "zeros", "tails", busy=(1.0, NOISY, NOISY)),
          *rows("data-values", "copy", "random", "ones", busy=(1.0, 1.0))]  # fmt: skip


def scaling(whole, half):
    """The rows of ddp, whose GPU works so many seconds of a step with the whole batch and with half of it."""
    busy = [None, *({"gpu_busy_s": half},) * 3, {"gpu_busy_s": whole}]
    return rows("ddp", "large", "one", "ddp", "ddp+one_bucket", "ddp+no_exchange", "ddp+weak",
                wall=(1.0, 2.0, 1.25, 1.0, 1.25), quantities=busy)  # fmt: skip


def scaled(bound):
    return (
        "compared with one GPU, two are at large: with the same batch (strong scaling) 0.5 SLOWER as fast by DDP, "
        "0.8 SLOWER by DDP in one bucket, 1 SAME by DDP if it exchanged no gradients; the GPU works "
        f"{bound}; with a batch each as large as that of one (weak scaling) 1.6 FASTER as many samples per second"
    )


CUDNN = [timed("cudnn-benchmark", "off", "batch-16", {"first_step_s": 0.5}, wall=NOISY, gpu=2.0),
         timed("cudnn-benchmark", "on", "batch-16", {"first_step_s": 19.0}, wall=[1.0] * 10, gpu=1.0)]  # fmt: skip
MODES = ("float32", "tf32", "amp-bf16")
BATCHES = [*rows("batch-size", "16", *MODES, wall=(1.0, 0.5, 1.0), quantities=[{"items": 16.0}] * 3),
           *rows("batch-size", "64", *MODES, wall=(4.0, 1.0, 0.5),
                 quantities=[{"items": 64.0, "largest_batch": n} for n in (96, 97, 186)])]  # fmt: skip
EPOCH = rows("dataloader", "images", "0-workers", "2-workers", "4-workers", "4-workers+pin+non_blocking",
             wall=(4.0, 2.0, NOISY, 1.0))  # fmt: skip
LOADS = rows("clocks", "large", "idle", "3 s", busy=(1.0, 1.25), quantities=({"sm_hz": 1.98e9}, {"sm_hz": 1.5e9}))
CHANGING = rows("clocks", "large", "idle", "3 s", busy=(1.0, [0.5, 2.0]), quantities=({"sm_hz": 1e9},) * 2)
FINDINGS = {  # what is told, the rows, and the finding, where ... stands for the digits of an interval
    "each clock and the time that it claims": (CLOCKS, (
        "at batch1 a step takes 5.00 ms of wall time; a clock that does not wait for the GPU makes it look 5 "
        "FASTER as fast, one that waits 1 SAME as fast; the GPU works 1.00 ms of it, and events make this work look "
        "0.25 SLOWER as fast"
    )),
    "a graph's gain for the GPU and the host": (GRAPH, (
        "compared with an eager one, a training step is 10 FASTER as fast in a CUDA Graph, 0.5 SLOWER with its network "
        "alone in graphs, the GPU's own work in the graph 1 SAME, the host's enqueueing in the graph 100 FASTER at "
        "small"
    )),
    "what a profiled step is made of": (PROFILE, (
        "of a training step's time on the GPU the forward pass takes 50 %, the backward pass 50 %; it runs 60 kernels "
        "and leaves the GPU idle for 25 % of its time; while the profiler records it, it is 0.5 SLOWER as fast"
    )),
    "F.gelu": (GELU[:2], F_GELU),
    "the lab's own kernel beside F.gelu": (GELU, (
        f"{F_GELU}; the lab's kernel, called from Python, is 4 FASTER as fast at small; compared with F.gelu it is 0.8 "
        "SLOWER as fast at small; compared with F.gelu, by the GPU's work alone it is 1 SAME as fast at small"
    )),
    "fused forms and torch's defaults": (FUSED, (
        "compared with torch's defaults (foreach; LayerNorm's own kernel), adamw is 4 FASTER as fast fused, "
        "0.1 SLOWER in single operations; layernorm is 0.2 SLOWER as fast in single operations"
    )),
    "inputs by their verdict": (INPUTS, (
        "compared with random numbers, matmul is 1.25 FASTER as fast on zeros; UNCLEAR: gelu on zeros, on GELU's "
        "tails; SAME: copy"
    )),
    "an aid that makes a step longer": (rows("debug-apis", "small", "none", "anomaly", wall=(1.0, 4.0)), (
        "compared with one without debugging aids, a training step takes 4 SLOWER as long with anomaly at small"
    )),
    "ddp that is launch-bound": (scaling(0.5, 0.25), scaled(
        "50 % of a step with the whole batch, 25 % of a step with half of it, so it is launch-bound"
    )),
    "ddp whose half batch is launch-bound": (scaling(1.0, 0.5), scaled(
        "100 % of a step with the whole batch, 50 % of a step with half of it, so half a batch is launch-bound"
    )),
    "ddp that is not launch-bound": (scaling(1.0, 0.95), scaled(
        "100 % of a step with the whole batch, 95 % of a step with half of it"
    )),
    "one GPU alone has no scaling": (scaling(1.0, 1.0)[:1], "only one GPU was measured"),
    "cuDNN's time on the GPU beside the wall time": (CUDNN, (
        "where cuDNN tries its algorithms before it takes one, at batch-16 a training step is ... times (UNCLEAR) as "
        "fast; the GPU's part of it is 2 FASTER as fast; the first step takes 19 s, not 0.5 s"
    )),
    "batches beside float32 without TF32": (BATCHES, (
        "training in float32 without TF32 processes 16.0 samples per second at a batch of 16 and 16.0 samples per "
        "second at a batch of 64; compared with it, tf32 is 2 FASTER as fast at 16, 4 FASTER at 64; amp-bf16 is 1 SAME "
        "as fast at 16, 8 FASTER at 64; the largest batch within 8 GiB: float32 96, tf32 97, amp-bf16 186"
    )),
    "one batch": (BATCHES[:1], "training in float32 without TF32 processes 16.0 samples per second at a batch of 16"),
    "an epoch whose workers are unclear": (EPOCH, (
        "an epoch at images is 2 FASTER as fast with 2 workers as with none, ... FASTER with 4; pinned memory and "
        "copies that do not block gain another ... times (UNCLEAR)"
    )),
    "a product after a load, with its clock": (LOADS, (
        "a matrix product at large is 0.8 SLOWER as fast after 3 s of load as after a rest, the clock at 1,500 instead "
        "of 1,980 MHz"
    )),
    "a product after a load that is unclear": (CHANGING, (
        "a matrix product at large is ... times (UNCLEAR) as fast after 3 s of load as after a rest, the clock at "
        "1,000 instead of 1,000 MHz"
    )),
}  # fmt: skip


@pytest.mark.parametrize(("cases", "said"), FINDINGS.values(), ids=FINDINGS)
def test_each_ratio_has_its_verdict(cases, said):
    assert re.fullmatch(re.escape(said).replace(r"\.\.\.", "[0-9., to]+"), told(run_of(cases[0].kernel, cases)))


def test_on_a_cpu_a_clock_is_compared_with_the_time_of_the_call():
    here = rows("timing", "batch1", "engine", "naive", wall=(5e-3, 5e-3), timed=(None, 5e-3))
    assert told(run_of("timing", here, "cpu")) == (
        "at batch1 a step takes 5.00 ms; a clock around the call makes it look 1 SAME as fast"
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
