"""CUB's algorithms for whole arrays, through NVIDIA's `cuda.compute` (the package cuda-cccl), as the spec's `cub` says.

Each is made once by a `make_` function, which compiles it and says how much temporary memory it needs. A run is the
call of what was made, on memory that is there. An `api` call is the function that does all of this, `reduce_into` and
its like. They add in float32 where input and output are narrower.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np

from cudalab.base import advice, packages
from cudalab.base.errors import Unavailable
from cudalab.device import driver
from cudalab.device.arrays import DeviceArray, ForeignStream, installed, to_torch, torch_missing
from cudalab.device.operands import Bound, Operands, pieces, writing
from cudalab.spec import cub
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Kernel

devices = ("cuda",)
timed = True
budget = "peers"
own_indexing = True
library = "cuda-cccl"

KINDS = {"sum": "PLUS", "product": "MULTIPLIES", "min": "MINIMUM", "max": "MAXIMUM"}  # of `OpKind`


@cache
def missing(device: str) -> str | None:
    if not installed("cuda.compute"):
        return f"cuda.compute is not installed; {advice.packages('cuda-cccl[cu13]')}, or [cu12]"
    try:
        from cuda import compute

        compute.make_reduce_into  # noqa: B018 -- raises where it finds no driver
    except Exception as error:  # a broken installation raises what it likes
        return packages.broken("cuda-cccl", error)
    return None


def variants(kernel: Kernel) -> tuple[str, ...]:
    return ("",) if kernel.cub else ()


def bind(kernel: Kernel, variant: str, dtype: DType, operands: Operands) -> Bound:
    from cuda import compute

    assert kernel.cub is not None
    stream = ForeignStream(operands.stream.handle)
    form = _form(compute, kernel.cub, *_arrays(operands))

    def arguments(on: Operands) -> dict[str, Any]:
        return {**dict(zip(form.arrays, _arrays(on), strict=True)), **form.shared}

    made = form.make_call(arguments(operands))
    memory = _memory(made(temp_storage=None, **arguments(operands), **form.of_run, stream=stream))

    def prepare(on: Operands) -> Callable[[], object]:
        return partial(made, temp_storage=memory, **arguments(on), **form.of_run, stream=stream)

    def as_users_call(on: Operands) -> Callable[[], Any]:
        import torch

        given, like = (to_torch(array) for array in _arrays(on))
        function = getattr(compute, form.name)

        def call() -> Any:
            result = torch.empty_like(like)
            arrays = dict(zip(form.arrays, (given, result), strict=True))
            function(**arrays, **form.of_call, stream=stream)
            return result

        return call

    return writing(prepare, operands, None if torch_missing("cuda") else as_users_call)


@dataclass(frozen=True)
class Form:
    """How an algorithm is called: by the names that its functions give to the arguments."""

    name: str  # of the function that does it in one call
    make: Callable[..., Any]  # what makes it
    arrays: tuple[str, str]  # input and output
    shared: dict[str, Any]  # arguments of all three
    of_make: dict[str, Any]
    of_run: dict[str, Any]  # of a call of what was made
    of_call: dict[str, Any]  # of the one call, with the shared ones

    def make_call(self, arguments: dict[str, Any]) -> Any:
        return self.make(**arguments, **self.of_make)


def _form(compute: Any, words: tuple[Any, ...], given: DeviceArray, written: DeviceArray) -> Form:
    """The call of an algorithm on these arrays. Raises Unavailable where it cannot do it."""
    algorithm, *rest = words
    count = {"num_items": given.size}
    if algorithm.startswith("sort"):
        _same(algorithm, given, written)
        order = compute.SortOrder.DESCENDING if algorithm == "sort_descending" else compute.SortOrder.ASCENDING
        none = {"d_in_values": None, "d_out_values": None}
        return Form(
            "radix_sort", compute.make_radix_sort, ("d_in_keys", "d_out_keys"),
            none, {"order": order}, count, {**none, "order": order, **count},
        )  # fmt: skip
    if algorithm == "histogram":
        kind = given.dtype if given.dtype.kind == "f" else np.dtype(np.int32)
        lower, upper = (kind.type(limit) for limit in rest)
        levels = {
            "h_num_output_levels": np.array([written.size + 1], np.int32),
            "h_lower_level": np.array([lower]), "h_upper_level": np.array([upper]),
        }  # fmt: skip
        samples = {"num_samples": given.size}
        one = {"num_output_levels": written.size + 1, "lower_level": lower, "upper_level": upper, **samples}
        return Form(
            "histogram_even", compute.make_histogram_even, ("d_samples", "d_histogram"),
            {**levels, **samples}, {}, {}, one,
        )  # fmt: skip
    (operator,) = rest
    kind = cub.accumulator(given.dtype, written.dtype)
    first = np.array([cub.identity(operator, kind)], kind)
    op, arrays = {"op": getattr(compute.OpKind, KINDS[operator])}, ("d_in", "d_out")
    if algorithm in ("scan", "exclusive_scan"):
        _same(algorithm, given, written)
        name, start = f"{'inclusive_' if algorithm == 'scan' else ''}{algorithm}", {"init_value": first}
        shared = {**op, **start}
        return Form(name, getattr(compute, f"make_{name}"), arrays, shared, {}, count, {**shared, **count})
    shared = {**op, "h_init": first}
    if algorithm == "reduce":
        if written.size != 1:
            raise Unavailable(f"a reduction gives one element, and the output has {written.size:,}")
        return Form("reduce_into", compute.make_reduce_into, arrays, shared, {}, count, {**shared, **count})
    rows, columns = int(np.prod(given.shape[:-1])), given.shape[-1]
    if written.size != rows:
        raise Unavailable(f"a reduction of each row gives {rows:,} elements, and the output has {written.size:,}")
    begins = _on_device(np.arange(rows + 1, dtype=np.int64) * columns)
    ends = replace(begins, ptr=begins.ptr + begins.dtype.itemsize)
    shared |= {"start_offsets_in": replace(begins, shape=(rows,)), "end_offsets_in": replace(ends, shape=(rows,))}
    count = {"num_segments": rows}
    return Form("segmented_reduce", compute.make_segmented_reduce, arrays, shared, {}, count, {**shared, **count})


def _same(algorithm: str, given: DeviceArray, written: DeviceArray) -> None:
    if given.size != written.size:
        raise Unavailable(f"{algorithm} writes as many elements as it reads: {given.size:,}, not {written.size:,}")


def _arrays(on: Operands) -> tuple[DeviceArray, DeviceArray]:
    """The input and the output. Arrays of any dtype are taken as the lab's: the protocol of others has no bfloat16."""
    (given,), (written,) = on.inputs.values(), pieces(on.output)
    return given, written


def _memory(nbytes: int) -> DeviceArray:
    memory = driver.pycuda().mem_alloc(max(int(nbytes), 1))
    return DeviceArray((max(int(nbytes), 1),), np.dtype(np.uint8), int(memory), memory)


def _on_device(values: np.ndarray) -> DeviceArray:
    memory = _memory(values.nbytes)
    driver.write(memory.ptr, values.tobytes(), driver.current_context())
    return DeviceArray(values.shape, values.dtype, memory.ptr, memory.owner)
