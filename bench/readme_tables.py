"""Write the generated parts of the pages, from bench/results/h200 and the commands' help; --check only compares.

    python bench/readme_tables.py [--check]

Each part is between `<!-- NAME -->` and `<!-- /NAME -->` in its page; NAME is a key of TABLES.
"""

from __future__ import annotations

import functools
import gzip
import json
import math
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import click
from click.testing import CliRunner

from cudalab.base import numbers, stats
from cudalab.cli import main as main_command
from cudalab.report import columns, inspection, study
from cudalab.results import record
from cudalab.results.file import load
from cudalab.results.record import Case, Results
from cudalab.spec import cuda_source, find
from cudalab.spec.validate import described
from cudalab.study import found, says
from cudalab.study.record import Published, Study, Variant, Work
from cudalab.tools.inspect import compilers, inspect

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "bench" / "results" / "h200"
ENGINE = FOLDER / "engine"
MARK = "\u2020"
NVCC = "13.0"  # another release makes other machine code, and so other numbers in docs/inspect.md
COMPILED = "docs/inspect.md"
PLOTTED = {  # the rows that a plot's alternative text names
    "our gelu_full": "pycuda:gelu_full", "our gelu_vec": "pycuda:gelu_vec",
    "F.gelu": "torch_native", "Triton": "triton", "torch.compile": "torch_compile",
    "eager PyTorch": "torch_eager", "a copy": "copy",
}  # fmt: skip


def gelu() -> str:
    """float32 GELU on every backend, by the times that mean the same for all of them.

    Hot and graph times at large are left out: PyTorch's and CuPy's forms write to two outputs in turn there, the others
    to one, and only one set fits in L2. So are `call` times: PyTorch allocates its result in them, our entries do not.
    """
    run = load(FOLDER / "gelu.json")
    cases = {(c.size, c.label): c for c in run.cases if c.dtype == "float32" and c.times}
    labels = sorted({label for _, label in cases}, key=lambda label: (cold(cases["xlarge", label]), label))
    rows = [
        [
            "*copy*" if label == "copy" else f"`{label}`",
            time(cases["small", label], "api") if "api" in cases["small", label].times else "-",
            time(cases["small", label], "graph"),
            time(cases["small", label], "cold"),
            time(cases["large", label], "cold"),
            time(cases["xlarge", label], "cold"),
            share(run, cases["xlarge", label]),
            speedup(run, cases["xlarge", label]),
        ]
        for label in labels
    ]
    head = ["variant", "api", "small, graph", "small, cold", "large, cold", "xlarge, cold", "of copy", "x eager"]
    return table(head, rows) + "\n\n" + footnote(run)


def sixteen_bits() -> str:
    """float16 and bfloat16 GELU: our speed beside PyTorch's, and the share of results that is correctly rounded."""
    run = load(FOLDER / "gelu.json")
    checks = columns.check_rows(load(FOLDER / "checks" / "gelu.json"))
    rounded = {(cells[1], cells[2]): cells[5] for cells, _ in checks}
    said = []
    for dtype in ("float16", "bfloat16"):
        at = {c.label: c for c in run.cases if (c.size, c.dtype) == ("xlarge", dtype) and c.times}
        ours, others = at["pycuda:gelu_vec"], ("torch_native", "torch_compile")
        native, compiled = (cold(at[label]) / cold(ours) for label in others)
        said.append(
            f"- {dtype}, xlarge, cold: `gelu_vec` takes {time(ours, 'cold')} µs: {share(run, ours)} of the copy's "
            f"speed, {native:.2f} times the speed of F.gelu and {compiled:.2f} times that of torch.compile. "
            f"{rounded[dtype, 'pycuda:gelu_vec']} of its results are correctly rounded, "
            f"{rounded[dtype, 'torch_native']} of F.gelu's."
        )
    intro = "In 16 bits our entry reaches the copy's speed, because it does not compute erf:"
    return "\n".join([intro, "", *said])


