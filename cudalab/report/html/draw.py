"""Turn a chart's specification into SVG and PNG with vl-convert; a drawing holds shapes and text only.

vl-convert draws one chart at a time in a process, and most of its time goes into measuring texts: a page with many
charts uses several processes.
"""

from __future__ import annotations

import json
import re
import struct
import threading
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from xml.etree import ElementTree

from cudalab.base import threads
from cudalab.base.child import Child, Ended, Parent
from cudalab.base.errors import CudalabError
from cudalab.report.html import text_width
from cudalab.report.html.palette import INK, MUTED, SURFACE

SVG = "http://www.w3.org/2000/svg"
MARK = "made by cudalab report"  # in every file that is written: a later report may replace such a file
FONT = "Arial, Helvetica, 'Liberation Sans', sans-serif"  # equally wide, so that measured texts fit
LONG = 12  # characters of a text that says its own width
LIMIT = 120.0  # seconds for one chart
HEADING = 42  # height of the two lines above a drawing
PROCESSES = 8  # at most: each takes half a second to start

# What a drawing may hold. All else that a specification could cause (links, scripts, styles) is left out.
ELEMENTS = {"svg", "g", "path", "line", "rect", "text", "tspan"}
ATTRIBUTES = {
    "viewBox", "width", "height", "transform", "d", "x", "y", "x1", "x2", "y1", "y2", "rx", "fill", "fill-opacity",
    "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "stroke-linejoin", "stroke-linecap", "opacity",
    "text-anchor", "font-size", "font-weight", "font-style",
}  # fmt: skip
GEOMETRY = {"transform", "d", "x", "y", "x1", "x2", "y1", "y2", "width", "height"}
PLAIN = {
    "opacity": "1",
    "stroke-width": "1",
    "stroke-dasharray": "1,0",
    "transform": "translate(0,0)",
}  # defaults


@contextmanager
def studio() -> Iterator[Callable[[dict[str, Any]], Future[str]]]:
    """A function that draws a specification as `<svg>` in one of several processes while the caller goes on."""
    children: list[Child[str]] = []
    mine = threading.local()

    def drawn(spec: dict[str, Any]) -> str:
        if not hasattr(mine, "child"):
            mine.child = Child("cudalab.report.html.draw.main", answers=str)
            children.append(mine.child)
        mine.child.send(json.dumps(spec))
        try:
            return str(mine.child.receive(LIMIT))
        except Ended as ended:
            del mine.child
            said = [line for line in ended.said.splitlines() if re.match(r"\w+: ", line)]  # not the traceback
            raise CudalabError(
                f"a chart could not be drawn: {said[0] if said else f'its process {ended.how}'}"
            ) from None

    pool = ThreadPoolExecutor(min(threads.cores(), PROCESSES))
    try:
        yield lambda spec: pool.submit(drawn, spec)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in children:
            child.stop()  # a thread that waits for it is free then
        pool.shutdown()
        for child in children:
            child.kill()


def main(parent: Parent) -> None:
    """Draw the specifications that the parent sends."""
    for spec in parent.orders(str):
        parent.answer(svg(json.loads(spec)))


def svg(spec: dict[str, Any]) -> str:
    """One specification as `<svg>`, drawn in this process."""
    import vl_convert

    return clean(vl_convert.vegalite_to_svg(spec, allowed_base_urls=[]))


def alone(svg: str, says: str, heading: tuple[str, str] | None = None) -> str:
    """A drawing as a file: white background, our mark, `says` for screen readers, `heading` as two lines above it."""
    root = ElementTree.fromstring(svg)
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    inner = ElementTree.Element("g")
    inner[:] = list(root)
    title = ElementTree.Element("title")
    title.text = says
    root[:] = [title]
    if heading:
        inner.set("transform", f"translate(0,{HEADING})")
        height += HEADING
        for text, y, size, weight, colour in zip(heading, (18, 35), ("14", "11"), ("bold", "normal"), (INK, MUTED)):
            look = {"x": "10", "y": str(y), "font-size": size, "font-weight": weight, "fill": colour}
            ElementTree.SubElement(root, "text", look).text = text
    root.insert(1, ElementTree.Element("rect", {"width": "100%", "height": "100%", "fill": SURFACE}))
    root.append(inner)
    look = {"viewBox": f"0 0 {width:g} {height:g}", "width": f"{width:g}", "height": f"{height:g}"}
    root.attrib = {"xmlns": SVG, **look, "font-family": FONT, "role": "img"}
    return f"<!-- {MARK} -->\n{ElementTree.tostring(root, encoding='unicode')}\n"


def png(svg: str, scale: float = 3) -> bytes:
    """A drawing from `alone` as PNG, with `scale` pixels for each of its units."""
    import vl_convert

    data: bytes = vl_convert.svg_to_png(svg, scale=scale)
    said = b"tEXtSoftware\0" + MARK.encode()
    chunk = struct.pack(">I", len(said) - 4) + said + struct.pack(">I", zlib.crc32(said))
    return data[:33] + chunk + data[33:]  # after the signature and the header, which come first


def clean(svg: str) -> str:
    """`svg` with known elements and attributes only, coordinates to a tenth, and the labels of marks as titles."""
    root = ElementTree.fromstring(svg)
    _strip(root)
    return ElementTree.tostring(root, encoding="unicode")


def _strip(element: ElementTree.Element) -> None:
    label = element.get("aria-label")
    element.tag = _local(element)
    shape = element.tag not in ("g", "svg")
    element.attrib = {
        name: _short(value) if name in GEOMETRY else value
        for name, value in element.attrib.items()
        if name in ATTRIBUTES and PLAIN.get(name) != value
    }
    for child in list(element):
        if _local(child) not in ELEMENTS:
            element.remove(child)
            continue
        _strip(child)
        if _invisible(child):
            element.remove(child)
    if shape and label:
        ElementTree.SubElement(element, "title").text = label
    if element.tag == "text" and len(element.text or "") >= LONG:
        _fix_width(element)


def _fix_width(text: ElementTree.Element) -> None:
    """Let a text be as wide as in FONT, whatever font the viewer takes."""
    size = re.match(r"[\d.]+", text.get("font-size", ""))
    wide = size and text_width.width(text.text or "", float(size[0]), text.get("font-weight") == "bold")
    if wide:
        text.attrib |= {"textLength": f"{wide:.1f}", "lengthAdjust": "spacingAndGlyphs"}


def _invisible(element: ElementTree.Element) -> bool:
    """A group without content, or one of the frames that Vega draws around everything."""
    if element.tag == "g":
        if len(element) == 1 and element[0].tag == "g" and not element.attrib:  # a group of a group
            only = element[0]
            element.attrib = dict(only.attrib)
            element[:] = list(only)
        return not len(element)
    if element.get("fill") == "transparent":
        return True
    path = element.get("d")
    return element.tag == "path" and (not path or (element.get("fill") is None and element.get("stroke") is None))


def _local(element: ElementTree.Element) -> str:
    return str(element.tag).rpartition("}")[2]


def _short(value: str) -> str:
    """Coordinates to a tenth of a pixel."""
    return re.sub(r"-?\d+\.\d+(?:e-?\d+)?", lambda m: f"{round(float(m[0]), 1):g}", value)
