"""What the studies say of a GPU's numbers: each ratio with its verdict, each clock against what it claims."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from findings import run_of, timed, told

from cudalab.report import study as report
from cudalab.results.file import load
from cudalab.studies import cpu_vs_gpu
from cudalab.study import found, sources

TEXTS = Path(__file__).parents[1] / "data" / "findings.txt"
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
PRODUCTS = [*rows("cpu-vs-gpu", "full", "gpu-fp32", "gpu-tf32", cpu_vs_gpu.PAGEABLE, wall=(0.2, 0.02, 0.8)),
            *rows("cpu-vs-gpu", "reduced", "gpu-fp32", "cpu", wall=(0.002, 0.2),
                  quantities=({}, {"extrapolated_15360_s": 25.0}))]  # fmt: skip
FINDINGS = {  # by the heading of what is said in tests/data/findings.txt
    "each clock and the time that it claims": CLOCKS,
    "a graph's gain for the GPU and the host": GRAPH,
    "what a profiled step is made of": PROFILE,
    "F.gelu": GELU[:2],
    "the lab's own kernel beside F.gelu": GELU,
    "fused forms and torch's defaults": FUSED,
    "inputs by their verdict": INPUTS,
    "an aid that makes a step longer": rows("debug-apis", "small", "none", "anomaly", wall=(1.0, 4.0)),
    "ddp that is launch-bound": scaling(0.5, 0.25),
    "ddp whose half batch is launch-bound": scaling(1.0, 0.5),
    "ddp that is not launch-bound": scaling(1.0, 0.95),
    "one GPU alone has no scaling": scaling(1.0, 1.0)[:1],
    "cuDNN's time on the GPU beside the wall time": CUDNN,
    "batches beside float32 without TF32": BATCHES,
    "one batch": BATCHES[:1],
    "an epoch whose workers are unclear": EPOCH,
    "a product after a load, with its clock": LOADS,
    "a product after a load that is unclear": CHANGING,
    "a product on the CPU and on the GPU": PRODUCTS,
}
SAID = dict(re.findall(r"^## (.*)\n((?:[^#].*\n)+)", TEXTS.read_text(), re.MULTILINE))


def test_all_that_is_said_has_rows():
    assert list(SAID) == list(FINDINGS)


@pytest.mark.parametrize("name", FINDINGS)
def test_each_ratio_has_its_verdict(name):
    said = re.escape(" ".join(SAID[name].split())).replace(r"\.\.\.", "[0-9., to]+")
    assert re.fullmatch(said, told(run_of(FINDINGS[name][0].kernel, FINDINGS[name])))


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