def cost_of_a_call() -> str:
    """Host time of a call as a user makes it, with the allocation of its result."""
    run = load(FOLDER / "gelu.json")
    cases = {(c.label, c.dtype): c for c in run.cases if c.size == "small"}
    ours = {c.label for c in cases.values() if ":gelu_" in c.label and "api" in c.times}
    labels = ("torch_native", *sorted(ours), "torch_script", "triton", "torch_compile")
    dtypes = ("float32", "float16", "bfloat16")
    rows = []
    for label in labels:
        found = [cases[label, dtype] for dtype in dtypes]
        rows.append([f"`{label}`", *(time(c, "api") if c.times else "-" for c in found)])
    return table(["api, µs, small", *dtypes], rows)


def speedup_plot() -> str:
    """The speed-up plot that `make report` draws; its alternative text has the numbers."""
    run = load(FOLDER / "gelu.json")
    at = {c.label: c for c in run.cases if (c.size, c.dtype) == ("xlarge", "float32") and c.times}
    said = [f"{name} {speedup(run, at[label])}" for name, label in PLOTTED.items()]
    return f"![Speed-up over eager PyTorch, cold, xlarge: {', '.join(said)} times](bench/results/h200/gelu_speedup.svg)"


def bandwidth_plot() -> str:
    """The plot of bandwidth against size; its alternative text has the numbers."""
    run = load(FOLDER / "gelu.json")
    found = {(c.size, c.label): c.bandwidth("cold") for c in run.cases if c.dtype == "float32" and c.times}
    said = [
        f"{name} {numbers.three((found['small', label] or 0) / 1e9)} GB/s at small and "
        f"{numbers.three((found['xlarge', label] or 0) / 1e9)} at xlarge"
        for name, label in PLOTTED.items()
    ]
    return f"![Bandwidth against size, cold: {', '.join(said)}](../bench/results/h200/gelu_bandwidth.svg)"


def accuracy_plot() -> str:
    """The plot of correctly rounded bfloat16 results; its alternative text has the numbers."""
    run = load(FOLDER / "checks" / "gelu.json")
    rows = {cells[2]: cells for cells, _ in columns.check_rows(run) if cells[1] == "bfloat16"}
    said = [f"{name} {rows[label][5]}" for name, label in PLOTTED.items() if label in rows]
    text = f"Share of bfloat16 results that are correctly rounded: {', '.join(said)}"
    return f"![{text}](../bench/results/h200/gelu_accuracy.svg)"


def all_kernels() -> str:
    """Our fastest entry against the best of the others, cold, at the largest size, with the lab's own verdict."""
    rows = []
    for path in sorted(FOLDER.glob("*.json")):
        run = load(path)
        for (kernel, size, dtype), cases in run.groups().items():
            if size != "xlarge":
                continue
            timed = [c for c in cases if c.times and c.status == record.OK]
            ours = min((c for c in timed if c.backend == "pycuda"), key=cold)
            other = min((c for c in timed if not c.variant and c.backend != "pycuda_elementwise"), key=cold)
            name = kernel + MARK * changed(run)
            ratio = run.ratio(other, ours, "cold")
            rows.append([
                name, dtype, f"`{ours.label}`", time(ours, "cold"), share(run, ours), speedup(run, ours),
                f"`{other.label}`", time(other, "cold"), share(run, other), with_interval(ratio), ratio.verdict(),
            ])  # fmt: skip
    head = ["kernel", "dtype", "our fastest", "µs", "of copy", "x eager", "fastest other", "µs", "of copy",
            "speed-up over it", "verdict"]  # fmt: skip
    said = f"{MARK} measured before the kernel took its present form."
    return "\n\n".join([table(head, rows), *([said] if any(MARK in row[0] for row in rows) else [])])


def changed(run: Results) -> bool:
    """Whether the kernel's `.cu` differs from the one that was measured."""
    kernel = find.kernel(run.cases[0].kernel)
    return run.sources[kernel.cu.name] != cuda_source.digest(kernel.cu)


