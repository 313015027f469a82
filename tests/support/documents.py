"""For tests of the pages: their files, and the fenced blocks in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = (".", "bench", "docs", "docs/*", "tests/fake_gpu")  # docs/CARD has the pages of kernels
PAGES = [path for folder in FOLDERS for path in sorted(ROOT.glob(f"{folder}/*.md"))]

_FENCE = re.compile(
    r'^```(?P<language>\w*)(?: title="(?P<title>[^"]*)")?\n(?P<text>.*?)^```$', re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Block:
    """The text between two lines of three backticks."""

    language: str
    title: str
    text: str


def blocks(page: Path) -> list[Block]:
    return [Block(m["language"], m["title"] or "", m["text"]) for m in _FENCE.finditer(page.read_text())]


def prose(page: Path) -> str:
    """The page without its blocks."""
    return _FENCE.sub("", page.read_text())
