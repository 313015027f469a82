"""Which GPUs a run takes: the words of `--gpus`, and cards whose times may not stand in one table."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass

from cudalab.base.errors import InputError, Unavailable, short
from cudalab.base.globs import split
from cudalab.results import comparable
from cudalab.results.record import GPU_KINDS, KINDS, Machine
from cudalab.tools.gpus.messages import Opened

ALL, NONE = "all", "none"
NOT_SET = "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"  # with it Ray lets every actor see all GPUs


@dataclass(frozen=True)
class Chosen:
    """The words of `--gpus`: every GPU, some by their numbers on this host, or those of a kind or of a host."""

    text: str = ALL
    numbers: tuple[int, ...] = ()
    words: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str) -> Chosen:
        """Raises InputError for numbers that are mixed with words, or that are given twice."""
        words = split(text)
        if not words:
            raise InputError("--gpus names no GPU; give all, numbers such as 0,1, or a card such as H200")
        if words == (ALL,):
            return cls()
        numbers = [word for word in words if word.isascii() and word.isdigit()]
        if numbers and len(numbers) < len(words):
            raise InputError(f"--gpus {short(text)} mixes numbers and names; give either, or {ALL} alone")
        if twice := next((word for word in numbers if list(map(int, numbers)).count(int(word)) > 1), ""):
            raise InputError(
                f"--gpus {short(text)} names GPU {twice} twice; nothing else may run on a GPU that is timed"
            )
        return cls(",".join(words), tuple(map(int, numbers)), () if numbers else words)

    def fits(self, found: Opened) -> bool:
        """Whether a word names the card or its host: a part of the card's name, or a glob of either name."""
        return not self.words or any(
            word.lower() in found.ready.machine.name.lower()
            or fnmatch.fnmatch(found.ready.machine.name.lower(), word.lower())
            or fnmatch.fnmatch(found.host.lower(), word.lower())
            for word in self.words
        )


def refuse_mixed(there: Mapping[int, Opened]) -> None:
    """Raise InputError where the times of these GPUs may not stand in one table; it says how to choose some."""
    kinds: dict[str, list[Opened]] = {}
    for _, found in sorted(there.items()):
        kinds.setdefault(found.ready.machine.name, []).append(found)
    if len(kinds) > 1:
        have = " and ".join(f"{len(some)} x {name} ({_hosts(some)})" for name, some in kinds.items())
        ways = " or ".join(f"--gpus '{name}'" for name in kinds)
        raise InputError(f"got {have}: times of different cards do not stand in one table; choose one with {ways}")
    first, *others = (there[number] for number in sorted(there))
    for other in others:
        if why := differs(first, other):
            raise InputError(f"{why}; choose hosts that are alike, with --gpus HOST, such as --gpus {first.host}")


def refuse_shared(there: Mapping[int, Opened], number: int, found: Opened) -> None:
    """Raise Unavailable where another actor has the GPU of this one: each would be slowed down by the other."""
    for other, one in there.items():
        if found.gpu and found.gpu == one.gpu:
            raise Unavailable(
                f"actors {other} and {number} have both got {found.gpu} on {found.host}, and a GPU that is timed must "
                f"have one; type `unset {NOT_SET}` where Ray is started, and start it again"
            )


def differs(first: Opened, other: Opened) -> str:
    """What forbids that times of two GPUs stand in one table; "" for nothing."""
    kinds = GPU_KINDS if first.ready.machine.device == "cuda" else KINDS
    found = comparable.machines(first.ready.machine, other.ready.machine, kinds)
    if found:
        one = found[0]
        return f"{one.what} is {one.old} on {first.host} and {one.new} on {other.host}"
    if first.commit and other.commit and first.commit != other.commit:
        return f"cudalab is that of commit {first.commit[:12]} on {first.host} and {other.commit[:12]} on {other.host}"
    return ""


def shared(there: Mapping[int, Opened]) -> Machine:
    """The machine of the results: that of the first GPU, without what is one card's own where there are several."""
    first, *others = (there[number] for number in sorted(there))
    machine = first.ready.machine
    details = {name: value for name, value in machine.details.items() if name != "card" or not others}
    return Machine(machine.device, machine.name, details, machine.versions)


def _hosts(some: list[Opened]) -> str:
    return ", ".join(dict.fromkeys(found.host for found in some))
