"""The GPU for which launch parameters are tuned."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Card:
    """One model of GPU."""

    architecture: str  # the compute capability, such as 9.0
    name: str

    @property
    def target(self) -> str:
        """The architecture as nvcc names it: sm_90."""
        return f"sm_{self.architecture.replace('.', '')}"
