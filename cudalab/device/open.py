"""Opening a device by its name on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudalab.base.errors import InputError, Unavailable
from cudalab.device import cpu, cuda, driver
from cudalab.device.protocol import Device

if TYPE_CHECKING:
    from cudalab.device.gpu import Gpu


def open_device(choice: str, key: int | None = None) -> tuple[Device, str]:
    """(device, note) for `auto`, `cpu`, `cuda` or `cuda:N`.

    `key` is that of `open_gpu`. The note says why `auto` falls back to the CPU. Raises Unavailable if a GPU was asked
    for by name and cannot be used, InputError for another word.
    """
    check_name(choice)
    name, _, index = choice.partition(":")
    if name == "cpu":
        return cpu.Cpu(), "the CPU was asked for (--device cpu)"
    reason = cuda.missing()
    if name == "auto" and reason:
        return cpu.Cpu(), reason
    return open_gpu(int(index or 0), reason, key), ""


def check_name(choice: str) -> None:
    """Raise InputError for what names no device, whatever this machine has."""
    name, _, index = choice.partition(":") if isinstance(choice, str) else ("", "", "")
    number = not index or (name == "cuda" and index.isascii() and index.isdigit() and len(index) < 10)
    if name not in ("auto", "cpu", "cuda") or not number:
        raise InputError(f"no device {choice!r}; use auto, cpu, cuda or cuda:N")


def open_gpu(index: int, reason: str | None, key: int | None = None) -> Gpu:
    """GPU number `index`; `reason` is what `cuda.missing` returned. Raises Unavailable.

    `key`: 64 bits on which digests of its memory depend; None: drawn.
    """
    if reason:
        raise Unavailable(f"no GPU to use: {reason}; `cudalab doctor` says more, --device cpu runs on the CPU")
    count = driver.pycuda().Device.count()
    if index >= count:
        raise Unavailable(f"no GPU number {index}; give --device cuda:0 to cuda:{count - 1}")
    from cudalab.device.gpu import Gpu

    return Gpu(index, key)
