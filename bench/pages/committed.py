"""The committed results of each card, and pieces of Markdown."""

from __future__ import annotations

import gzip
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from click.testing import CliRunner

from cudalab.cli import main as main_command
from cudalab.results.file import load
from cudalab.results.record import Results
from cudalab.spec import cuda_source, find

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FOLDER = ROOT / "bench" / "results" / "h200"
OLDER, ELSEWHERE = "\u2020", "\u2021"
NOT_YET = "*not measured yet*"  # in place of a number, for a kernel or a study without results
MARKS = {  # on the name of a kernel, and what they say below a table
    OLDER: "measured before the kernel took its present form",
    ELSEWHERE: "from another commit of the lab than the newest file of this card",
}


@dataclass(frozen=True)
class Card:
    """A folder of results, bench/results/NAME; its pages are docs/NAME.md and docs/NAME/KERNEL.md."""

    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    def kernels(self) -> dict[str, Results]:
        """The results of each kernel by its name; a study or a check is not among them."""
        return {path.stem: of(path) for path in sorted(self.folder.glob("*.json"))}

    def newest(self) -> Results:
        """The kernel's results that were measured last: the others of the card should be of its commit."""
        return max(self.kernels().values(), key=lambda run: run.created)

    def marks(self, run: Results) -> str:
        """Those of MARKS that a file bears."""
        return (OLDER if changed(run) else "") + (ELSEWHERE if run.commit != self.newest().commit else "")


def cards() -> list[Card]:
    """Every card with results of a kernel."""
    return [Card(folder) for folder in sorted(FOLDER.parent.iterdir()) if any(folder.glob("*.json"))]


def kernels() -> dict[str, Results]:
    """The results of each kernel on the H200."""
    return Card(FOLDER).kernels()


def of(path: Path) -> Results:
    """The results of a file, which is read once."""
    return _of(path, path.stat().st_mtime_ns)


@cache
def _of(path: Path, _changed: int) -> Results:
    return load(path)


def packed(path: Path) -> Results:
    """The results in a .json.gz file."""
    with tempfile.TemporaryDirectory() as folder:
        (unpacked := Path(folder, path.stem)).write_bytes(gzip.decompress(path.read_bytes()))
        return load(unpacked)


def changed(run: Results) -> bool:
    """Whether the kernel's `.cu` differs from the one that was measured."""
    kernel = find.kernel(run.cases[0].kernel)
    return run.sources.get(kernel.cu.name) != cuda_source.digest(kernel.cu)


def legend(text: str) -> str:
    """`text`, and below it what those of MARKS say that occur in it."""
    said = [f"{mark} {words}." for mark, words in MARKS.items() if mark in text]
    return "\n\n".join([text, *([" ".join(said)] if said else [])])


def table(head: list[str], rows: list[list[str]], left: int = 1) -> str:
    """A table whose first `left` columns hold names and the others numbers."""
    lines = [head, [*["---"] * left, *["--:"] * (len(head) - left)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def percent(value: float, sign: str = "") -> str:
    return f"{100 * value:{sign}.2f} %"


def printed(*words: str, width: int = 80) -> str:
    """The output of a command in a terminal of `width` columns."""
    run = CliRunner().invoke(main_command, words, prog_name="cudalab", env={"COLUMNS": str(width), "NO_COLOR": "1"})
    return run.output.strip()


def typed(width: int, file: str, *options: str) -> str:
    """`cudalab show` of a committed file and its output in a terminal of `width` columns."""
    output = printed("show", str(FOLDER / file), *options, width=width)
    return f"```console\n$ cudalab show bench/results/h200/{file} {' '.join(options)}\n{output}\n```"
