"""What else than plain inputs a kernel takes: outputs of their own dtype, scalars, workspaces."""

# ruff: noqa: RUF009 -- optional() makes a dataclass field
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cudalab.base.errors import SpecError, short
from cudalab.spec import validate
from cudalab.spec.dtype import DTYPES
from cudalab.spec.validate import by_name, function, optional, or_none, strict

_DTYPE = (lambda value: value == "" or value in DTYPES), f"one of {', '.join(DTYPES)}"
_NUMBER = or_none(lambda value: isinstance(value, (int, float)) and not isinstance(value, bool)), "a number, or None"


@strict
@dataclass(frozen=True)
class Out:
    """One of several outputs.

    An output whose reference takes an input of its own name is updated in place: it gets fresh contents before each
    check and each timed run.
    """

    reference: Callable[..., Any] | None = optional(
        "NumPy function that decides what is right; it may take earlier outputs by name, as the kernel rounded them",
        *function("inputs, scalars and earlier outputs"), without="an item of what the kernel's `reference` returns",
    )  # fmt: skip
    dtype: str = optional("its dtype", *_DTYPE, default="", without="the kernel's")
    fill: float | None = optional("what it holds before each launch, such as 0", *_NUMBER, without="poison")
    budgets: Mapping[str, Any] | None = optional(
        "dtype of the kernel to `Budget`", or_none(by_name(validate.budget)), "a Budget by dtype, or None",
        without="the kernel's `budgets`",
    )  # fmt: skip
    check: Callable[..., Any] | None = optional(
        "for random outputs: from this output and inputs by name, True or a text that says what is wrong",
        *function("the output and inputs"), without="the reference decides",
    )  # fmt: skip


@strict
@dataclass(frozen=True)
class Scalar:
    """A number that a kernel takes by value, such as `eps`. Both sides get it rounded to its dtype.

    `value` is a number, or a function of inputs by name, of which only shapes and dtypes may be used.
    """

    value: Any = optional(
        "a number, or a function of inputs", lambda v: callable(v) or isinstance(v, (int, float, np.generic)),
        "a number or a function of inputs", default=0, without="0",
    )  # fmt: skip
    dtype: str = optional("its dtype", *_DTYPE, default="float32", without="float32")

    def of(self, arrays: Mapping[str, Any], name: str) -> np.generic:
        """The number for these inputs, in its dtype. SpecError where the dtype cannot hold it."""
        given = validate.called_with(self.value, arrays) if callable(self.value) else self.value
        return self.rounded(given, name)

    def rounded(self, given: Any, name: str) -> np.generic:
        kind = DTYPES[self.dtype].numpy
        try:
            whole = np.issubdtype(kind, np.integer)
            if whole and (int(given) != given or not np.iinfo(kind).min <= given <= np.iinfo(kind).max):
                raise ValueError
            with np.errstate(over="ignore"):
                return kind.type(np.asarray(given).astype(kind)[()])
        except (TypeError, ValueError, OverflowError):
            raise SpecError(f"the scalar {name} is {short(given)}; give a number that fits {self.dtype}") from None


@strict
@dataclass(frozen=True)
class Work:
    """An array that a kernel writes and reads for itself; it is poisoned before each launch, or filled."""

    dtype: str = optional("its dtype", *_DTYPE, default="", without="the kernel's")
    fill: float | None = optional("what it holds before each launch, such as 0", *_NUMBER, without="poison")
