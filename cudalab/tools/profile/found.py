"""What `cudalab profile` finds: of each variant of a kernel, what one call makes the machine do."""

from __future__ import annotations

import re

import msgspec

COMPILED = re.compile(r"## Call CompiledFxGraph .*")  # torch.compile's generated code: one call of it
OK, ERROR, SKIPPED = "ok", "error", "skipped"


class Longest(msgspec.Struct):
    """A kernel (on a CPU: an operator) of a call: how often, and how long all of them take together."""

    name: str
    count: float
    seconds: float


class Counters(msgspec.Struct):
    """What ncu measured of one kernel: metrics by ncu's own names, in base units."""

    kernel: str
    metrics: dict[str, float]


class Row(msgspec.Struct):
    """One variant. `counts` are those of `profiling.events.Recording.counts`."""

    label: str
    status: str = OK
    reason: str = ""
    counts: dict[str, float] = {}
    longest: list[Longest] = []
    counters: list[Counters] = []


class Profile(msgspec.Struct):
    """All variants of a kernel at one size. `notes` say what could not be had, and why."""

    kernel: str
    size: str
    shape: tuple[int, ...]
    dtype: str
    device: str = ""  # "cuda" or "cpu"
    name: str = ""  # of the device
    rows: list[Row] = []
    notes: list[str] = []


def brief(name: str, most: int = 80) -> str:
    """A kernel's or an operator's name, without the namespaces and parameters of C++, and not too long."""
    if COMPILED.fullmatch(name):
        return "torch.compile's code"
    if "<" in name or "(" in name:
        name = re.sub(r"(\w+|\(anonymous namespace\))::", "", name.removeprefix("void "))
        name = re.sub(r"(^\w+|>)\(.*", lambda found: found[1], name)
    return name if len(name) <= most else f"{name[: most - 4]} ..."
