"""What is known of GPUs without having one: limits and rates by architecture, and data sheets of cards."""

from __future__ import annotations

import re
from dataclasses import dataclass

from cudalab.base.errors import unknown


@dataclass(frozen=True)
class Architecture:
    """One compute capability.

    Limits are of "Technical Specifications per Compute Capability" in the CUDA C++ Programming Guide; rates, in lanes
    (results of one thread) a cycle and SM, of "Throughput of Native Arithmetic Instructions" in the CUDA C++ Best
    Practices Guide; load and store units are of NVIDIA's white papers on the architectures.
    """

    name: str  # as nvcc has it
    warps: int  # that can be resident on an SM
    blocks: int
    shared: int  # bytes of an SM
    shared_block: int  # bytes that a block can have at most
    fp32: int  # lanes a cycle
    fp16x2: int
    fp64: int
    load_store: int
    registers: int = 65536  # of an SM, and what one block can have
    registers_unit: int = 256  # a warp's registers are handed out in such pieces
    shared_unit: int = 128
    shared_reserved: int = 1024  # bytes that the system takes of each block's
    alu: int = 64  # comparisons, selections, logic, shifts, integer additions
    multiply: int = 64  # integer multiply-add
    special: int = 16  # exp2, reciprocal, ...; conversions
    shuffle: int = 32
    partitions: int = 4  # each issues a warp instruction a cycle

    @property
    def issue(self) -> int:
        """Lanes a cycle: a warp instruction from each partition."""
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
    """A product: what its data sheet says, and what this lab has measured on it."""

    name: str
    architecture: str
    sms: int
    clock: float  # Hz, the highest
    bandwidth: float  # bytes a second, of the data sheet
    source: str
    start: float | None = None  # seconds from the start of one block to that of the next, on the whole GPU
    life: float | None = None  # seconds from a block's start to its end, if it loads once from memory and stores

    def __str__(self) -> str:
        return self.name


# Both measured on an H200 (bench/results/h200), less the 2.6 us of an empty kernel. Small blocks start every 0.606 ns:
# 602,112 of 64 threads take 367.4 us (gelu_vec in threads/64.json). Of 256 threads 8 are resident on each of 132 SMs,
# and 1,048,576 of them take 801.7 us (plus_one_scalar in plus_one.json): each lives 0.805 us.
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
    """Of a name such as sm_90, 90 or 9.0; raises NotFound with the closest one."""
    plain = "sm_" + name.lower().removeprefix("sm_").removeprefix("compute_").replace(".", "")
    if plain not in ARCHITECTURES:
        raise unknown("architecture", name, ARCHITECTURES)
    return ARCHITECTURES[plain]


def card(name: str) -> Card:
    """Of a name such as H200, rtx4090 or RTX 4090; raises NotFound with the closest one."""
    plain = _plain(name)
    found = next((c for c in CARDS.values() if _plain(c.name) == plain), None)
    if found is None:
        raise unknown("card", name.upper(), CARDS)
    return found


_NOT_A_NAME = re.compile(r"(?i)NVIDIA|GeForce|Tesla|\d+GB|HBM\w*|SXM\d*")


def of_machine(name: str) -> Card | None:
    """The card that the driver calls `name`, such as NVIDIA A100-SXM4-80GB; None if it is not known here."""
    words = [word for word in re.split(r"[\s-]+", name) if not _NOT_A_NAME.fullmatch(word)]
    return next((c for c in CARDS.values() if _plain(c.name) == _plain("".join(words))), None)


def _plain(name: str) -> str:
    return "".join(char for char in name.lower() if char.isalnum())
