"""Adds pages outside docs/ and those of results to the site, and rewrites links to work there as they do on GitHub.

MkDocs calls the functions. A link to a file that is not a page, such as ../bench/card.sh, copies the file to the site.
"""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
PAGES = {  # in the repository -> on the site
    "README.md": "index.md",
    "CHANGELOG.md": "changes.md",
    "bench/METHOD.md": "method.md",
    "bench/NOTES.md": "notes.md",
    "tests/fake_gpu/README.md": "fake_gpu.md",
}
RESULTS = "Results"  # the section of the navigation with the cards
# The target of [text](target) and ![text](target), and of the src and srcset of HTML.
LINK = re.compile(r'(?:(?<=\]\()|(?<=src=")|(?<=srcset="))(?![a-z]+:|#)([^)#\s"]+)')
BLOCK = re.compile(r"<(pre|code|script|style)\b.*?</\1>", re.DOTALL)
LIST = re.compile(r"\n *(?:[-*+]|1\.) .*")  # a line of a list inside a paragraph or an item
log = logging.getLogger("mkdocs.hooks")  # a warning fails a strict build


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages of each card with results, docs/CARD.md and docs/CARD/KERNEL.md, into the navigation."""
    kernels: dict[str, list[dict[str, str]]] = {}
    for path in sorted((ROOT / "docs").glob("*/*.md")):
        card = path.parent.name
        kernels.setdefault(card, [{"All kernels": f"{card}.md"}]).append({path.stem: f"{card}/{path.name}"})
    cards = [{card.upper(): pages} for card, pages in kernels.items()]
    config.nav = [{RESULTS: cards + item[RESULTS]} if RESULTS in item else item for item in config.nav or []]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for path, page in PAGES.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return the page with its links as they are on the site."""
    source = next((path for path, name in PAGES.items() if name == page.file.src_uri), f"docs/{page.file.src_uri}")

    def on_site(link: re.Match[str]) -> str:
        target = os.path.normpath(os.path.join(os.path.dirname(source), link[1]))
        name = PAGES.get(target, target.removeprefix("docs/"))
        if not files.get_file_from_path(name) and (ROOT / target).is_file():
            name = f"files/{target}"
            if not files.get_file_from_path(name):
                files.append(File.generated(config, name, abs_src_path=str(ROOT / target)))
        return os.path.relpath(name, os.path.dirname(page.file.src_uri))

    return LINK.sub(on_site, markdown)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Warn of lists that are shown as a paragraph; GitHub shows these as lists."""
    for line in collapsed(html):
        log.warning(f"{page.file.src_uri}: '{line}' is not shown as a list: leave a blank line before it")
    return html


def collapsed(html: str) -> list[str]:
    """Lines of a page that were meant as a list, of which Python-Markdown made text."""
    return [re.sub("<.*?>", "", line).strip() for line in LIST.findall(BLOCK.sub("", html))]
