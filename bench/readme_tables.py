"""Write what is generated of the pages, from bench/results and the commands' help; --check only compares.

    python bench/readme_tables.py [--check]

A part is between `<!-- NAME -->` and `<!-- /NAME -->` in its page; NAME is a key of TABLES. The pages of each card with
results, docs/CARD.md and docs/CARD/KERNEL.md, are written whole by `pages.card`.
"""

from __future__ import annotations

import functools
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
from pages import card, committed, h200, method, peers
from pages.committed import ROOT, changed, printed, table, typed

from cudalab.base import numbers
from cudalab.base.memo import unchanging
from cudalab.cli import main as main_command
from cudalab.report import columns, inspection, study
from cudalab.results import record
from cudalab.results.file import load
from cudalab.results.record import Results
from cudalab.spec.validate import described
from cudalab.studies import energy
from cudalab.study import found, says, sources
from cudalab.study.record import Published, Study, Variant, Work
from cudalab.tools.inspect import compilers, inspect

WIDE = 120  # characters; a table of all columns fits
NVCC = "13.0"  # another release makes other machine code, and so other numbers in docs/inspect.md
COMPILED = "docs/inspect.md"


def timed() -> str:
    """float32 GELU at xlarge, wide enough for all columns."""
    return typed(WIDE, "gelu.json", "--dtype", "float32", "--size", "xlarge")


def bars() -> str:
    """The bars of float16 GELU at small, without the table above them."""
    fence, *text = typed(80, "gelu.json", "--dtype", "float16", "--size", "small", "--plots").split("\n\n")
    drawn = next(part for part in text if "\u2588" in part)
    return f"{fence.splitlines()[0]}\n{fence.splitlines()[1]}\n...\n{drawn}\n...\n```"


def checked() -> str:
    """A check of float16 GELU."""
    return typed(80, "checks/gelu.json", "--dtype", "float16")


def predictions() -> str:
    """The predicted and the measured time of our fastest entries at the largest size.

    Left out: kernels that have changed, and those with long loops, which take half a minute to follow.
    """
    rows = []
    for name, run in committed.kernels().items():
        if name in ("bias_gelu", "layernorm", "sum") or changed(run):
            continue
        ours = [c for c in run.cases if c.backend == "pycuda" and c.size == "xlarge" and c.times]
        for dtype in dict.fromkeys(case.dtype for case in ours):
            case = peers.fastest([case for case in ours if case.dtype == dtype], "cold")
            (one,) = inspect(name, dtype, case.variant, file=committed.FOLDER / f"{name}.json")
            assert one.bounds is not None
            rows.append([
                f"`{one.entry}`", one.dtype, f"{one.instructions:.3g}", one.bounds.name,
                numbers.three(1e6 * one.bounds.predicted), columns.microseconds(case, "cold"),
                numbers.factor(one.ratio or 0),
            ])  # fmt: skip
    return table(["entry", "dtype", "instructions", "bound by", "predicted", "measured", "measured / predicted"], rows)


def as_fast(size: str, label: str, words: str, base: str = "") -> Callable[[Results], str]:
    """How many times as fast a variant of a study is as `base` (its baseline): interval, `words` and verdict."""

    def number(run: Results) -> str:
        ratio = says.between(run, size, label, base or says.baseline(run))
        assert ratio
        return f"{numbers.with_ends(ratio)} {words}, {ratio.verdict()}"

    return number


def as_long(size: str, label: str, words: str) -> Callable[[Results], str]:
    """How many times as long a variant takes as the baseline: interval, `words`, and the verdict of its speed."""

    def number(run: Results) -> str:
        ratio = says.between(run, size, label, says.baseline(run))
        assert ratio
        return f"{numbers.with_ends(says.inverse(ratio))} {words}, {ratio.verdict()}"

    return number


def as_much(size: str, label: str, words: str) -> Callable[[Results], str]:
    """How many times the energy of the baseline a variant takes: interval, `words`, and LESS, MORE, SAME or UNCLEAR."""

    def number(run: Results) -> str:
        ratio = says.between(run, size, label, says.baseline(run), record.ENERGY)
        assert ratio
        return f"{numbers.with_ends(says.inverse(ratio))} {words}, {energy.ENERGY[ratio.verdict()]}"

    return number


def counted(size: str, label: str, name: str, words: str) -> Callable[[Results], str]:
    """A quantity that a study counted, a share between 0 and 1, in percent."""
    return lambda run: f"{100 * (says.counted(run, size, label, name) or 0):.0f} % {words}"


