"""NumPy: the spec's reference, in float32 where neither input nor output is wider. The slow, obvious baseline."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from cudalab.base.errors import Unavailable
from cudalab.device.operands import Bound, Operands, returning
from cudalab.spec import reference
from cudalab.spec.dtype import DType, foreign
from cudalab.spec.kernel import Kernel

devices = ("cpu",)
timed = True
budget = "peers"
own_indexing = False


def missing(device: str) -> str | None:
    return None


def variants(kernel: Kernel) -> tuple[str, ...]:
    return ("",)


def bind(kernel: Kernel, variant: str, dtype: DType, operands: Operands) -> Bound:
    if decided := [name for name, out in kernel.outs.items() if out.check]:
        raise Unavailable(f"{decided[0]} is judged by a check=, so there is no reference to run")
    kinds = [precision(a.dtype, dtype) for a in operands.inputs.values()]
    scalars = reference.plain(operands.scalars)
    own_copies = False  # whether the reference changes its inputs

    def work(*arrays: np.ndarray) -> Any:
        nonlocal own_copies
        with np.errstate(all="ignore"):  # the check judges NaN and overflow
            if not own_copies:
                try:
                    result = results([_read_only(a, kind) for a, kind in zip(arrays, kinds, strict=True)])
                except ValueError:  # NumPy's, of an array that is read-only; any other is raised again
                    own_copies = True
            if own_copies:
                result = results([a.astype(kind) for a, kind in zip(arrays, kinds, strict=True)])
            found = [r.copy() if any(np.may_share_memory(r, a) for a in arrays) else r for r in result.values()]
            return found[0] if len(found) == 1 else tuple(found)

    def results(arrays: list[np.ndarray]) -> dict[str, np.ndarray]:
        values = {**dict(zip(operands.inputs, arrays, strict=True)), **scalars}
        every, found = reference.of_kernel(kernel, values), dict[str, np.ndarray]()
        for name in kernel.outs:
            if name in every:
                one = every[name]
            else:  # a later output follows from earlier ones as they were rounded
                earlier = {
                    n: found[n].astype(precision(found[n].dtype, dtype)) for n in reference.on_earlier(kernel, name)
                }
                one = reference.of_output(kernel, name, values | earlier)
            found[name] = np.asarray(one, order="C").astype(kernel.kind_of(name, dtype).numpy, copy=False)
        return found

    return returning(work, lambda on: list(on.inputs.values()), operands)


def precision(kind: np.dtype, output: DType) -> np.dtype:
    """Return in which dtype the reference computes an input of dtype `kind`: none narrower than that of its output."""
    if kind.kind in "biu":
        return kind
    known = kind.kind in "fc" and not foreign(kind)
    widths = [np.dtype(np.float32), kind if known else np.dtype(np.float32)]
    if output.floating and output.numpy.kind in "fc" and not foreign(output.numpy):
        widths.append(output.numpy)
    return np.result_type(*widths)


def computes_in(kinds: Iterable[np.dtype], output: DType) -> str:
    """The widest floating-point dtype in which the reference computes with these inputs; "" if they are integers."""
    found = [precision(kind, output) for kind in kinds if kind.kind not in "biu"]
    return np.result_type(*found).name if found else ""


def _read_only(array: np.ndarray, kind: np.dtype) -> np.ndarray:
    view = array.astype(kind, copy=False).view()
    view.flags.writeable = False
    return view
