"""The results of `cudalab profile`: for each variant of a kernel, what one call makes the machine do."""

from __future__ import annotations

import re

import msgspec

from cudalab.device.activity import COMPILED

OK, ERROR, SKIPPED = "ok", "error", "skipped"


class Longest(msgspec.Struct):
    """A kernel (on a CPU: an operator): how often a call runs it, and the seconds of all runs together."""

    name: str
    count: float
    seconds: float


class Counters(msgspec.Struct):
    """Metrics of one kernel by ncu's own names, in base units."""

    kernel: str
    metrics: dict[str, float]


class Row(msgspec.Struct):
    """One variant. `counts` come from `events.Recording.counts`."""

    label: str
    status: str = OK
    reason: str = ""
    counts: dict[str, float] = {}
    longest: list[Longest] = []
    counters: list[Counters] = []


class Profile(msgspec.Struct):
    """All variants of a kernel at one size. `notes` say what is missing, and why."""

    kernel: str
    size: str
    shape: tuple[int, ...]
    dtype: str
    device: str = ""  # "cuda" or "cpu"
    name: str = ""  # of the device
    rows: list[Row] = []
    notes: list[str] = []


def brief(name: str, most: int = 80) -> str:
    """A kernel's or an operator's name without C++ namespaces and parameters, cut to `most` characters."""
    if COMPILED.fullmatch(name):
        return "torch.compile's code"
    if "<" in name or "(" in name:
        name = re.sub(r"(\w+|\(anonymous namespace\))::", "", name.removeprefix("void "))
        name = re.sub(r"(^\w+|>)\(.*", lambda found: found[1], name)
    return name if len(name) <= most else f"{name[: most - 4]} ..."
