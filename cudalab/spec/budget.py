"""How far an answer may be from the reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from cudalab.spec.validate import about, strict


@strict
@dataclass(frozen=True)
class Budget:
    """How far an output element may be from the float64 reference: |error| <= ulp * ULP(reference) + atol.

    ULP(reference) is the spacing of the output dtype's numbers at the reference's value. The error is measured against
    that value as it is, before it is rounded: rounding alone makes up to 0.5 ULP. The value that is rounded correctly
    is right by every budget.
    """

    ulp: float = field(
        metadata=about(
            "largest error in ULP; 0: only the correctly rounded value, with the sign of a zero; 0.5: also the other "
            "neighbour of a value that is halfway between two",
            advice="Budget(ulp), such as Budget(0.5)",
        )
    )
    atol: float | Callable[..., Any] = field(
        default=0.0,
        metadata=about(
            "absolute error that is allowed in addition; it needs a good reason, since it lets wrong kernels pass. "
            "A function of inputs and scalars, by name, returns it for each element: a sum may be off by a share of "
            "its terms, such as lambda x: 2**-24 * abs(x).sum(axis=1)",
            without="0",
        ),
    )
    why: str = field(default="", metadata=about("the reason for the numbers", without="none"))
    least: float = 0.0  # of a function `atol`: what it is at least, for inputs that are unusual

    @property
    def exact(self) -> bool:
        """Whether only the correctly rounded value is right, with the sign of a zero."""
        return not self.ulp and not callable(self.atol) and not self.atol

    def allows(self, error: np.ndarray, ulp: np.ndarray, atol: float | np.ndarray) -> np.ndarray:
        """By element, whether an error is within the budget. `ulp`: the size of a ULP; `atol`: what `atol` allows."""
        with np.errstate(all="ignore"):  # in place: new arrays cost more than the arithmetic
            most = self.ulp * ulp
            most += atol
            good: np.ndarray = error <= most
        return good

    def at_least(self, atol: float) -> Budget:
        """The budget with an absolute error that is no smaller than `atol`."""
        if callable(self.atol):
            return replace(self, least=max(self.least, atol))
        return replace(self, atol=max(self.atol, atol))
