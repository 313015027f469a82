"""The machine, versions and options of a run, as names and texts for the page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cudalab.base import load, numbers, stats
from cudalab.report.html.figures import plain
from cudalab.results import marks
from cudalab.results.record import Results

INTEGRALS = (load.OTHERS, load.CORES)  # of `Results.wall`: load and processors times seconds, not seconds spent


@dataclass(frozen=True)
class Environment:
    """One file: its name, and groups of (name, text)."""

    label: str
    parts: list[tuple[str, list[tuple[str, str]]]]


def environment_of(label: str, run: Results) -> Environment:
    """The environment of one run."""
    parts = [
        ("Machine", _machine(run)),
        ("Versions", [(plain(k, 40), plain(v, 80)) for k, v in run.machine.versions.items()]),
        ("Clocks while copying", _clocks(run)),
        ("Floors", [(plain(k, 40), f"{1e6 * stats.median([v]):.2f} \u00b5s") for k, v in run.calibration.items()]),
        (
            "Options",
            [(plain(k, 40), _said(v)) for k, v in run.options.items() if v is not False and v not in ("", None, {})],
        ),
        ("Sources (SHA-256)", [(plain(k, 60), plain(v, 16)) for k, v in run.sources.items()]),
        ("Time spent", [(plain(k, 40), f"{numbers.three(v)} s") for k, v in run.wall.items() if k not in INTEGRALS]),
    ]
    return Environment(label, [(title, held) for title, held in parts if held])


def _machine(run: Results) -> list[tuple[str, str]]:
    head = [("name", plain(run.machine.name)), ("date", plain(run.created.replace("T", " "), 40))]
    head += [("commit", plain(run.commit, 41))] if run.commit else []
    head += [("no GPU", plain(run.no_gpu))] if run.no_gpu else []
    head += [("mean load", marks.load_of(*run.others))] if run.others else []
    return [*head, *(_detail(k, v) for k, v in run.machine.details.items())]


def _detail(name: str, value: Any) -> tuple[str, str]:
    """A detail of the machine; the ending of its name is its unit."""
    known = {"bytes": (2**20, "MiB"), "hz": (1e6, "MHz")}
    stem, _, unit = name.rpartition("_")
    if unit in known and isinstance(value, (int, float)):
        scale, text = known[unit]
        return plain(stem.replace("_", " ").replace("l2", "L2"), 40), f"{value / scale:,.0f} {text}"
    return plain(name.replace("_", " "), 40), plain(str(value))


def _clocks(run: Results) -> list[tuple[str, str]]:
    """Return the range of the clocks and of the power over all groups."""
    known = {"sm_hz": ("SM", 1e6, "MHz"), "memory_hz": ("memory", 1e6, "MHz"), "power_w": ("power", 1.0, "W")}
    found = []
    for key, (name, scale, unit) in known.items():
        values = [v / scale for c in run.cases if isinstance(v := c.condition.get(key), float)]
        if values:
            low, high = min(values), max(values)
            text = f"{low:.0f}" if f"{low:.0f}" == f"{high:.0f}" else f"{low:.0f} to {high:.0f}"
            found.append((name, f"{text} {unit}"))
    slowed = dict.fromkeys(str(c.condition["throttled"]) for c in run.cases if c.condition.get("throttled"))
    return [*found, *([("slowed by", plain(", ".join(slowed)))] if slowed else [])]


def _said(value: Any) -> str:
    if isinstance(value, dict):  # a study's settings
        value = [f"{name}={held}" for name, held in value.items()]
    return plain(", ".join(map(str, value)) if isinstance(value, list) else str(value))
