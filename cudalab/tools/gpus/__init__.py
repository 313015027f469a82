"""One run on several GPUs, of one host or of a Ray cluster: each group of variants stays on one GPU."""

from __future__ import annotations

from collections.abc import Callable

from cudalab.base.errors import InputError
from cudalab.engine.session import Session
from cudalab.tools.gpus.chosen import ALL, NONE
from cudalab.tools.gpus.several import over

__all__ = ["asked", "over"]


def asked(gpus: str, address: str, every: bool = False) -> dict[str, Callable[..., Session]]:
    """The `session` of a run with these options, or nothing for one GPU without Ray, as with `--gpus none`."""
    if gpus != NONE:
        return {"session": over(gpus or ALL, address, every)}
    if address or every:
        other = "--ray" if address else "--every-gpu"
        raise InputError(
            f"--gpus {NONE} is for one GPU without Ray, and {other} for several; leave out one of them (a run that was "
            "begun with --every-gpu is continued with Ray alone)"
        )
    return {}