def cold(case: Case) -> float:
    return case.median("cold") or float("inf")


def time(case: Case, kind: str) -> str:
    return columns.microseconds(case, kind)


def share(run: Results, case: Case) -> str:
    copy = next(c for c in run.cases if c.group == case.group and c.status == record.CEILING)
    return f"{100 * cold(copy) / cold(case):.1f} %"


def speedup(run: Results, case: Case) -> str:
    value = run.speedup(case, "cold")
    return numbers.factor(value.value) if value else "-"


def with_interval(ratio: stats.Ratio) -> str:
    """A ratio and its 95 % interval, such as "1.08 (1.06 to 1.10)", with the digits that the interval supports."""
    half = (ratio.high - ratio.low) / 2
    places = min(max(-math.floor(math.log10(half)), 0), 3) if half else 3
    value, low, high = (f"{of:,.{places}f}" for of in (ratio.value, ratio.low, ratio.high))
    return f"{value} ({low} to {high})"


def footnote(run: Results) -> str:
    sizes = {c.size: "x".join(map(str, c.shape)) for c in run.cases}
    versions = ", ".join(
        f"{n} {v}" for n, v in run.machine.versions.items() if n in ("torch", "triton", "cupy", "pycuda")
    )
    return (
        f"Medians in µs on an {run.machine.name}, driver {run.machine.details['driver']}, {versions}; "
        f"{', '.join(f'{n} is {s}' for n, s in sizes.items())}. "
        "*api* is host time for one call at the small size, with the allocation of its result; `-`: a call does "
        f"not run that row there. *of copy* and *x eager* are for xlarge, cold{capped(run)}. "
        "Every raw sample is in [gelu.json](bench/results/h200/gelu.json)."
    )


def capped(run: Results) -> str:
    """What slowed the GPU down at float32, xlarge, as the end of a sentence."""
    copy = next(c for c in run.cases if (c.size, c.dtype, c.status) == ("xlarge", "float32", record.CEILING))
    reason = str(copy.condition.get("throttled", ""))
    return f"; there the GPU ran below its highest clock ({reason})" if reason else ""


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def same_with_itself() -> str:
    """100 comparisons of a kernel with itself."""
    engine = json.loads((ENGINE / "engine.json").read_text())
    rows = []
    for size in ("small", "large"):
        found = engine[f"A/A {size}"]
        counts = [str(found["verdicts"].get(v, 0)) for v in (stats.SAME, stats.UNCLEAR, stats.FASTER, stats.SLOWER)]
        rows.append([size, *counts, percent(found["largest deviation"]), percent(found["widest interval"])])
    return table(
        ["`gelu_vec` against itself, cold", "SAME", "UNCLEAR", "FASTER", "SLOWER", "largest", "widest interval"], rows
    )


def against_nvbench() -> str:
    """Cold medians of the lab and of NVBench, and the wall time of each."""
    run = load(ENGINE / "nvbench.json")
    rows = []
    for case in run.cases:
        if nvbench := case.cross.get("nvbench cold"):
            ours = cold(case)
            both = [f"{1e6 * seconds:.2f}" for seconds in (ours, nvbench)]
            walls = [f"{s:.2f} s" for s in (case.costs["timing"], case.cross["nvbench wall"])]
            rows.append([f"`{case.label}` {case.size}", *both, percent(ours / nvbench - 1, "+"), *walls])
    return table(["cold, µs", "cudalab", "NVBench", "difference", "cudalab's wall time", "NVBench's"], rows)


def by_flush() -> str:
    """Cold medians by how L2 is flushed."""
    found = json.loads((ENGINE / "engine.json").read_text())["flush"]
    ways = list(next(iter(found.values())))
    rows = [[f"`{name}`", *(f"{1e6 * times[way]:.2f}" for way in ways)] for name, times in found.items()]
    return table(["cold, µs", *ways], rows)


