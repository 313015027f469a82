"""What else than plain inputs a kernel takes: outputs of their own dtype, scalars, workspaces."""

# ruff: noqa: RUF009 -- optional() makes a dataclass field
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cudalab.base.errors import SpecError, short
from cudalab.spec import validate
from cudalab.spec.dimensions import Dimensions, numbers
from cudalab.spec.dimensions import fits as words
from cudalab.spec.dtype import DTYPES
from cudalab.spec.inputs import draw
from cudalab.spec.launch import Shape
from cudalab.spec.validate import function, optional, or_none, strict

_DTYPE = (lambda value: value == "" or value in DTYPES), f"one of {', '.join(DTYPES)}"
_NUMBER = or_none(lambda value: isinstance(value, (int, float)) and not isinstance(value, bool)), "a number, or None"


def _number(value: Any) -> bool:
    return isinstance(value, (int, float, np.generic))


_END = (
    or_none(lambda v: (isinstance(v, (int, float)) and not isinstance(v, bool)) or (isinstance(v, str) and words(v))),
    "a number, or words such as 'rows'",
)


class _Checked:
    def __post_init__(self) -> None:
        if wrong := validate.first_wrong(self, validate.checks(type(self))):  # type: ignore[arg-type]
            raise SpecError(f"{type(self).__name__}: {wrong}")


@strict
@dataclass(frozen=True)
class Out(_Checked):
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
    budgets: Any = optional(
        "`Budget`, or one by dtype of the kernel", or_none(validate.budgets), "a Budget, or one by dtype, or None",
        without="the kernel's `budgets`",
    )  # fmt: skip
    peers: Any = optional(
        "`Budget`, or one by dtype of the kernel, for what other libraries compute",
        or_none(validate.budgets), "a Budget, or one by dtype, or None",
        without="its `budgets`, or the kernel's `peers`",
    )  # fmt: skip
    check: Callable[..., Any] | None = optional(
        "for random outputs: takes this output and inputs by name, returns True or a text that says what is wrong",
        *function("the output and inputs"), without="the reference decides",
    )  # fmt: skip


@strict
@dataclass(frozen=True)
class In(_Checked):
    """The dtype and the values of an input, where these are not the usual ones."""

    dtype: str = optional("its dtype", *_DTYPE, default="", without="the kernel's")
    low: float | str | None = optional(
        "the least value: a number, or words such as 'rows' of the dimensions", *_END, without="0 if there is a high"
    )
    high: float | str | None = optional(
        "upper bound, itself excluded; values are uniform from low to high, the least and the largest among them",
        *_END,
        without="normal values; integers of the whole range of their dtype",
    )  # fmt: skip

    def drawn(self, shape: Shape, kernel: np.dtype, rng: np.random.Generator, lengths: Dimensions) -> np.ndarray:
        """Values for a kernel of a dtype; `lengths`: those of the named dimensions."""
        kind = DTYPES[self.dtype].numpy if self.dtype else kernel
        if self.high is None:
            return draw(shape, kind, rng)
        low, high = self._ends(lengths)
        if kind.kind in "iu":
            least, most = int(low), max(int(high) - 1, int(low))
            return _with_ends(rng.integers(least, most, shape, kind, endpoint=True), least, most, rng)
        values = rng.uniform(low, high, shape).astype(kind)
        if kind.kind in "bc":
            return values
        last = _below(high, low, kind)  # rounding may have reached `high`
        return _with_ends(np.minimum(values, np.asarray(last).astype(kind)), low, last, rng)

    def last(self, lengths: Dimensions) -> int | None:
        """The largest of integers between ends, such as the last index; None where the spec names no end."""
        whole = self.dtype and DTYPES[self.dtype].numpy.kind in "iu"
        return int(self._ends(lengths)[1]) - 1 if whole and self.high is not None else None

    def _ends(self, lengths: Dimensions) -> tuple[float, float]:
        low, high = (
            numbers(end, lengths)[0] if isinstance(end, str) else end for end in (self.low or 0, self.high or 0)
        )
        return low, high


def _with_ends(values: np.ndarray, low: float, last: float, rng: np.random.Generator) -> np.ndarray:
    """The values, with the least and the largest that they may be at two random places: an index bug is at an end."""
    if values.size > 1:
        at = int(rng.integers(values.size))
        values.reshape(-1)[[at, (at + int(rng.integers(1, values.size))) % values.size]] = low, last
    return values


def _below(high: float, low: float, kind: np.dtype) -> float:
    """The largest value of a floating-point dtype that is less than `high`, and not below `low`."""
    end, start = np.asarray(high).astype(kind), np.asarray(low).astype(kind)
    return float(end if float(end) < high else np.nextafter(end, start))


@strict
@dataclass(frozen=True)
class Scalar(_Checked):
    """A number that a kernel takes by value, such as `eps`. Both sides get it rounded to its dtype.

    `value` is a number, or a function of inputs by name, of which only shapes and dtypes may be used. A check also runs
    the kernel with another value: with one of `others`, or with one that it chooses (`checks/other_scalars.py`).
    """

    value: Any = optional(
        "a number, or a function of inputs", lambda v: callable(v) or _number(v),
        "a number or a function of inputs", default=0, without="0",
    )  # fmt: skip
    dtype: str = optional("its dtype", *_DTYPE, default="float32", without="float32")
    others: Any = optional(
        "other values that a check tries: a tuple of numbers, () for none, or a function of inputs that returns one",
        or_none(lambda v: callable(v) or (isinstance(v, tuple) and all(map(_number, v)))),
        "a tuple of numbers, such as (1, 8), a function of inputs, or None", without="the check chooses",
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        for value in self.others if isinstance(self.others, tuple) else ():
            self.rounded(value, "among others")

    def others_of(self, arrays: Mapping[str, Any], name: str) -> tuple[np.generic, ...]:
        """The values of `others` for these inputs, in its dtype. SpecError where `others` returns anything else."""
        given = validate.called_with(self.others, arrays) if callable(self.others) else self.others
        if not isinstance(given, tuple) or not all(map(_number, given)):
            raise SpecError(f"the scalar {name}: others returns {short(given)}; return a tuple of numbers")
        return tuple(self.rounded(value, name) for value in given)

    def evaluate(self, arrays: Mapping[str, Any], name: str) -> np.generic:
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
class Work(_Checked):
    """An array that a kernel writes and reads for itself; it is poisoned before each launch, or filled."""

    dtype: str = optional("its dtype", *_DTYPE, default="", without="the kernel's")
    fill: float | None = optional("what it holds before each launch, such as 0", *_NUMBER, without="poison")
