"""The pages of a card: an overview, docs/CARD.md, its pictures, and a page for each kernel with results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from cudalab.base.memo import kept
from cudalab.report import columns
from cudalab.report.html import draw, overview, roofline
from cudalab.report.html.figures import Figure
from cudalab.results.record import Results
from cudalab.spec import find
from pages import committed, kernel, peers
from pages.committed import Card, legend, table
from pages.peers import KINDS

MARK = "<!-- Written by `make tables` from the results in bench/results. -->"  # what bears it may be removed
WHAT = """\
The lab's own kernels beside every rival that was measured, such as PyTorch, TorchScript, torch.compile, CuPy, Triton,
Liger and QuACK. Each kernel has a page with every size and dtype, losses first. Ours is the entry that a call runs
where the file has *api* times, which only that entry has; else it is our fastest. A rival counts if its answer is
right."""
NOTES = """\
What these tables do not say:

- In a file of one process the fastest rival is chosen by the same times that it is compared by: of several that are
  equally fast the luckiest is taken. So is our entry where no *api* time names the one that a call runs. In a file of
  several processes the first chooses, and the others judge.
- Every time has that of an empty pair of events in it, which depends on the host and is in the last column of *Files*.
  Short times of two files compare only where it is equal.
- An interval counts what differs between the processes of its file, and says nothing about other kernels, sizes or
  cards. With one process what is usual stands in for it: torch.compile can change by several percent from process to
  process.
- A kernel that reads more than it writes can be above 100 % of the copy, but need not be. The share is not stable to
  0.1 %: it moves by some 2 % between machines.
- Our entries were tuned on an H200, for these shapes."""
ROOFLINE = """\
A point is a cold time. Bytes limit by the best copy of the runs, which was measured, and by the memory's bandwidth on
the data sheet. `cudalab report FILE --chart roofline -o FILE.svg` draws one kernel, and below the peaks of the card's
units too where the spec counts `flops`; of the lab's, `matmul` does."""
FILES = """\
The files hold every sample. [bench/card.sh](../bench/card.sh) makes them all; `cudalab show FILE` prints one without a
GPU. [bench/NOTES.md](../bench/NOTES.md) has the expectations behind the choices in the kernels and what was measured,
also where another implementation is faster."""


def drawn(card: Card, figures: Sequence[Figure]) -> str:
    """The first of the pictures as a file; "" if there is none, since a card has no such times."""
    heads = ((figure, (figure.title, card.newest().machine.name)) for figure in figures)
    return next((f"{MARK}\n{draw.alone(figure.svg, figure.says, head)}" for figure, head in heads), "")


@kept
def all_rivals(card: Card) -> str:
    """Every kernel against its fastest rival."""
    return drawn(card, overview.rival_figures(list(card.kernels().values()))[0])


@kept
def all_rooflines(card: Card) -> str:
    """Bytes per second of every kernel that memory bounds."""
    groups = [(run, cases) for run in card.kernels().values() for cases in run.groups().values()]
    return drawn(card, roofline.every(groups))


PICTURES = {"rivals": all_rivals, "roofline": all_rooflines}


def pages() -> dict[Path, Callable[[], str]]:
    """The path of each page and picture of each card, and what makes its text."""
    found: dict[Path, Callable[[], str]] = {}
    for card in committed.cards():
        folder = committed.DOCS / card.name
        found[committed.DOCS / f"{card.name}.md"] = lambda card=card: f"{MARK}\n{page(card)}\n"
        found |= {folder / f"{name}.svg": lambda card=card, draw=draw: draw(card) for name, draw in PICTURES.items()}
        for name, run in card.kernels().items():
            found[folder / f"{name}.md"] = lambda card=card, run=run: f"{MARK}\n{kernel.page(card, run)}\n"
    return found


def stale() -> list[Path]:
    """Files that were written for a kernel or a card whose results are gone."""
    made = pages()
    there = [path for pattern in ("*.md", "*/*.md", "*/*.svg") for path in committed.DOCS.glob(pattern)]
    return [path for path in there if path.read_text().startswith(MARK) and path not in made]


def page(card: Card) -> str:
    """The overview: what was compared, all kernels in a picture and a table, and the files."""
    name = card.newest().machine.name
    return legend("\n\n".join(filter(None, [
        f"# Results on the {name}",
        WHAT,
        shown(card, "rivals", f"Every kernel against its fastest rival on the {name}, cold, losses first"),
        "## In short",
        "Rows that are FASTER / SAME / SLOWER / UNCLEAR against the fastest rival, and the geometric mean of how many "
        "times as fast ours is. `-`: no such time, or none on equal terms.",
        summary(card), NOTES, "## Roofline", ROOFLINE,
        shown(card, "roofline", f"Rate of every kernel on the {name} against the bytes that it moves, cold"),
        "## Files", files(card), FILES,
    ])))  # fmt: skip


def shown(card: Card, name: str, says: str) -> str:
    """One of PICTURES on the page, if there is one."""
    return f"![{says}]({card.name}/{name}.svg)" if PICTURES[name](card) else ""


def summary(card: Card) -> str:
    """A line for each kernel: rows by verdict for each kind of time, and the geometric mean of the cold ones.

    Kernels without results come last.
    """
    runs = card.kernels()
    found = {name: {kind: peers.rows(run, kind) for kind in KINDS} for name, run in runs.items()}
    means = {name: peers.mean(rows["cold"]) for name, rows in found.items()}
    lines = []
    for name in sorted(found, key=lambda name: mean.value if (mean := means[name]) else 0.0):
        counts = [peers.counts(found[name][kind]) for kind in KINDS]
        lines.append([f"[{name}]({card.name}/{name}.md){card.marks(runs[name])}", peers.said(means[name]), *counts])
    lines += [
        [name, committed.NOT_YET, *[columns.NOT_MEASURED] * len(KINDS)] for name in find.kernels() if name not in found
    ]
    every = {kind: [row for rows in found.values() for row in rows[kind]] for kind in KINDS}
    lines.append(["**all**", peers.said(peers.mean(every["cold"])), *map(peers.counts, every.values())])
    return table(["kernel", "cold, geometric mean", *map(kernel.in_words, KINDS)], lines)


def files(card: Card) -> str:
    """Commit, date, machine, processes and the cost of two events of each file."""
    runs, lines = card.kernels(), []
    for name, run in runs.items():
        processes = max((len(p) for case in run.cases for p in case.processes.values()), default=1)
        lines.append([
            f"[{name}]({kernel.results(card, name, '..')}){card.marks(run)}", run.created[:16].replace("T", " "),
            run.machine.name, str(run.machine.details.get("driver", columns.NOT_MEASURED)),
            f"`{run.commit[:12]}{'+' * run.commit.endswith('+')}`" if run.commit else columns.NOT_MEASURED,
            str(processes), event_pair(run),
        ])  # fmt: skip
    commits = {run.commit for run in runs.values()}
    said = ["Commit `-`: the file does not say it."] * ("" in commits)
    said += ["Commit `+`: with changes to it."] * any(commit.endswith("+") for commit in commits)
    said += [f"The files come from {len(commits)} commits."] * (len(commits) > 1)
    head = ["results", "measured, UTC", "machine", "driver", "commit", "processes", "empty event pair, µs"]
    return "\n\n".join(filter(None, [table(head, lines, 5), " ".join(said)]))


def event_pair(run: Results) -> str:
    """What two events with nothing between them take on the file's machine, in µs."""
    taken = run.calibration.get("empty event pair")
    return f"{1e6 * median(taken):.1f}" if taken else columns.NOT_MEASURED