def by_size() -> str:
    """Seconds and host memory of a case, by its size."""
    found = json.loads((ENGINE / "engine.json").read_text())["cost"]
    rows = [
        [r["size"], f"{r['array MB']:.0f}", f"{r['seconds a case']:.2f}", f"{r['peak host memory MB']:,.0f}"]
        for r in found
    ]
    return table(["elements", "array MB", "seconds a case", "peak host memory, MB"], rows)


def two_runs() -> str:
    """Speed-ups over eager PyTorch in two runs, at least ten minutes apart."""
    one, two = packed(ENGINE / "gelu_earlier.json.gz"), packed(ENGINE / "gelu_later.json.gz")
    rows = []
    for case in one.cases:
        other = next((c for c in two.cases if (c.group, c.label) == (case.group, case.label)), None)
        if case.dtype == "float32" and case.size in ("large", "xlarge") and other and case.backend != "torch_eager":
            before, after = one.speedup(case, "cold"), two.speedup(other, "cold")
            if before and after:
                change = percent(after.value / before.value - 1, "+")
                rows.append([f"`{case.label}` {case.size}", f"{before.value:.3f}", f"{after.value:.3f}", change])
    head = ["x eager, cold, float32", f"run of {one.created[11:16]}", f"run of {two.created[11:16]} UTC", "change"]
    return table(head, rows)


def packed(path: Path) -> Results:
    """The results in a .json.gz file."""
    with tempfile.TemporaryDirectory() as folder:
        (unpacked := Path(folder, path.stem)).write_bytes(gzip.decompress(path.read_bytes()))
        return load(unpacked)


def percent(value: float, sign: str = "") -> str:
    return f"{100 * value:{sign}.2f} %"


def timed() -> str:
    """float32 GELU at xlarge, wide enough for all columns."""
    return typed(columns.WIDE, "gelu.json", "--dtypes", "float32", "--sizes", "xlarge")


def bars() -> str:
    """The bars of float16 GELU at small, without the table above them."""
    fence, *text = typed(80, "gelu.json", "--dtypes", "float16", "--sizes", "small", "--plots").split("\n\n")
    drawn = next(part for part in text if "\u2588" in part)
    return f"{fence.splitlines()[0]}\n{fence.splitlines()[1]}\n...\n{drawn}\n...\n```"


def checked() -> str:
    """A check of float16 GELU."""
    return typed(80, "checks/gelu.json", "--dtypes", "float16")


def typed(width: int, file: str, *options: str) -> str:
    """`cudalab show` of a committed file and its output in a terminal of `width` columns."""
    output = printed("show", str(FOLDER / file), *options, width=width)
    return f"```console\n$ cudalab show bench/results/h200/{file} {' '.join(options)}\n{output}\n```"


def predictions() -> str:
    """The predicted and the measured time of our fastest entries at the largest size.

    Left out: kernels that have changed, and those with long loops, which take half a minute to follow.
    """
    rows = []
    for path in sorted(FOLDER.glob("*.json")):
        run = load(path)
        if path.stem in ("bias_gelu", "layernorm", "sum") or changed(run):
            continue
        ours = [c for c in run.cases if c.backend == "pycuda" and c.size == "xlarge" and c.times]
        for dtype in dict.fromkeys(case.dtype for case in ours):
            fastest = min((case for case in ours if case.dtype == dtype), key=cold).variant
            (one,) = inspect(path.stem, dtype, fastest, file=path)
            assert one.bounds is not None
            rows.append([
                f"`{one.entry}`", one.dtype, f"{one.instructions:.3g}", one.bounds.name,
                numbers.significant(1e6 * one.bounds.predicted, 4), numbers.significant(1e6 * (one.measured or 0), 4),
                numbers.factor(one.ratio or 0),
            ])  # fmt: skip
    return table(["entry", "dtype", "instructions", "bound by", "predicted", "measured", "measured / predicted"], rows)


