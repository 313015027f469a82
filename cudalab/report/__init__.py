"""Results as text, Markdown, HTML and plots. `columns` decides what is shown; one module per format prints it."""

from __future__ import annotations

from collections.abc import Callable

from cudalab.base.errors import unknown
from cudalab.base.memo import unchanging
from cudalab.results.record import Results


@unchanging
def render(
    results: Results, format: str, width: int | None = None, color: bool = False, costs: bool = False, plots: str = "",
    height: int | None = None, everything: bool = False,
) -> str:  # fmt: skip
    """All of `results` as table, markdown, csv or json.

    `width` (columns), `color`, `costs` (add what each variant costs once), `plots` ("blocks" or "ascii": draw bars and
    histograms with these characters) and `height` (lines of the terminal: where the table has more, the legend comes
    first) only apply to the table. So does `everything`: a bench without a GPU has the tables of its times in
    place of a short screen (`without_gpu`); `costs` asks for them as well.
    """
    from cudalab.report import columns, flat, markdown, table

    formats: dict[str, Callable[[], str]] = {
        "table": lambda: table.render(results, width, color, costs, plots, height),
        "markdown": lambda: markdown.render(results),
        "csv": lambda: flat.as_csv(results),
        "json": lambda: flat.as_json(results),
    }
    if columns.without_gpu(results) and not (everything or costs):
        from cudalab.report import without_gpu

        formats["table"] = lambda: without_gpu.render(results, width, color)
    if results.of_study:
        from cudalab.report import study_text

        formats["table"] = lambda: study_text.render(results, width, color, costs, plots, height)
        formats["markdown"] = lambda: study_text.markdown(results)
    if format not in formats:
        raise unknown("format", format, formats)
    return formats[format]()
