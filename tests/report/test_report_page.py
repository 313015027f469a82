"""The page in a browser: drawn, usable, safe, and silent on the network. Skipped where there is no Chromium."""

from __future__ import annotations

import json
import re
from itertools import pairwise

import browsing
import pytest
from report_runs import HOSTILE, checked, counted, hostile, timed

pytest.importorskip("selenium")

from cudalab.report import html
from cudalab.report.html.page import embedded

pytestmark = [browsing.needed]
PAGES = ("plain", "hostile", "roofline", "notebook")
VIEW = '<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">'


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Addresses of pages of ordinary results, of hostile ones, and of results with operations."""
    folder = tmp_path_factory.mktemp("pages")
    html.write_page(folder / "plain.html", [("run.json", timed()), ("check.json", checked())])
    html.write_page(folder / "hostile.html", [("x.json", hostile())])
    html.write_page(folder / "roofline.html", [("x.json", counted())])
    held = embedded(hostile()) + embedded(timed())
    (folder / "notebook.html").write_text(f'<!DOCTYPE html><meta charset="utf-8">{VIEW}{held}', encoding="utf-8")
    return {name: (folder / f"{name}.html").as_uri() for name in PAGES}


@pytest.fixture
def opened(browser, pages):
    """Opens a page as a screen of some width, and afterwards looks for errors and requests."""
    from selenium.webdriver.support.ui import WebDriverWait

    seen = []

    def loaded(_):
        """Wait for the page: the driver may report it too early. This needs no script of the page."""
        asked = {"expression": "document.readyState + ' ' + document.URL"}
        state = browser.execute_cdp_cmd("Runtime.evaluate", asked)["result"]["value"]
        return state.startswith(f"complete {seen[-1]}")

    def open_(name="plain", width=1280, scripts=True, fragment=""):
        browser.get("about:blank")
        browsing.as_wide(browser, width)
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not scripts})
        browser.get_log("performance")
        seen.append(pages[name])
        browser.get(pages[name] + fragment)
        WebDriverWait(browser, 20).until(loaded)
        return browser

    yield open_
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert browser.get_log("browser") == []  # errors, and requests that the page's policy refused
    assert browsing.asked(browser) <= {*seen, "about:blank"}


def rows(browser, table="numbers", column=None):
    """Texts of the rows that are shown, or of one of their columns."""
    found = browser.execute_script(
        "return [...document.getElementById(arguments[0]).tBodies[0].rows].filter(r => r.offsetParent)"
        ".map(r => [...r.cells].map(c => c.textContent))", table
    )  # fmt: skip
    if column is None:
        return found
    heads = browser.execute_script(
        "return [...document.getElementById(arguments[0]).tHead.rows[0].cells].map(c => c.textContent)", table
    )
    return [row[heads.index(column)] for row in found]


def test_the_first_screen_has_question_and_rivals_and_each_part_its_answer(opened):
    page = opened()
    assert page.title == "gelu on Test GPU: right, and how fast?"
    figure = page.find_element("css selector", "figure, table, .answer")
    assert figure.get_attribute("data-chart") == "rivals"
    assert page.execute_script("return arguments[0].getBoundingClientRect().bottom", figure) < 900
    answers = [a.get_attribute("textContent") for a in page.find_elements("css selector", ".subject .answer")]
    assert answers[0].startswith("gelu, float32, Test GPU: ours ")
    assert re.search(r"torch_native \([\d.]+ to [\d.]+, FASTER\)", answers[0])
    assert "4 of 4 checks of 4 variants right" in answers[1]
    assert "no such thing" in page.find_element("css selector", ".remarks[open]").text


def test_every_chart_is_drawn(opened):
    page = opened(scripts=False)  # everything is shown, without a script
    boxes = page.execute_cdp_cmd("Runtime.evaluate", {"expression": """
        JSON.stringify([...document.querySelectorAll("figure")].map(f => {
            const svg = f.querySelector("svg"), box = svg.getBoundingClientRect();
            const marks = [...svg.querySelectorAll("path, circle")];
            return [f.dataset.chart, box.width, box.height, svg.getAttribute("role"),
                    svg.querySelectorAll("text").length,
                    marks.filter(m => m.getBBox().width + m.getBBox().height > 1).length,
                    document.getElementById(svg.getAttribute("aria-labelledby")).textContent.trim().length];
        }))"""})["result"]["value"]  # fmt: skip
    found = json.loads(boxes)
    names = [box[0] for box in found]
    assert set(names) == {"rivals", "roofline", "speedup", "samples", "cold", "hot", "graph", "call", "bandwidth_cold",
                          "bandwidth_graph", "accuracy", "error"}  # fmt: skip
    assert names.count("speedup") == 3
    for name, width, height, role, texts, marks, said in found:
        assert width > 300, name
        assert height > 90, name
        assert role == ("group" if name == "rivals" else "img")  # of those with links
        assert texts > 8, name
        assert marks >= 4, name
        assert said > 40, name


def test_kernel_and_size_are_chosen(opened):
    from selenium.webdriver.support.ui import Select, WebDriverWait

    page = opened()
    shown = "return [...document.querySelectorAll('.group, .subject')].filter(e => e.offsetParent).map(e => e.id)"
    assert page.execute_script(shown) == ["gelu-float32", "gelu-float32-xlarge"]
    Select(page.find_element("id", "size")).select_by_visible_text("small")
    assert page.execute_script(shown) == ["gelu-float32", "gelu-float32-small"]
    assert page.current_url.endswith("#gelu-float32-small")
    Select(page.find_element("id", "subject")).select_by_visible_text("gelu, bfloat16")
    assert page.execute_script(shown) == ["gelu-bfloat16"]
    Select(page.find_element("id", "subject")).select_by_visible_text("all")
    assert len(page.execute_script(shown)) == 3
    page = opened(fragment="#gelu-float32-large")
    assert page.execute_script(shown) == ["gelu-float32", "gelu-float32-large"]
    page = opened(fragment="#gelu-bfloat16")
    assert page.execute_script(shown) == ["gelu-bfloat16"]
    page.find_element("css selector", "figure[data-chart=rivals] a").click()
    wanted = ["gelu-float32", "gelu-float32-xlarge"]
    WebDriverWait(page, 20).until(lambda _: page.execute_script(shown) == wanted)


def test_the_table_is_filtered_sorted_and_copied(opened):
    from selenium.webdriver.common.keys import Keys

    page = opened()
    assert len(rows(page)) == 21
    box = page.find_element("id", "numbers-filter")
    box.send_keys("large pycuda")
    assert {(row[2], row[3]) for row in rows(page)} == {
        (size, f"pycuda:gelu_{entry}") for size in ("large", "xlarge") for entry in ("vec", "scalar")
    }
    assert page.find_element("css selector", ".count").text == "4 of 21 rows"
    head = next(th for th in page.find_elements("css selector", "#numbers th") if th.text.startswith("cold"))
    head.find_element("tag name", "button").send_keys(Keys.ENTER)
    assert head.get_attribute("aria-sort") == "ascending"
    cold = rows(page, column="cold \u00b5s")
    assert cold == sorted(cold, key=lambda text: float(text.strip("~^!?").replace(",", "")))
    head.find_element("tag name", "button").send_keys(Keys.SPACE)
    assert head.get_attribute("aria-sort") == "descending"
    assert rows(page, column="cold \u00b5s") == cold[::-1]
    page.execute_cdp_cmd("Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]})
    page.find_element("css selector", ".copy").click()
    copied = page.execute_async_script(
        "navigator.clipboard.readText().then(arguments[0], e => arguments[0](String(e)))"
    )
    lines = copied.splitlines()
    assert lines[0].startswith("| kernel | dtype | size | variant | max ULP | cold \u00b5s |")
    assert lines[1].startswith("| --- | --- | --- | --- | --: | --: |")
    assert [line.split(" | ")[5] for line in lines[2:]] == cold[::-1]
    page.execute_script("navigator.clipboard.writeText = () => Promise.reject(new Error('no'))")
    page.find_element("css selector", ".copy").click()
    area = page.find_element("css selector", ".copied")
    assert area.is_displayed()
    assert area.get_property("value") == copied
    box.clear()
    box.send_keys("error")
    assert {row[3] for row in rows(page)} == {"cupy_raw:gelu_vec"}  # what went wrong is not hidden
    sizes = next(th for th in page.find_elements("css selector", "#numbers th") if th.text.startswith("size"))
    sizes.find_element("tag name", "button").click()
    assert rows(page, column="size") == ["small", "large", "xlarge"]  # by bytes, not by letters


def test_light_and_dark(opened):
    page = opened()
    colours = """
        const fill = (s) => getComputedStyle(document.querySelector(s)).fill;
        return [getComputedStyle(document.body).backgroundColor, fill("svg text"),
                fill(".group:not([hidden]) svg path[fill]:not([fill=none])")]"""
    light = page.execute_script(colours)
    button = page.find_element("id", "theme")
    assert button.text == "Dark theme"
    button.click()
    dark = page.execute_script(colours)
    assert all(one != other for one, other in zip(light, dark))
    assert button.text == "Light theme"
    wish = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", wish)
    assert page.execute_script(colours) == dark
    button.click()
    assert page.execute_script(colours) == light  # the button wins over the system
    page = opened()
    assert page.execute_script(colours) == dark
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", PAGES)
def test_a_screen_scrolls_one_way_and_texts_are_inside(opened, name, width):
    page = opened(name, width=width)
    wide = "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    assert len(set(page.execute_script(wide))) == 1
    least = """
        const scale = (t) => t.getBoundingClientRect().height / t.getBBox().height;
        return Math.min(...[...document.querySelectorAll("figure:not([hidden] *) svg text:not([transform*=rotate])")]
            .filter(t => t.textContent.trim()).map(t => scale(t) * parseFloat(getComputedStyle(t).fontSize)))"""
    assert page.execute_script(least) > 9  # px
    misplaced = """
        return [...document.querySelectorAll("figure:not([hidden] *) svg")].flatMap(svg => {
            const box = svg.getBoundingClientRect();
            const texts = [...svg.querySelectorAll("text:not([transform])")].map(t => [t, t.getBoundingClientRect()]);
            const over = (p, q) => Math.min(p.right, q.right) - Math.max(p.left, q.left) > 1
                && Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top) > 3;
            return texts.filter(([t, p], i) => p.left < box.left - 1 || p.right > box.right + 1
                || texts.some(([u, q], j) => j > i && over(p, q))).map(([t]) => t.textContent); })"""
    assert page.execute_script(misplaced) == []  # cut off, or on each other


def test_parts_are_named_for_those_who_do_not_see_them(opened):
    from selenium.webdriver import ActionChains, Keys

    page = opened()
    levels = page.execute_script(
        "return [...document.querySelectorAll('h1, h2, h3, h4')].filter(h => h.offsetParent).map(h => +h.tagName[1])"
    )
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert page.find_element("css selector", "#numbers caption").text
    assert page.find_element("css selector", "html").get_attribute("lang") == "en"
    reached = []
    for _ in range(3):  # by the Tab key: where it is can be seen
        ActionChains(page).send_keys(Keys.TAB).perform()
        focus = page.switch_to.active_element
        reached.append(focus.get_attribute("class") or focus.get_attribute("id") or focus.text)
        assert focus.rect["x"] >= 0
        assert focus.value_of_css_property("outline-style") == "solid"
    assert reached == ["skip", "theme", "gelu, xlarge, float32"]


def test_a_file_cannot_act(opened):
    page = opened("hostile")
    assert page.execute_script("return typeof hacked") == "undefined"
    assert page.execute_script("return document.querySelectorAll('script, img, iframe, object').length") == 1
    assert HOSTILE in page.find_element("tag name", "h1").text
    assert len(rows(page)) == 7
    page.find_element("css selector", ".copy").click()
    assert page.execute_script("return typeof hacked") == "undefined"
    page = opened("notebook")
    assert page.execute_script("return document.querySelectorAll('script, img, iframe, object').length") == 0
    assert HOSTILE in page.find_element("tag name", "body").text
    ids = page.execute_script("return [...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids)) > 6
