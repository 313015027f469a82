"""Numbers of the cards' data sheets; needs no GPU."""

from __future__ import annotations

import re
from dataclasses import dataclass

from cudalab.base.errors import unknown


@dataclass(frozen=True)
class Card:
    """A product: numbers from its data sheet, and two that this lab measured."""

    name: str
    architecture: str
    sms: int
    clock: float  # Hz, the highest
    bandwidth: float  # bytes per second, from the data sheet
    source: str
    start: float | None = None  # seconds between the starts of two blocks, on the whole GPU
    life: float | None = None  # seconds from start to end of a block that loads once from memory and stores


# Measured on an H200 (bench/results/h200); the 2.6 us of an empty kernel are subtracted.
# start: 602,112 blocks of 64 threads take 367.4 us (gelu_vec in threads/64.json), 0.606 ns each.
# life: 1,048,576 blocks of 256 threads take 801.7 us (plus_one_scalar in plus_one.json). Each of 132 SMs holds 8 blocks
# at once, so a block lives for 0.805 us.
_H200 = {"start": 0.606e-9, "life": 0.805e-6}

CARDS = {
    c.name: c
    for c in (
        Card("H200", "sm_90", 132, 1.98e9, 4.8e12, "NVIDIA H200 Tensor Core GPU data sheet (SXM)", **_H200),
        Card("H100", "sm_90", 132, 1.98e9, 3.35e12, "NVIDIA H100 Tensor Core GPU data sheet (SXM)"),
        Card("H100-PCIe", "sm_90", 114, 1.755e9, 2.0e12, "NVIDIA H100 Tensor Core GPU data sheet (PCIe)"),
        Card("A100", "sm_80", 108, 1.41e9, 2.039e12, "NVIDIA A100 Tensor Core GPU data sheet (SXM, 80 GB)"),
        Card("B200", "sm_100", 148, 1.965e9, 8.0e12, "NVIDIA DGX B200 data sheet, an eighth of it"),
        Card("L4", "sm_89", 58, 2.04e9, 300e9, "NVIDIA L4 Tensor Core GPU data sheet"),
        Card("L40S", "sm_89", 142, 2.52e9, 864e9, "NVIDIA L40S data sheet"),
        Card("A10", "sm_86", 72, 1.695e9, 600e9, "NVIDIA A10 Tensor Core GPU data sheet"),
        Card("T4", "sm_75", 40, 1.59e9, 320e9, "NVIDIA T4 data sheet"),
        Card("RTX3090", "sm_86", 82, 1.695e9, 936e9, "NVIDIA Ampere GA102 white paper"),
        Card("RTX4090", "sm_89", 128, 2.52e9, 1008e9, "NVIDIA Ada GPU architecture white paper"),
        Card("RTX5090", "sm_120", 170, 2.407e9, 1792e9, "NVIDIA RTX Blackwell GPU architecture white paper"),
    )
}


def card(name: str) -> Card:
    """The card of a name such as H200, rtx4090 or RTX 4090. Raises NotFound with the closest name."""
    plain = _plain(name)
    found = next((c for c in CARDS.values() if _plain(c.name) == plain), None)
    if found is None:
        raise unknown("card", name.upper(), CARDS)
    return found


_NOT_A_NAME = re.compile(r"(?i)NVIDIA|GeForce|Tesla|\d+GB|HBM\w*|SXM\d*")


def of_machine(name: str) -> Card | None:
    """The card of a driver's name such as NVIDIA A100-SXM4-80GB; None if CARDS lacks it."""
    words = [word for word in re.split(r"[\s-]+", name) if not _NOT_A_NAME.fullmatch(word)]
    return next((c for c in CARDS.values() if _plain(c.name) == _plain("".join(words))), None)


def _plain(name: str) -> str:
    return "".join(char for char in name.lower() if char.isalnum())
