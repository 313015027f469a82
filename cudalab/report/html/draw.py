"""From a chart's specification to SVG and PNG, by vl-convert; what leaves here holds shapes and text only.

Most of the time goes into measuring texts, one by one, so that many charts are spread over processes.
"""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from xml.etree import ElementTree

from cudalab.base import threads
from cudalab.base.errors import CudalabError
from cudalab.report.html.palette import INK, MUTED, SURFACE

SVG = "http://www.w3.org/2000/svg"
MARK = "made by cudalab report"  # in every file that is written, so that a later report may replace it
FONT = "Arial, Helvetica, 'Liberation Sans', sans-serif"  # of one width, so that a text stays where it was measured
HEADING = 42  # height of two lines above a drawing of its own
PROCESSES = 8  # at most: each takes half a second to start

# What a drawing may hold: anything else that a specification could bring about (links, scripts, styles) is left out.
ELEMENTS = {"svg", "g", "path", "line", "rect", "text", "tspan"}
ATTRIBUTES = {
    "viewBox", "width", "height", "transform", "d", "x", "y", "x1", "x2", "y1", "y2", "rx", "fill", "fill-opacity",
    "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "stroke-linejoin", "stroke-linecap", "opacity",
    "text-anchor", "font-size", "font-weight", "font-style",
}  # fmt: skip
GEOMETRY = {"transform", "d", "x", "y", "x1", "x2", "y1", "y2", "width", "height"}
PLAIN = {"opacity": "1", "stroke-width": "1", "stroke-dasharray": "1,0", "transform": "translate(0,0)"}  # say nothing


@contextmanager
def studio() -> Iterator[Callable[[dict[str, Any]], Future[str]]]:
    """A function that has a specification drawn as `<svg>` by one of several processes while the caller goes on."""
    children: list[subprocess.Popen[str]] = []
    mine = threading.local()

    def drawn(spec: dict[str, Any]) -> str:
        if not hasattr(mine, "child"):
            mine.child = _child()
            children.append(mine.child)
        return _asked(mine.child, spec)

    pool = ThreadPoolExecutor(min(threads.cores(), PROCESSES))
    try:
        yield lambda spec: pool.submit(drawn, spec)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in children:
            child.kill()
            child.communicate()


def _child() -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", __name__]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment, encoding="utf-8")


def _asked(child: subprocess.Popen[str], spec: dict[str, Any]) -> str:
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        child.stdin.write(json.dumps(spec) + "\n")
        child.stdin.flush()
        return str(json.loads(child.stdout.readline()))
    except (OSError, ValueError):  # it has ended
        child.kill()
        said = [line for line in child.communicate()[1].splitlines() if re.match(r"\w+: ", line)]  # not the traceback
        raise CudalabError(f"a chart could not be drawn: {said[0] if said else 'its process ended'}") from None


def svg(spec: dict[str, Any]) -> str:
    """One specification as `<svg>`, drawn here."""
    import vl_convert

    return clean(vl_convert.vegalite_to_svg(spec, allowed_base_urls=[]))


def alone(svg: str, says: str, heading: tuple[str, str] | None = None) -> str:
    """A drawing as a file of its own: on white, marked as ours; `says`: read out; `heading`: two lines above it."""
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
    """A drawing of its own as PNG, `scale` pixels for each of its units."""
    import vl_convert

    data: bytes = vl_convert.svg_to_png(svg, scale=scale)
    said = b"tEXtSoftware\0" + MARK.encode()
    chunk = struct.pack(">I", len(said) - 4) + said + struct.pack(">I", zlib.crc32(said))
    return data[:33] + chunk + data[33:]  # after the signature and the header, which come first


def clean(svg: str) -> str:
    """`svg` with known elements and attributes only, no more digits than can be seen, and texts of marks as titles."""
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


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(svg(json.loads(line))), flush=True)
