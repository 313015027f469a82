"""Limits and rates of GPU architectures, and numbers of the cards' data sheets; needs no GPU."""

from __future__ import annotations

import re
from dataclasses import dataclass

from cudalab.base.errors import unknown


@dataclass(frozen=True)
class Architecture:
    """One compute capability.

    The limits come from "Technical Specifications per Compute Capability" in the CUDA C++ Programming Guide. The rates
    are lanes (results of one thread) per cycle and SM, from "Throughput of Native Arithmetic Instructions" in the CUDA
    C++ Best Practices Guide. The load/store rates come from NVIDIA's white papers on the architectures.
    """

    name: str  # for nvcc
    warps: int  # most that an SM can hold
    blocks: int  # most that an SM can hold
    shared: int  # bytes per SM
    shared_block: int  # most bytes per block
    fp32: int  # lanes per cycle, as below
    fp16x2: int
    fp64: int
    load_store: int
    registers: int = 65536  # per SM, and most per block
    registers_unit: int = 256  # registers are allocated to a warp in multiples of this
    shared_unit: int = 128
    shared_reserved: int = 1024  # bytes per block that the system takes
    alu: int = 64  # comparisons, selections, logic, shifts, integer additions
    multiply: int = 64  # integer multiply-add
    special: int = 16  # exp2, reciprocal, ...; conversions
    shuffle: int = 32
    partitions: int = 4  # each issues one warp instruction per cycle

    @property
    def issue(self) -> int:
        """Lanes per cycle: one warp instruction from each partition."""
        return 32 * self.partitions


KIB = 1024
ARCHITECTURES = {
    a.name: a
    for a in (
        Architecture("sm_75", 32, 16, 64 * KIB, 64 * KIB, 64, 64, 2, 16, shared_unit=256, shared_reserved=0),
        Architecture("sm_80", 64, 32, 164 * KIB, 163 * KIB, 64, 128, 32, 32),
        Architecture("sm_86", 48, 16, 100 * KIB, 99 * KIB, 128, 64, 2, 16),
        Architecture("sm_87", 48, 16, 164 * KIB, 163 * KIB, 128, 64, 2, 16),
        Architecture("sm_89", 48, 24, 100 * KIB, 99 * KIB, 128, 64, 2, 16),
        Architecture("sm_90", 64, 32, 228 * KIB, 227 * KIB, 128, 128, 64, 32),
        Architecture("sm_100", 64, 32, 228 * KIB, 227 * KIB, 128, 128, 64, 32),
        Architecture("sm_120", 48, 24, 100 * KIB, 99 * KIB, 128, 64, 2, 16),
    )
}


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


def architecture(name: str) -> Architecture:
    """The architecture of a name such as sm_90, 90 or 9.0. Raises NotFound with the closest name."""
    plain = "sm_" + name.lower().removeprefix("sm_").removeprefix("compute_").replace(".", "")
    if plain not in ARCHITECTURES:
        raise unknown("architecture", name, ARCHITECTURES)
    return ARCHITECTURES[plain]


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
