"""The site of the pages: lists are lists, and in a browser each page fits a phone and a desktop and can be read."""

from __future__ import annotations

import sys
import threading
from ast import literal_eval
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import browsing
import pytest
from documents import PAGES, ROOT
from tables import table

pytest.importorskip("mkdocs")

sys.path.insert(0, str(ROOT / "docs"))

import hook


@pytest.mark.parametrize(("markdown", "expected"), table("pages", "lists", str, literal_eval))
def test_a_list_that_became_text_is_found(markdown, expected):
    import markdown as python_markdown

    assert hook.collapsed(python_markdown.markdown(markdown, extensions=["pymdownx.superfences"])) == expected


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder and the address of the built site."""
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    folder = tmp_path_factory.mktemp("site")
    build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=True))
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield folder, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


LOOK = (ROOT / "tests" / "data" / "pages" / "look.js").read_text()


@browsing.needed
@pytest.mark.parametrize(("width", "theme"), [(390, "light"), (1280, "light"), (1280, "dark")])
def test_each_page_fits_its_screen_and_can_be_read(site, browser, width, theme):
    from selenium.webdriver.support.ui import WebDriverWait

    folder, address = site
    pages = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.html"))
    assert len(pages) == len(PAGES) + 1  # and that of what is not found
    browsing.as_wide(browser, width)
    wish = {"features": [{"name": "prefers-color-scheme", "value": theme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", wish)
    browsing.asked(browser)  # forget what the browser loaded as it started
    for page in (name for name in pages if name != "404.html"):
        browser.get_log("browser")
        browser.get(f"{address}/{page}")
        ready = "return document.readyState === 'complete' && [...document.images].every(i => i.complete)"
        WebDriverWait(browser, 20).until(lambda driver, ready=ready: driver.execute_script(ready))
        found = browser.execute_script(LOOK)
        assert found == {"wide": 0, "out": [], "faint": [], "broken": [], "unnamed": [], "small": []}, page
        assert browser.get_log("browser") == [], page
    assert {url for url in browsing.asked(browser) if not url.startswith((address, "about:", "blob:"))} == set()


def test_the_pictures_are_on_the_site(site):
    folder, _ = site
    for page, picture in (
        ("index.html", "session.svg"), ("h200.html", "h200/rivals.svg"), ("h200/gelu.html", "gelu_speedup.svg"),
        ("h200/matmul.html", "matmul_roofline.svg"),
    ):  # fmt: skip
        assert f'{picture}"' in Path(folder / page).read_text(), f"{picture} on {page}"
