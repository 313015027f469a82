"""Colours of the charts for the light and the dark theme; people with colour blindness can distinguish them.

A drawing has the light colours; the page's style sheet replaces them in the dark theme. The hues of the lines are those
of Okabe and Ito (Color Universal Design, 2008), darkened or lightened until a label in them has a contrast of 4.5:1
with the page (WCAG 2.2, 1.4.3). Nothing is expressed by colour alone.
"""

from __future__ import annotations

SURFACE = "#ffffff"
INK = "#1c2128"
MUTED = "#57606a"
GRID = "#dfe3e8"
OURS = "#0067a3"
OTHER = "#858e99"
BAD = "#b3261e"
GOOD = "#1a6b3c"
LINES = ("#0068a4", "#b34700", "#00735a", "#98437a", "#7d5c00", "#5a54c4", "#3d4650")

DARK = {
    SURFACE: "#10151b",
    INK: "#e8edf2",
    MUTED: "#a3aeb9",
    GRID: "#2b343e",
    OURS: "#56b4e9",
    OTHER: "#6f7b87",
    BAD: "#ff8a80",
    GOOD: "#6fd69a",
    LINES[0]: "#57b5ea",
    LINES[1]: "#ff9a55",
    LINES[2]: "#35c9a0",
    LINES[3]: "#e79ccb",
    LINES[4]: "#e3b53d",
    LINES[5]: "#aca7ff",
    LINES[6]: "#c3ccd5",
}
DASHES = ((1, 0), (7, 3), (2, 2))  # solid, dashed, dotted: for the first, second and third use of a colour
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "stroke")


def style_of(i: int) -> tuple[str, tuple[int, int], str]:
    """Return colour, dash and shape of line `i`: no two of the first 21 share all three."""
    return LINES[i % len(LINES)], DASHES[i // len(LINES) % len(DASHES)], SHAPES[i % len(SHAPES)]


def css(within: str) -> str:
    """Rules that replace light colours by dark ones in drawings `within` a selector."""
    return "".join(
        f'{within} svg [fill="{light}"]{{fill:{dark}}}{within} svg [stroke="{light}"]{{stroke:{dark}}}\n'
        for light, dark in DARK.items()
    )
