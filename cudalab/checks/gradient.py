"""Whether the `backward` of a spec gives the gradient: it is compared with differences of the reference.

An element of a gradient is the derivative of sum(dy * y) by an element of the input, for random dy, summed over the
outputs. Central differences of the float64 reference have it to about nine digits, at a shape of few elements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from cudalab.base.errors import Unavailable, message_of
from cudalab.checks.expected import Expected, results, wide
from cudalab.spec import reference
from cudalab.spec.dtype import DTYPES, DType
from cudalab.spec.kernel import Arrays, Kernel
from cudalab.spec.validate import called_with

SMALL = 256  # elements of the largest array, at most
STEP = 2.0**-17  # of a difference, relative to the larger one of 1 and the element
SHOWN = 3  # elements quoted
NOT = "backward was not checked: "

ToLibrary = Callable[[np.ndarray], Any]
FromLibrary = Callable[[Any], Any]


def due(kernel: Kernel, dtype: DType) -> bool:
    """Whether the gradient is checked in this dtype: float32 where the kernel has it, else its first one."""
    chosen = "float32" if "float32" in kernel.dtypes else kernel.dtypes[0]
    return kernel.backward is not None and dtype.name == chosen


def check(
    kernel: Kernel, dtype: DType, seed: int, to_library: ToLibrary, from_library: FromLibrary
) -> tuple[str, list[str]]:
    """What is wrong with the gradients that `backward` returns, "" for nothing, and what to note.

    `to_library` and `from_library` turn an array into what `backward` takes, and what it returns into an array.
    """
    small = kernel.small((*kernel.edges, *kernel.sizes.values()), SMALL)
    shapes = [shape for shape in small if kernel.elements(shape) <= SMALL]
    if not shapes:
        return "", [f"{NOT}no size has at most {SMALL} elements; give a small one in edges"]
    if judged := next((name for name, out in kernel.outs.items() if out.check), None):
        return "", [f"{NOT}{judged} has no reference"]
    if late := next((name for name in kernel.outs if reference.on_earlier(kernel, name)), None):
        return "", [f"{NOT}the reference of {late} takes an earlier output"]  # rounded: no differences can be taken
    given = kernel.make(shapes[-1], dtype, seed)
    if odd := next((name for name, array in given.items() if array.dtype.kind == "c"), None):
        return "", [f"{NOT}{odd} is complex"]
    ys, rng = results(kernel, dtype, Expected(kernel, given)), np.random.default_rng(seed)
    kinds = {name: kernel.kind_of(name, dtype) for name in kernel.outs}
    dys = {name: rng.standard_normal(y.shape).astype(kinds[name].numpy) for name, y in ys.items()}
    dys = {name: dy if kinds[name].floating else np.zeros_like(dy) for name, dy in dys.items()}
    outputs = {name: y.astype(kinds[name].numpy) for name, y in ys.items()}
    values = given | outputs | dict(zip(kernel.gradient_names, (dys[name] for name in kernel.outs), strict=True))
    numbers = reference.plain(kernel.scalars_of(given))
    try:
        assert kernel.backward is not None
        found = called_with(kernel.backward, {n: to_library(array.copy()) for n, array in values.items()} | numbers)
    except Unavailable as error:
        return "", [f"{NOT}{error}"]
    except Exception as error:  # the spec's own
        return f"backward fails: {message_of(error)}", []
    found = found if isinstance(found, tuple) else (found,)
    if len(found) != len(given):
        return f"backward returns {len(found)} gradients, expected one for each of {', '.join(given)}", []
    slopes = differences(kernel, dtype, given, dys)
    notes = [
        f"backward returns None for {name}, on which the result depends"
        for name, one in zip(given, found, strict=True)
        if one is None and name in slopes and np.nanmax(np.abs(slopes[name]), initial=0.0) > 0
    ]
    notes += [
        f"the gradient of {name} was not checked: the reference has no slope where the check tries it"
        for name, one in zip(given, found, strict=True)
        if one is not None and name in slopes and slopes[name].size and np.isnan(slopes[name]).all()
    ]
    got = {name: from_library(one) for name, one in zip(given, found, strict=True) if one is not None}
    faults = (fault(name, got[name], slopes[name], dtype) for name in got if name in slopes)
    return next(filter(None, faults), ""), notes


def differences(kernel: Kernel, dtype: DType, given: Arrays, dys: Mapping[str, np.ndarray]) -> Arrays:
    """The gradient of sum(dy * y) by each floating-point input; NaN where the reference has a kink or no value."""

    def loss(arrays: Arrays) -> Any:
        terms = [
            wide(dys[name]) * y for name, y in results(kernel, dtype, Expected(kernel, arrays)).items() if name in dys
        ]
        return sum(terms) if kernel.pointwise else sum(float(term.sum()) for term in terms)

    exact = {name: wide(array) for name, array in given.items()}
    middle, found = loss(exact), Arrays()
    for name, x in exact.items():
        if not (known := DTYPES.get(given[name].dtype.name)) or not known.floating:
            continue
        sides = np.empty((2, *x.shape))
        with np.errstate(all="ignore"):
            step = STEP * np.maximum(1, np.abs(x))
            for side, moved in zip(sides, (x + step, x - step), strict=True):
                if kernel.pointwise:
                    side[...] = loss(exact | {name: moved})
                    continue
                for at in np.ndindex(x.shape):
                    one = x.copy()
                    one[at] = moved[at]
                    side[at] = loss(exact | {name: one})
            up, down = (sides[0] - middle) / step, (middle - sides[1]) / step
            largest = np.nanmax(np.where(np.isfinite(up), np.abs(up), 0), initial=0.0)
            smooth = np.abs(up - down) <= 0.01 * np.maximum(np.abs(up), 0.01 * largest)
            found[name] = np.where(smooth, (up + down) / 2, np.nan)
    return found


def fault(name: str, got: np.ndarray, slopes: np.ndarray, dtype: DType) -> str:
    """Where a gradient is off by more than its dtype explains, relative to its largest element; "" for nowhere."""
    if got.shape != slopes.shape:
        return f"backward: the gradient of {name} has the shape {got.shape}, expected {slopes.shape}, that of {name}"
    share = max(1e-3, 8 * 2.0 ** -(dtype.precision or 24))
    largest = float(np.nanmax(np.abs(slopes), initial=0.0))
    with np.errstate(all="ignore"):
        off = ~(np.abs(wide(got) - slopes) <= share * max(largest, 1e-6)) & ~np.isnan(slopes)
    if not off.any():
        return ""
    places = [tuple(map(int, at)) for at in np.argwhere(off)[:SHOWN]]
    shown = "; ".join(f"{list(at)} got {float(got[at]):.6g}, want {float(slopes[at]):.6g}" for at in places)
    return (
        f"backward: the gradient of {name} is wrong: {np.count_nonzero(off):,} of {off.size:,} elements differ from "
        f"differences of the reference by more than {100 * share:.2g} % of the largest: {shown}"
    )
