"""The first history: that of the committed results, in docs/history.md and as a page.

    python bench/first_history.py [--page build/history.html]

Writes the text between the marks `<!-- gelu on the H200 -->` and `<!-- /gelu on the H200 -->` of docs/history.md, which
is what the commands in it print. With --page also the page of all kernels, with links to the files.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pages.committed import ROOT, printed

DOCUMENT = ROOT / "docs" / "history.md"
MARKS = re.compile(r"(<!-- gelu on the H200 -->\n).*?(<!-- /gelu on the H200 -->)", re.DOTALL)
FILES = (
    "bench/results/h200/*.json", "bench/results/h200/engine/gelu_*.json.gz", "bench/results/h200/pairs"
)  # fmt: skip
STORE = "history.db"
SHOWN = ("history", "gelu", "--size", "large", "--only", "pycuda:gelu_vec")


@contextlib.contextmanager
def recorded() -> Iterator[str]:
    """The store of the committed results, and what `cudalab record` says; the current folder is the repository."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(ROOT)
        try:
            files = [path for words in FILES for path in sorted(map(str, Path().glob(words)))]
            printed("record", *files, "--store", os.path.join(folder, STORE), "--quiet")
            yield folder
        finally:
            os.chdir(before)


def shown() -> str:
    """The history of GELU, and the commands that show it."""
    with recorded() as folder:
        said = printed(*SHOWN, "--store", os.path.join(folder, STORE)).replace(folder + os.sep, "")
    record = f"$ cudalab record {' '.join(FILES)} --store {STORE}"
    return f"```console\n{record}\n...\n$ cudalab {' '.join(SHOWN)} --store {STORE}\n{said}\n```"


def filled(text: str) -> str:
    """The text of the page with its generated part made again."""
    return MARKS.sub(lambda found: f"{found[1]}{shown()}\n{found[2]}", text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", type=Path, help="also write the page of all kernels to this file")
    given = parser.parse_args()
    DOCUMENT.write_text(filled(DOCUMENT.read_text()))
    if given.page:
        page = given.page.resolve()
        with recorded() as folder:
            print(printed("history", "*", "--store", os.path.join(folder, STORE), "-o", str(page)))


if __name__ == "__main__":
    main()
