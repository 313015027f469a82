"""Results as an HTML page, and as single plots for a paper, from the same charts.

`page` lays out the page, `history` that of a history, `findings` writes sentences. `figures`, `over_sizes` and
`checked` take numbers from results, `charts` and `lines` draw them as SVG with `paper`, `draw` makes files of them:
SVG, and PNG with vl-convert.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cudalab.base import advice, files
from cudalab.base.errors import Unavailable

if TYPE_CHECKING:
    from cudalab.results.record import Results
    from cudalab.tools.history.series import History

NEEDED = {".html": ("jinja2", "jinja2"), ".png": ("vl_convert", "vl-convert-python")}  # format -> module, distribution


def need(suffix: str) -> None:
    """Raise Unavailable if the library that writes a format is not installed; an .svg needs none."""
    from importlib.util import find_spec

    module, distribution = NEEDED.get(suffix, ("", ""))
    if module and find_spec(module) is None:
        raise Unavailable(f"a report as {suffix} needs {distribution}; {advice.extra('report')}")


def write_page(target: Path, loaded: Sequence[tuple[str, Results]]) -> None:
    """Write the page whole or not at all. `loaded`: paths and results."""
    from cudalab.report.html import page

    files.write(target, page.render(loaded).encode())


def write_history(target: Path, found: History) -> None:
    """Write the page of a history whole or not at all."""
    from cudalab.report.html import history

    files.write(target, history.render(found, target).encode())


def write_plot(
    target: Path, runs: Sequence[Results], chart: str, scale: float = 3, headed: bool = True, **which: str
) -> None:
    """Write one chart as SVG, or as PNG if `target` ends in .png; `plot.chosen` selects it."""
    from cudalab.report.html import plot

    figure, about = plot.chosen(runs, chart, **which)
    files.write(target, plot.encoded(figure, about, target.suffix.lower(), scale, headed))