def as_fast(size: str, label: str, words: str, base: str = "", kind: str = "") -> Callable[[Results], str]:
    """How many times as fast a variant of a study is as `base` (its baseline), with the interval, and then `words`."""

    def number(run: Results) -> str:
        one, other = (says.case(run, size, name) for name in (label, base or found.of(run).baseline))
        assert one and other
        return f"{with_interval(run.ratio(other, one, kind or run.main_kind))} {words}"

    return number


def counted(size: str, label: str, name: str, words: str) -> Callable[[Results], str]:
    """A quantity that a study counted, a share between 0 and 1, in percent."""
    return lambda run: f"{100 * (says.counted(run, size, label, name) or 0):.0f} % {words}"


# The line of each study in README.md: its question, and the one number that answers it.
LINES: dict[str, tuple[str, Callable[[Results], str]]] = {
    "batch-size": (
        "How much faster is training in bfloat16?",
        as_fast("256", "amp-bf16", "times as fast, batch of 256"),
    ),
    "checkpoint": (
        "How much memory does recomputing activations save?",
        lambda run: f"{says.share(run, 'transformer', 'each layer', 'peak_bytes')} of the peak memory is left",
    ),
    "clocks": ("How fast is a matrix product after 10 s of load?", as_fast("large", "10 s", "times as fast")),
    "conv-bias": ("What does a bias before BatchNorm cost?", as_fast("large", "no bias", "times as fast without")),
    "cpu-vs-gpu": (
        "How much faster is the GPU at a 3,072 x 3,072 product?",
        as_fast("reduced", "gpu-fp32", "times as fast as the CPU", base="cpu"),
    ),
    "cudnn-benchmark": ("Is a step faster if cuDNN tries its algorithms?", as_fast("batch-128", "on", "times as fast")),
    "data-values": ("Is a matrix product faster on zeros?", as_fast("matmul", "zeros", "times as fast")),
    "dataloader": ("What do four workers gain?", as_fast("images", "4-workers", "times as fast an epoch")),
    "ddp": ("How fast is one batch on two GPUs by DDP?", as_fast("large", "ddp", "times as fast as on one")),
    "debug-apis": (
        "What does anomaly detection cost?",
        as_fast("large", "none", "times as long a step", base="anomaly"),
    ),
    "fused-modules": (
        "What does fused AdamW gain over PyTorch's default, foreach?",
        as_fast("adamw", "fused", "times as fast", base="foreach"),
    ),
    "graphs": ("What does a CUDA Graph gain for GELU as five kernels?", as_fast("small", "graph", "times as fast")),
    "jit-gelu": ("How much faster is F.gelu, one kernel, than five?", as_fast("xlarge", "F.gelu", "times as fast")),
    "load-balance": (
        "What does sharing sequences out by tokens gain in DDP?",
        as_fast("large", "by_tokens", "times as fast as by count"),
    ),
    "profile": ("How long is the GPU idle in a small step?", counted("gpu", "profiler", "idle_share", "of the step")),
    "timing": (
        "How far off is a clock that does not wait for the GPU?",
        as_fast("batch128", "naive", "times as fast as it is"),
    ),
    "training-graph": (
        "What does a CUDA Graph gain for a small training step?",
        as_fast("small", "graph", "times as fast, wall time"),
    ),
    "zero-grad": ("What does `set_to_none` gain over zeros?", as_fast("large", "none", "times as fast a step")),
}

