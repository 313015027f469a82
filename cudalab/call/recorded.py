"""A call as PyTorch records it: through the operator `torch.ops.cudalab.NAME`. torch.compile reads this module."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from cudalab.base.errors import InputError, short

# The operator's name; the inputs and the scalars, in its order; for each output the place of the input that it updates,
# or -1 for a new array. A tuple, which torch.compile takes for a constant.
Layout = tuple[str, tuple[str, ...], tuple[str, ...], tuple[int, ...]]


def other_number(name: str, inputs: Sequence[str], scalars: Iterable[str], given: Sequence[Any]) -> InputError:
    """The error for a call with more or fewer arrays than it takes."""
    count = f"{len(inputs)} array{'s' * (len(inputs) > 1)}"
    more = given[len(inputs) :]
    numbers = [one for one in more if isinstance(one, (int, float, np.number))]
    pairs = [f"{scalar}={short(number)}" for scalar, number in zip(scalars, numbers, strict=False)]
    advice = f"; pass {', '.join(pairs)}" if pairs and len(numbers) == len(more) else ""
    return InputError(f"{name}({', '.join(inputs)}) takes {count}, got {len(given)}{advice}")


def call(layout: Layout, arrays: tuple[Any, ...], out: Any, scalars: Mapping[str, Any]) -> Any:
    """Run the operator; returns what a call of the kernel returns. Raises InputError for arguments that do not fit."""
    import torch

    name, inputs, taken, places = layout
    if len(arrays) != len(inputs):
        raise other_number(name, inputs, taken, arrays)
    for given in scalars:
        if given not in taken:
            raise InputError(f"{name} takes no {given!r}; its scalars: {', '.join(taken) or 'none'}")
    found = getattr(torch.ops.cudalab, name)(*arrays, *[scalars.get(one) for one in taken])
    new = [] if found is None else list(found) if isinstance(found, (tuple, list)) else [found]
    if out is not None:
        targets = list(out) if isinstance(out, (tuple, list)) else [out]
        if len(targets) != len(new):
            raise InputError(f"out has {len(targets)} arrays; {name} gives {len(new)}")
        new = [target.copy_(one) for target, one in zip(targets, new)]
    results, k = [], 0
    for place in places:
        if place < 0:
            results.append(new[k])
            k += 1
        else:
            results.append(arrays[place])
    return results[0] if len(results) == 1 else tuple(results)
