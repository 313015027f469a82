"""One chart of a report as a file: which one is meant, and its bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from cudalab.base.errors import InputError, short, unknown
from cudalab.base.memo import unchanging
from cudalab.report.html import checked, draw, figures, gpus, over_sizes, overview, roofline
from cudalab.report.html.figures import Figure
from cudalab.results import record
from cudalab.results.record import Case, Results

AT_A_SIZE = ("speedup", "samples", "roofline", *record.TIMES)
OVER_SIZES = ("bandwidth",)
OF_CHECKS = ("accuracy", "error")
RIVALS, GPUS = OF_ALL = ("rivals", "gpus")  # of all kernels
CHARTS = (*OF_ALL, *AT_A_SIZE, *OVER_SIZES, *OF_CHECKS)

Part = tuple[Results, list[Case]]  # a run, and some of its cases


@unchanging
def chosen(
    runs: Iterable[Results], chart: str, kernel: str = "", dtype: str = "", size: str = "", kind: str = ""
) -> tuple[Figure, str]:
    """The figure of that name, and a text that says what it shows.

    `size` is the largest if none is given; `kernel` and `dtype` may be left out if there is only one. If several runs
    have the chart, the newest is drawn; for the bandwidth, the one with the most sizes.
    Raises NotFound for a name that is not there, InputError if the choice is ambiguous or there is nothing to draw.
    """
    if chart not in CHARTS:
        raise unknown("chart", chart, CHARTS)
    if kind and kind not in record.TIMES:
        raise unknown("kind of time", kind, record.TIMES)
    if kind and chart not in ("speedup", "samples", "bandwidth"):
        raise InputError(f"--kind is for speedup, samples and bandwidth, not for {chart}")
    if size and chart not in AT_A_SIZE:
        raise InputError(f"--size is not for {chart}, which shows all sizes; leave it out")
    if chart == RIVALS:
        return _rivals(list(runs))
    if chart == GPUS:
        return _gpus(list(runs))
    usable = [(run, run.cases) for run in runs if _drawable(run, chart, kind)]
    if not usable:
        raise InputError(f"nothing to draw for {chart}{f' of {kind}' if kind else ''}: {_needs(chart)}")
    kernel = _one("--kernel", kernel, (c.kernel for _, cases in usable for c in cases))
    usable = _holding(usable, lambda c: c.kernel == kernel)
    dtype = _one("--dtype", dtype, (c.dtype for _, cases in usable for c in cases))
    usable = _holding(usable, lambda c: c.dtype == dtype)
    if chart in AT_A_SIZE:
        size = size or max((c for _, cases in usable for c in cases if c.times), key=lambda c: c.nbytes).size
        size = _one("--size", size, (c.size for _, cases in usable for c in cases))
        usable = _holding(usable, lambda c: c.size == size)
    found = [(run, cases, _figure(run, cases, chart, kind)) for run, cases in usable]
    drawn = [(run, cases, figure) for run, cases, figure in found if isinstance(figure, Figure)]
    if not drawn:
        why = next((reason for _, _, reason in found if isinstance(reason, str)), _needs(chart))
        raise InputError(f"nothing to draw for {chart} of {kernel} {dtype}: {why}")
    run, _, figure = max(drawn, key=lambda found: (_sizes(found[1]) if chart in OVER_SIZES else 0, found[0].created))
    about = [figures.plain(text, 40) for text in (kernel, dtype, size, run.machine.name) if text]
    return figure, ", ".join(about)


def _rivals(runs: Sequence[Results]) -> tuple[Figure, str]:
    """Return the picture of all kernels of one card, and what it is about."""
    found, without = overview.rival_figures(runs)
    if len(found) > 1:
        raise InputError(f"a plot shows one card; give files of one: {', '.join(figure.title for figure in found)}")
    if not found:
        raise InputError(f"nothing to draw for {RIVALS}: {' '.join(without) or 'it needs times from `cudalab bench`'}")
    machines = dict.fromkeys(figures.plain(run.machine.name, 40) for run in runs if run.timed and not run.of_study)
    return found[0], ", ".join(name for name in machines if not any(name in line for line in without))


def _gpus(runs: Sequence[Results]) -> tuple[Figure, str]:
    """Return the picture of how the GPUs of one run differ, and what it is about."""
    found = gpus.figures(runs)
    if len(found) > 1:
        raise InputError(f"a plot shows the GPUs of one run, and {len(found)} files have some; give one file")
    if not found:
        raise InputError(f"nothing to draw for {GPUS}: it needs a file of `cudalab bench --gpus all --every-gpu -o`")
    return found[0], next(figures.plain(run.machine.name, 40) for run in runs if gpus.figures([run]))


def encoded(figure: Figure, about: str, suffix: str, scale: float, headed: bool) -> bytes:
    """The figure as the bytes of an .svg or a .png file; `scale`: pixels of a PNG for each unit.

    `headed`: add the title and what the figure shows; in a paper the caption says it.
    """
    heading = (figure.title, about) if headed else None
    svg = draw.alone(figure.svg, f"{figure.title}, {about}. {figure.says}", heading)
    return draw.png(svg, scale) if suffix == ".png" else svg.encode()


def _sizes(cases: list[Case]) -> int:
    return len({case.nbytes for case in cases if case.times})


def _figure(run: Results, cases: list[Case], chart: str, kind: str) -> Figure | str | None:
    """The chart of some cases of a run, or why there is none. The whole run has the best copy."""
    if chart in record.TIMES:
        return figures.times(run, cases, chart)
    makers: dict[str, Callable[[], Figure | str | None]] = {
        "speedup": lambda: figures.speedup(run, cases, kind),
        "samples": lambda: figures.samples(run, cases, kind),
        "roofline": lambda: roofline.figure(run, cases),
        "bandwidth": lambda: over_sizes.bandwidth(run, cases, kind),
        "accuracy": lambda: checked.accuracy(run, cases),
        "error": lambda: checked.error(run, cases),
    }
    return makers[chart]()


def _drawable(run: Results, chart: str, kind: str) -> bool:
    """Whether a run has the data that a chart shows."""
    if chart in OF_CHECKS:
        return not run.timed and any(c.parity and (chart == "accuracy" or c.parity.curve) for c in run.cases)
    wanted = kind or (chart if chart in record.TIMES else roofline.KIND if chart == "roofline" else run.main_kind)
    return any(wanted in c.times for c in run.cases)


def _needs(chart: str) -> str:
    return {
        "speedup": "it needs times from `cudalab bench` of a baseline (torch_eager, torch_native or numpy) and of "
        "another variant",
        "roofline": "it needs cold times from `cudalab bench` on a GPU",
        "bandwidth": "it needs times at two sizes or more from `cudalab bench`",
        "accuracy": "it needs a file of `cudalab check -o`",
        "error": "it needs a file of `cudalab check -o` of a kernel of one float16 or bfloat16 array",
    }.get(chart, "it needs such times from `cudalab bench`")


def _one(option: str, asked: str, found: Iterable[str]) -> str:
    """`asked`, if it is there; without it the only name there is."""
    names: Sequence[str] = list(dict.fromkeys(found))
    if asked:
        if asked not in names:
            raise unknown(option.strip("-"), asked, names)
        return asked
    if len(names) > 1:
        raise InputError(f"a plot shows one {option.strip('-')}; give {option}: {', '.join(map(short, names[:12]))}")
    return names[0]


def _holding(runs: Iterable[Part], wanted: Callable[[Case], bool]) -> list[Part]:
    """The runs and their wanted cases; runs without any are left out."""
    parts = [(run, [case for case in cases if wanted(case)]) for run, cases in runs]
    return [(run, cases) for run, cases in parts if cases]