# The line of each study in docs/studies.md: its question, and the one number that answers it.
LINES: dict[str, tuple[str, Callable[[Results], str]]] = {
    "batch-size": (
        "How much faster is training in bfloat16?",
        as_fast("256", "amp-bf16", "times as fast with a batch of 256"),
    ),
    "checkpoint": (
        "How much memory does recomputing activations save?",
        lambda run: f"{says.share(run, 'transformer', 'each layer', 'peak_bytes')} of the peak memory is left",
    ),
    "clocks": ("How fast is a matrix product after 3 s of load?", as_fast("large", "3 s", "times as fast")),
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
        as_long("large", "anomaly", "times as long a step"),
    ),
    "energy": (
        "How much energy does a fused GELU save over five kernels?",
        as_much("xlarge", "gelu_full", "times the energy"),
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
        as_fast("small", "graph", "times as fast in wall time"),
    ),
    "transformer": (
        "What do cudalab.nn's modules gain in the training of a transformer?",
        as_fast("llama", "cudalab.nn", "times as fast a step"),
    ),
    "zero-grad": ("What does `set_to_none` gain over zeros?", as_fast("large", "none", "times as fast a step")),
}


def studies() -> str:
    """A line for each study: its question, and one number from the H200."""
    rows = []
    for name in found.studies():
        number = LINES[name][1](measured_study(name)) if studied(name) else committed.NOT_YET
        rows.append([f"[{name}](#{name})", LINES[name][0], number])
    lines = [["study", "question", "on an H200"], ["---"] * 3, *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def study_pages() -> str:
    """A section for each study: what it compares, its finding on the H200, and the sources that have changed since."""
    parts = []
    for name, one in found.studies().items():
        text = f"{one.summary[0].upper()}{one.summary[1:]}."
        if studied(name):
            run = measured_study(name)
            text += f" [Results](../bench/results/h200/studies/{name}.json) of {run.created[:10]}:"
            text += f"\n\n> {study.finding(run)}."
            if changed_since := sources.changed(one, run):
                text += (
                    f"\n\nSources that have changed since, or that the file does not name: {', '.join(changed_since)}."
                )
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
    return (committed.FOLDER / "studies" / f"{name}.json").exists()


def measured_study(name: str) -> Results:
    return load(committed.FOLDER / "studies" / f"{name}.json")


def inspected() -> str:
    """`cudalab inspect` of bfloat16 GELU, 80 columns wide."""
    found = inspect("gelu", "bfloat16", "gelu_vec", file=committed.FOLDER / "gelu.json")
    words = "gelu --dtype bfloat16 --only gelu_vec --results bench/results/h200/gelu.json"
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


TABLES: dict[str, dict[str, Callable[[], str]]] = {
    "README.md": {"bars of the H200": h200.bars},
    "docs/studies.md": {"studies": studies, "fields of a study": study_fields, "studies on the H200": study_pages},
    "docs/pytorch.md": {"cost of a call": h200.cost_of_a_call},
    "docs/table.md": {"a run": timed, "bars": bars, "a check": checked},
    "docs/commands.md": {"commands": commands},
    "docs/inspect.md": {"inspected": inspected, "predictions": predictions},
    "bench/METHOD.md": {
        "A/A on the H200": method.same_with_itself,
        "NVBench on the H200": method.against_nvbench,
        "flush on the H200": method.by_flush,
        "cost on the H200": method.by_size,
        "two runs on the H200": method.two_runs,
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


def outdated() -> Iterator[tuple[Path, str]]:
    """Each file that is not as the results make it, with its text; "" for one that is of results that are gone."""
    for document in TABLES:
        if document == COMPILED and compiler() != NVCC:
            print(f"{document} is left as it is: it needs nvcc {NVCC} and nvdisasm", file=sys.stderr)
            continue
        text = (ROOT / document).read_text()
        if (new := filled(document, text)) != text:
            yield ROOT / document, new
    for path, make in card.pages().items():
        if (new := make()) != (path.read_text() if path.exists() else ""):
            yield path, new
    for path in card.stale():
        yield path, ""


@unchanging
def main(check: bool = False) -> None:
    """Write what is outdated; or only compare, and end with 1 where something is."""
    for path, new in outdated():
        if check:
            raise SystemExit(f"{path.relative_to(ROOT)} is not up to date; run: make tables")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(new) if new else path.unlink()


if __name__ == "__main__":
    main("--check" in sys.argv[1:])
