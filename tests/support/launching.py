"""Launches that are tried on a GPU and on its stand-in: names of C++, cooperative ones, clusters, shared memory."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import specs
from cpu_rows import rows

from cudalab.device import constants, cuda, driver, launch
from cudalab.engine.check_plan import checks
from cudalab.results import record
from cudalab.spec import find
from cudalab.spec.dtype import dtype
from cudalab.spec.kernel import Kernel, Launch

DATA = Path(__file__).parents[1] / "data" / "launch"
X = np.arange(64, dtype=np.float32)


def assert_parity(device: Any, name: str, *only: str) -> None:
    """Every row of a kernel of `tests/data/launch` is right; CuPy may be absent."""
    for group in checks([str(DATA / f"{name}.py")], "all"):
        for case in rows(device, group, *only):
            skipped = case.status == record.SKIPPED and case.label.startswith("cupy")
            assert case.status == record.OK or skipped, f"{case.label}: {case.reason}"


def assert_in_a_graph_and_in_a_call(device: Any, name: str, entry: str) -> None:
    """An entry is right on the stream, captured in a graph, and called from Python."""
    kernel, kind = find.kernel(str(DATA / f"{name}.py")), dtype("float32")
    given = kernel.make(next(iter(kernel.sizes.values())), kind)
    operands = device.place(kernel, kind, given)
    arrays, stream = operands.by_name(kernel), operands.stream.handle
    expected = np.asarray(kernel.reference(**{n: a.astype(np.float64) for n, a in given.items()}))
    on_stream = launch.on_stream(kernel, entry, kind, operands)

    def captured() -> None:
        driver.begin_capture(stream)
        on_stream()
        driver.replayer(driver.instantiate(driver.end_capture(stream)), stream)()

    def called() -> None:
        prepared = launch.for_call(kernel, entry, kind, arrays, driver.current_context())
        prepared(stream, *(array.ptr for array in arrays.values()))

    for run in (on_stream, captured, called):
        device.poison(arrays["y"])
        run()
        np.testing.assert_allclose(device.fetch(arrays["y"]), expected, rtol=1e-5, err_msg=run.__name__)
    device.release()


def twice(folder: Path, text: str, *more: np.generic, grid: tuple[int, ...] = (1,), **how: Any) -> Kernel:
    """A kernel `k(y, x, ...)` of one block of 64 threads, which doubles."""
    entries = {"k": lambda x, y: Launch(grid, (64,), (y, x, *more), **how)}
    return specs.kernel(folder, text=text, reference=lambda x: 2 * x, output="y", entries=entries)


SHARED = """extern __shared__ float s[];
__global__ void k(float* y, const float* x, int last) {
    s[last - 64 + threadIdx.x] = x[threadIdx.x];
    y[threadIdx.x] = 2 * s[last - 64 + threadIdx.x];
}"""


def at_the_end_of_shared(folder: Path, nbytes: int, **how: Any) -> Kernel:
    """A kernel that uses the last of so many bytes of dynamic shared memory."""
    return twice(folder, SHARED, np.int32(nbytes // 4), shared=nbytes, **how)


def ran(device: Any, kernel: Kernel) -> np.ndarray:
    """What a launch of `k` makes of `X`, on the stream and then as a call."""
    operands = device.place(kernel, dtype("float32"), {"x": X})
    launch.on_stream(kernel, "k", dtype("float32"), operands)()
    first = device.fetch(operands.output)
    device.poison(operands.output)
    arrays = operands.by_name(kernel)
    prepared = launch.for_call(kernel, "k", dtype("float32"), arrays, driver.current_context())
    prepared(operands.stream.handle, *(array.ptr for array in arrays.values()))
    np.testing.assert_array_equal(device.fetch(operands.output), first)
    return first


def constants_of_a_filter() -> tuple[Any, bytes]:
    """(what sets a constant of `constants.cu`, its code), once the filter is right with constants that were set."""
    text = (DATA / "constants.cu").read_text()
    module, context, pycuda = cuda.compiled(text, "constants.cu"), driver.current_context(), driver.pycuda()
    code = cuda._cubin(text, "constants.cu", (), None, (), (), driver.card(context).target)
    given = partial(constants.set_constant, text, code, of_module=module.get_global, context=context)
    given("weights", np.array([1, 2, 3], np.float32))
    given("params::bias", np.array(10.0))
    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    module.get_function("filter")(pycuda.Out(y), pycuda.In(x), np.int32(8), block=(8, 1, 1))
    np.testing.assert_array_equal(y, np.convolve(x, [3, 2, 1], "same") + 10)
    return given, code
