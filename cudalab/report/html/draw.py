"""A drawing as a file of its own: SVG with a white background and a heading, and PNG."""

from __future__ import annotations

import re
import struct
import zlib
from html import escape

from cudalab.report.html.palette import INK, MUTED, SURFACE

SVG = "http://www.w3.org/2000/svg"
MARK = "made by cudalab report"  # in every file that is written: a later report may replace such a file
FONT = "Arial, Helvetica, 'Liberation Sans', sans-serif"  # equally wide, so that measured texts fit
HEADING = 42  # height of the two lines above a drawing


def alone(svg: str, says: str, heading: tuple[str, str] | None = None) -> str:
    """A drawing as a file: white background, our mark, `says` for screen readers, `heading` as two lines above it."""
    opened = re.match(r'<svg width="([\d.]+)" height="([\d.]+)" [^>]*>', svg)
    assert opened
    inner = svg[opened.end() : -len("</svg>")]
    width, height = opened[1], float(opened[2]) + (HEADING if heading else 0)
    lines = ""
    if heading:
        looks = (18, 14, f'font-weight="bold" fill="{INK}"'), (35, 11, f'fill="{MUTED}"')
        for text, (y, size, look) in zip(heading, looks, strict=True):
            lines += f'<text x="10" y="{y}" font-size="{size}" {look}>{escape(text, quote=False)}</text>'
        inner = f'<g transform="translate(0,{HEADING})">{inner}</g>'
    return (
        f'<!-- {MARK} -->\n<svg xmlns="{SVG}" viewBox="0 0 {width} {height:g}" width="{width}" height="{height:g}" '
        f'font-family="{FONT}" role="img"><title>{escape(says, quote=False)}</title>'
        f'<rect width="100%" height="100%" fill="{SURFACE}"/>{lines}{inner}</svg>\n'
    )


def png(svg: str, scale: float = 3) -> bytes:
    """A drawing from `alone` as PNG (vl-convert draws it), with `scale` pixels for each of its units."""
    import vl_convert

    data: bytes = vl_convert.svg_to_png(svg, scale=scale)
    said = b"tEXtSoftware\0" + MARK.encode()
    chunk = struct.pack(">I", len(said) - 4) + said + struct.pack(">I", zlib.crc32(said))
    return data[:33] + chunk + data[33:]  # after the signature and the header, which come first
