"""Whether a spec can tell a right output from one that holds nothing: zeros, random bytes, or an earlier result."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cudalab.base.errors import SpecError
from cudalab.checks import parity
from cudalab.checks.expected import Expected, results
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Arrays, Kernel

ZEROS = "an output of zeros would be right for {}: {}"
BY_REFERENCE = "the reference gives nothing else for these inputs"
BY_BUDGET = "its budget allows it; is `atol` too large?"
CONSTANT = "the reference gives the same for other inputs: a kernel that reads none of them would be right"
NO_PART = "the result does not depend on {}, as far as the inputs show: a kernel that does not read {} would be right"


def refuse(kernel: Kernel, dtype: DType, arrays: Arrays, seed: int) -> None:
    """Raise SpecError for a check= that accepts both zeros and random bytes: it cannot fail."""
    names = [name for name, out in kernel.outs.items() if out.check]
    if not names:
        return
    shapes = {name: array.shape for name, array in arrays.items()}
    rng, expected = np.random.default_rng(seed), Expected(kernel, arrays)
    zeros, noise = _zeros(kernel, dtype, shapes), dict[str, np.ndarray]()
    for name, array in zeros.items():
        noise[name] = np.frombuffer(rng.bytes(array.nbytes), np.uint8).view(array.dtype).reshape(array.shape)
    for name in names:
        if zeros[name].size and all(_accepts(kernel, dtype, name, got, expected, arrays) for got in (zeros, noise)):
            raise SpecError(
                f"{kernel.file}: the check of {name} accepts zeros, and random bytes: it cannot fail; let it look at "
                f"the values, give {name} a reference, or make it a workspace"
            )


def zeros_pass(kernel: Kernel, dtype: DType, expected: Expected, wanted: Arrays) -> list[str]:
    """Which outputs would be right if they were zeros, of those that `wanted` has the right values of."""
    found = []
    for name, want in wanted.items():
        kind, budget = kernel.kind_of(name, dtype), kernel.budget(dtype, output=name)
        zeros, atol = np.zeros(want.shape, kind.numpy), expected.atol(name, budget)
        if want.size and parity.compare(zeros, want, kind, budget, atol=atol).ok:
            found.append(ZEROS.format(name, BY_BUDGET if np.any(want) else BY_REFERENCE))
    return found


def idle(kernel: Kernel, dtype: DType, given: Arrays, other: Arrays, wanted: Arrays) -> list[str]:
    """Which inputs play no part in what the reference gives. `other`: drawn anew; `wanted`: the results for `given`."""
    if not wanted or any(out.check for out in kernel.outs.values()):
        return []

    def moves(*names: str) -> bool:
        arrays = given | {name: other[name] for name in names}
        try:
            found = results(kernel, dtype, Expected(kernel, arrays))
        except Exception:  # inputs that belong together, such as the rows of a sparse matrix and its values
            return True
        return any(not _same(found[n], want) for n, want in wanted.items())

    drawn = [name for name in given if not _same(given[name], other[name])]
    still = [name for name in drawn if not moves(name)]
    if drawn and still == drawn and not moves(*drawn):
        return [CONSTANT]
    return [NO_PART.format(name, name) for name in still]


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    return one.shape == other.shape and bool(((one == other) | ((one != one) & (other != other))).all())


def _zeros(kernel: Kernel, dtype: DType, shapes: Mapping[str, tuple[int, ...]]) -> Arrays:
    return {name: np.zeros(kernel.shape_of(name, shapes), kernel.kind_of(name, dtype).numpy) for name in kernel.outs}


def _accepts(
    kernel: Kernel, dtype: DType, name: str, got: Mapping[str, np.ndarray], expected: Expected, arrays: Arrays
) -> bool:  # fmt: skip
    try:
        return parity.judged(kernel, dtype, name, kernel.budget(dtype, output=name), got, expected, arrays).ok
    except Exception:  # the check's own: it accepts only what makes sense
        return False