# What docs/studies.md says below a finding of the H200's, where the finding alone would mislead.
NOTES: dict[str, Callable[[Results], str]] = {
    "batch-size": lambda run: (
        "fp32 is PyTorch's default, in which convolutions may use TF32. Below a batch of 64 the host bounds the step: "
        f"amp-bf16 is {as_fast('16', 'amp-bf16', 'times as fast')(run)} at 16."
    ),
    "clocks": lambda run: (
        f"The study takes two rounds of 14 s each, so the interval is wide: {as_fast('large', '10 s', 'times')(run)}."
    ),
    "cudnn-benchmark": lambda run: (
        f"At batch-16 the ratio is {as_fast('batch-16', 'on', 'times')(run)}, verdict "
        f"{verdict(run, 'batch-16', 'on')}: no difference is shown. At batch-128 it is "
        f"{as_fast('batch-128', 'on', 'times')(run)}, verdict {verdict(run, 'batch-128', 'on')}."
    ),
    "data-values": lambda run: (
        f"The verdict of F.gelu on zeros is {verdict(run, 'F.gelu', 'zeros')}, "
        f"{as_fast('F.gelu', 'zeros', 'times')(run)}. The gelu kernel is that of the date above."
    ),
    "dataloader": lambda run: (
        "The gain of pinned memory and non-blocking copies over four workers alone is not shown: "
        + as_fast("images", "4-workers+pin+non_blocking", "times", base="4-workers")(run)
        + "."
    ),
    "ddp": lambda run: (
        "This is strong scaling: two GPUs share the batch of one. With all gradients in one bucket DDP is "
        f"{as_fast('large', 'ddp+one_bucket', 'times as fast')(run)} at large. A larger batch for two GPUs (weak "
        "scaling) was not measured."
    ),
    "fused-modules": lambda run: (
        "The baseline updates tensor by tensor. PyTorch uses the foreach form on a GPU unless told otherwise; compared "
        f"with that, fused AdamW is {as_fast('adamw', 'fused', 'times as fast', base='foreach')(run)} and fused SGD "
        f"{as_fast('sgd', 'fused', 'times', base='foreach')(run)}."
    ),
    "graphs": lambda run: "The gelu kernel is that of the date above.",
    "jit-gelu": lambda run: (
        f"Our kernel, called from Python, is {as_fast('small', 'ours', 'times as fast')(run)} as eager GELU at small, "
        f"{as_fast('large', 'ours', 'times')(run)} at large and {as_fast('xlarge', 'ours', 'times')(run)} at xlarge: "
        "slower than F.gelu where the host bounds the call. The gelu kernel is that of the date above."
    ),
    "profile": lambda run: (
        f"The ratio of the recorded step is {as_fast('gpu', 'profiler', 'times')(run)}: the host bounds this step, and "
        "its times vary."
    ),
    "timing": lambda run: (
        "The engine's main time is the GPU's work alone, without the gaps in which the host enqueues it: "
        f"{says.took(run, 'batch1', 'engine')} at batch1, where a step takes "
        f"{says.took(run, 'batch1', 'engine', 'wall')} of wall time. The clocks that wait measure wall time: there "
        "they are right, and their ratio to the engine is small because the host bounds the step."
    ),
    "training-graph": lambda run: (
        "Most of the gain at small is host time. The GPU's own work is "
        f"{as_fast('small', 'graph', 'times as fast', kind='hot')(run)} in the graph at small and "
        f"{as_fast('large', 'graph', 'times', kind='hot')(run)} at large."
    ),
}


def verdict(run: Results, size: str, label: str) -> str:
    one = says.case(run, size, label)
    ratio = says.speedup(run, one) if one else None
    return ratio.verdict() if ratio else "?"


