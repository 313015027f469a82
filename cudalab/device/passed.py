"""Scalars that a launch function passes on to the kernel as they are, whatever their values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NoReturn

from cudalab.spec.array_info import ArrayInfo
from cudalab.spec.kernel import Kernel, Launch

WIDEST = 4  # bytes of such a scalar; a number of 8 bytes may be an address, which `limits.refuse_addresses` looks at


class Looked(Exception):
    """A launch function did more with a scalar than to pass it on."""


class StandIn:
    """Stands for a scalar in a launch function, which can pass it on, and learns nothing of its value.

    `looked` remembers any use, also where the launch function catches what is raised.
    """

    __slots__ = ("_looked",)

    def __init__(self) -> None:
        self._looked = False

    def __getattribute__(self, name: str) -> Any:  # also of __class__, which isinstance() asks for
        _use(self)


def _use(stand_in: StandIn, *_: object) -> NoReturn:
    object.__setattr__(stand_in, "_looked", True)
    raise Looked


def looked(stand_in: StandIn) -> bool:
    return bool(object.__getattribute__(stand_in, "_looked"))


# What Python asks the type itself for: numbers, comparison, truth, text, and what NumPy looks for.
_UNARY = "bool int float complex index neg pos abs invert round trunc floor ceil str repr format hash bytes len iter"
_BINARY = "add sub mul truediv floordiv mod divmod pow lshift rshift and or xor matmul"
_OTHER = (
    "eq ne lt le gt ge getitem contains call array array_ufunc array_function array_priority reduce_ex copy deepcopy"
)
for _name in [*_UNARY.split(), *_OTHER.split(), *(f"{r}{n}" for n in _BINARY.split() for r in ("", "r", "i"))]:
    setattr(StandIn, f"__{_name}__", _use)


def on(
    kernel: Kernel, entry: str, known: Mapping[str, ArrayInfo], scalars: Mapping[str, Any]
) -> dict[str, list[dict[int, str]]]:
    """Those of all scalars that the launch function of `entry` passes on as they are, whatever their values.

    Each with its places: for every launch, the scalar's name by the number of the argument.
    """
    found: dict[str, list[dict[int, str]]] = {}
    real = kernel.unchecked_launches(entry, known, scalars)
    for name, value in scalars.items():
        if value.nbytes > WIDEST or name in kernel.length_scalars:
            continue
        stand_in = StandIn()
        try:
            every = kernel.unchecked_launches(entry, known, {**scalars, name: stand_in})
            same = len(every) == len(real) and all(
                map(_alike, every, real, [stand_in] * len(real), [value] * len(real))
            )
        except Exception:  # of the launch function, which computes with it, or of a grid that is the scalar
            continue
        if same and not looked(stand_in):
            found[name] = [{i: name for i, a in enumerate(one.args) if a is stand_in} for one in every]
    return found


def _alike(launch: Any, real: Any, stand_in: StandIn, value: Any) -> bool:
    """Whether a launch is the real one but for the stand-in of a scalar."""
    if not isinstance(launch, Launch) or not isinstance(real, Launch) or len(launch.args) != len(real.args):
        return False
    if replace(launch, args=()) != replace(real, args=()):
        return False
    return all(
        b is value if a is stand_in else a is b or (type(a) is type(b) and a.tobytes() == b.tobytes())
        for a, b in zip(launch.args, real.args, strict=True)
    )
