"""The results of the H200 in README.md and docs/pytorch.md."""

from __future__ import annotations

from cudalab.report import columns
from pages import committed, peers
from pages.committed import table

BAR, BLOCK = 50, "\u2588"  # characters of the longest bar


def bars() -> str:
    """A bar for each kernel that was measured: its geometric mean of cold ratios, the worst first."""
    card = committed.Card(committed.FOLDER)
    found = {name: peers.mean(peers.rows(run, "cold")) for name, run in card.kernels().items()}
    older = {name: "*" if card.marks(run) else "" for name, run in card.kernels().items()}
    means = sorted((mean.value, name + older[name]) for name, mean in found.items() if mean)
    wide, longest = max(len(name) for _, name in means), max(value for value, _ in means)
    lines = [f"{name:{wide}}  {value:.2f}  {BLOCK * round(BAR * value / longest)}" for value, name in means]
    said = ["", "\\* measured before today's form of the kernel or the lab."] if any(older.values()) else []
    return "\n".join(["```text", *lines, "```", *said])


def cost_of_a_call() -> str:
    """Host time of a call as a user makes it, with the allocation of its result."""
    run = committed.of(committed.FOLDER / "gelu.json")
    cases = {(c.label, c.dtype): c for c in run.cases if c.size == "small"}
    ours = {c.label for c in cases.values() if ":gelu_" in c.label and "api" in c.times}
    labels = ("torch_native", *sorted(ours), "torch_script", "triton", "torch_compile")
    dtypes = ("float32", "float16", "bfloat16")
    lines = []
    for label in labels:
        found = [cases[label, dtype] for dtype in dtypes]
        lines.append([f"`{label}`", *(columns.microseconds(c, "api") if c.times else "-" for c in found)])
    return table(["api, µs, small", *dtypes], lines)