def studies() -> str:
    """A line for each study: its question, and one number from the H200."""
    rows = []
    for name in found.studies():
        number = LINES[name][1](measured_study(name)) if studied(name) else "*not measured yet*"
        rows.append([f"[{name}](docs/studies.md#{name})", LINES[name][0], number])
    lines = [["study", "question", "on an H200"], ["---"] * 3, *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def study_pages() -> str:
    """A section for each study: what it compares, its finding on the H200, and what that finding does not say."""
    parts = []
    for name, one in found.studies().items():
        text = f"{one.summary[0].upper()}{one.summary[1:]}."
        if studied(name):
            run = measured_study(name)
            text += f" [Results](../bench/results/h200/studies/{name}.json) of {run.created[:10]}:"
            text += f"\n\n> {study.finding(run)}."
            if note := NOTES.get(name):
                text += f"\n\n{note(run)}"
        parts.append(f"### {name}\n\n{text}")
    return "\n" + "\n\n".join(parts) + "\n"


def study_fields() -> str:
    """The fields of a study's records, as `cudalab/study/__init__.py` describes them."""
    rows = [
        [f"`{record.__name__}.{name}`", said.what, said.without]
        for record in (Study, Variant, Work, Published)
        for name, said in described(record).items()
    ]
    lines = [["field", "what it is", "if left out"], ["---"] * 3, *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def studied(name: str) -> bool:
    return (FOLDER / "studies" / f"{name}.json").exists()


def measured_study(name: str) -> Results:
    return load(FOLDER / "studies" / f"{name}.json")


def inspected() -> str:
    """`cudalab inspect` of bfloat16 GELU, 80 columns wide."""
    found = inspect("gelu", "bfloat16", "gelu_vec", file=FOLDER / "gelu.json")
    words = "gelu --dtypes bfloat16 --only gelu_vec --results bench/results/h200/gelu.json"
    return f"```console\n$ cudalab inspect {words}\n{inspection.render(found, 80, False)}\n```"


@functools.cache
def compiler() -> str:
    """The release of nvcc, such as 13.0; "" if nvcc or nvdisasm is missing."""
    nvcc = compilers.cuda.nvcc()
    if not nvcc or not compilers.nvdisasm():
        return ""
    said = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    release = re.search(r"release ([\d.]+)", said)
    return release[1] if release else ""


def commands() -> str:
    """The `--help` of each command."""
    names = click.Context(main_command).command.list_commands(click.Context(main_command))  # type: ignore[attr-defined]
    return "\n\n".join(f"## cudalab {name}\n```\n{printed(name, '--help')}\n```" for name in names)


def printed(*words: str, width: int = 80) -> str:
    """The output of a command in a terminal of `width` columns."""
    run = CliRunner().invoke(main_command, words, prog_name="cudalab", env={"COLUMNS": str(width), "NO_COLOR": "1"})
    return run.output.strip()


TABLES: dict[str, dict[str, Callable[[], str]]] = {
    "README.md": {
        "gelu on the H200": gelu,
        "speed-up on the H200": speedup_plot,
        "16 bits on the H200": sixteen_bits,
        "studies": studies,
    },
    "docs/studies.md": {"fields of a study": study_fields, "studies on the H200": study_pages},
    "docs/pytorch.md": {"cost of a call": cost_of_a_call},
    "docs/h200.md": {
        "all kernels on the H200": all_kernels,
        "bandwidth on the H200": bandwidth_plot,
        "accuracy on the H200": accuracy_plot,
    },
    "docs/table.md": {"a run": timed, "bars": bars, "a check": checked},
    "docs/commands.md": {"commands": commands},
    "docs/inspect.md": {"inspected": inspected, "predictions": predictions},
    "bench/METHOD.md": {
        "A/A on the H200": same_with_itself,
        "NVBench on the H200": against_nvbench,
        "flush on the H200": by_flush,
        "cost on the H200": by_size,
        "two runs on the H200": two_runs,
    },
}


def filled(document: str, text: str) -> str:
    """`text` of a page with all its generated parts made again."""
    for name, make in TABLES[document].items():
        block = re.compile(rf"(<!-- {re.escape(name)} -->\n).*?(<!-- /{re.escape(name)} -->)", re.DOTALL)
        if not block.search(text):
            raise SystemExit(f"{document} has no <!-- {name} --> ... <!-- /{name} -->")
        text = block.sub(lambda m, make=make: f"{m[1]}{make()}\n{m[2]}", text)  # type: ignore[misc]
    return text


def main() -> None:
    for document in TABLES:
        if document == COMPILED and compiler() != NVCC:
            print(f"{document} is left as it is: it needs nvcc {NVCC} and nvdisasm", file=sys.stderr)
            continue
        path = ROOT / document
        text = path.read_text()
        new = filled(document, text)
        if new == text:
            continue
        if "--check" in sys.argv[1:]:
            raise SystemExit(f"{document}'s tables are not up to date; run: make tables")
        path.write_text(new)


if __name__ == "__main__":
    main()
