"""Measures what one kernel launch costs the host, through each binding of the CUDA driver that Python has.

    python bench/call_path.py FILE.json [REPEATS]

The lab launches through ctypes (`cudalab.device.launch.Prepared`). This script compares that with cuda-bindings,
cuda.core and PyCUDA, on one GPU, for a kernel without arguments and for one with three pointers and a number. The
methods take turns in shuffled order; a repeat is the median of BATCHES batches of CALLS calls each, and the stream is
idle when a batch begins. It prints a table and writes all repeats and all versions to FILE.json. A library that is
missing or fails costs its rows and is named. Needs a GPU and nvcc; NVBench, torch and CuPy are not used.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import json
import platform
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from struct import Struct
from time import perf_counter
from typing import Any

import numpy as np

from cudalab.device import driver as lab
from cudalab.device.arrays import DeviceArray
from cudalab.device.cuda import nvcc
from cudalab.device.launch import Prepared
from cudalab.spec.kernel import Launch

CALLS = 200  # in a batch: far below the driver's queue of about 1,000 launches
BATCHES = 25
REPEATS = 9

SOURCE = """
extern "C" __global__ void empty() {}
extern "C" __global__ void three(const float* x, const float* y, float* z, long long n) { *z = *x + *y + n; }
"""
X, Y, N = 3.0, 4.0, 5
PACKAGES = ("cuda-bindings", "cuda-core", "pycuda", "numpy")

Launcher = Callable[..., Any]


class Place:
    """What every method launches: the code, the stream, three arrays of one float."""

    def __init__(self, code: bytes, stream: int) -> None:
        self.code, self.stream = code, stream
        self.kept: list[Any] = []  # what launches refer to by address alone
        self.pointers: list[int] = []
        for value in (X, Y, 0.0):
            pointer = ctypes.c_void_p()
            ask("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(256))
            assert pointer.value
            self.pointers.append(pointer.value)
            self.write(pointer.value, value)

    def write(self, pointer: int, value: float) -> None:
        number = ctypes.c_float(value)
        ask("cuMemcpyHtoD_v2", ctypes.c_void_p(pointer), ctypes.byref(number), ctypes.c_size_t(4))

    def result(self) -> float:
        number = ctypes.c_float()
        self.wait()
        ask("cuMemcpyDtoH_v2", ctypes.byref(number), ctypes.c_void_p(self.pointers[2]), ctypes.c_size_t(4))
        return number.value

    def wait(self) -> None:
        ask("cuCtxSynchronize")  # PyCUDA has a stream of its own


def ask(name: str, *arguments: Any) -> None:
    if code := getattr(lab.libcuda(), name)(*arguments):
        raise RuntimeError(f"{name} returned CUDA error {code}")


# ---- the methods: each yields (name, {kernel: loop}); loop(n) makes n launches ----

Loops = dict[str, Callable[[int], None]]


def nothing(place: Place) -> Iterator[tuple[str, Loops]]:
    """A Python function that does nothing: the cost of the loop and the call."""

    def call(*arguments: int) -> None:
        pass

    yield "no launch: an empty Python function", loops(call, call, place)


def ctypes_path(place: Place) -> Iterator[tuple[str, Loops]]:
    """The lab's `Prepared`, as `kernel(x)` calls it: the stream and the pointers may differ in each call."""
    context = lab.primary_context(0)
    arrays = {n: DeviceArray((1,), np.dtype(np.float32), p) for n, p in zip("xyz", place.pointers, strict=True)}
    empty = Prepared("empty", lab.function(place.code, "empty", context), context, Launch((1,), (1,), ()), {})
    launch = Launch((1,), (1,), (*arrays.values(), np.int64(N)))
    three = Prepared("three", lab.function(place.code, "three", context), context, launch, arrays)
    yield "ctypes (the lab's Prepared)", loops(empty.__call__, three.__call__, place)


def loops(empty: Launcher, three: Launcher, place: Place) -> Loops:
    """Loops over launchers that take the stream's handle and the pointers."""
    stream, (x, y, z) = place.stream, place.pointers

    def many_empty(n: int) -> None:
        for _ in range(n):
            empty(stream)

    def many_three(n: int) -> None:
        for _ in range(n):
            three(stream, x, y, z)

    return {"empty": many_empty, "three": many_three}


def bindings_path(place: Place) -> Iterator[tuple[str, Loops]]:
    """cuda-bindings, in the three ways in which it takes arguments."""
    from cuda.bindings import driver

    done, handle = driver.CUresult.CUDA_SUCCESS, driver.CUstream(place.stream)

    def answer(given: Any) -> Any:
        if given[0] != done:
            raise RuntimeError(f"the driver said {given[0]!r}")
        return given[1]

    module = answer(driver.cuModuleLoadData(place.code))
    functions = {name: answer(driver.cuModuleGetFunction(module, name.encode())) for name in ("empty", "three")}
    empty, three = functions["empty"], functions["three"]
    launch, launch_ex, (x, y, z) = driver.cuLaunchKernel, driver.cuLaunchKernelEx, place.pointers
    types = (ctypes.c_void_p,) * 3 + (ctypes.c_longlong,)

    def tuple_empty(n: int) -> None:
        for _ in range(n):
            if launch(empty, 1, 1, 1, 1, 1, 1, 0, handle, 0, 0)[0] != done:
                raise RuntimeError("the launch failed")

    def tuple_three(n: int) -> None:
        for _ in range(n):
            if launch(three, 1, 1, 1, 1, 1, 1, 0, handle, ((x, y, z, N), types), 0)[0] != done:
                raise RuntimeError("the launch failed")

    yield "cuda-bindings cuLaunchKernel, values and types", {"empty": tuple_empty, "three": tuple_three}

    # The lab's way: pointers packed into memory that was laid out once; the driver gets the address of the arguments.
    memory = ctypes.create_string_buffer(32)
    places = (ctypes.c_void_p * 4)(*(ctypes.addressof(memory) + 8 * i for i in range(4)))
    Struct("=q").pack_into(memory, 24, N)
    place.kept += [memory, places, module]
    write, arguments = Struct("=3Q").pack_into, ctypes.addressof(places)

    def packed_three(n: int) -> None:
        for _ in range(n):
            write(memory, 0, x, y, z)
            if launch(three, 1, 1, 1, 1, 1, 1, 0, handle, arguments, 0)[0] != done:
                raise RuntimeError("the launch failed")

    yield "cuda-bindings cuLaunchKernel, packed pointers", {"empty": tuple_empty, "three": packed_three}

    config = driver.CUlaunchConfig()
    config.gridDimX = config.gridDimY = config.gridDimZ = 1
    config.blockDimX = config.blockDimY = config.blockDimZ = 1
    config.sharedMemBytes, config.hStream, config.numAttrs = 0, handle, 0

    def ex_empty(n: int) -> None:
        for _ in range(n):
            if launch_ex(config, empty, 0, 0)[0] != done:
                raise RuntimeError("the launch failed")

    def ex_three(n: int) -> None:
        for _ in range(n):
            write(memory, 0, x, y, z)
            if launch_ex(config, three, arguments, 0)[0] != done:
                raise RuntimeError("the launch failed")

    yield "cuda-bindings cuLaunchKernelEx, packed pointers", {"empty": ex_empty, "three": ex_three}


def core_path(place: Place) -> Iterator[tuple[str, Loops]]:
    """cuda.core; until version 0.5 its names were in cuda.core.experimental."""
    import cuda.core as core

    if not hasattr(core, "launch"):
        import cuda.core.experimental as core
    core.Device(0).set_current()
    stream = core.Stream.from_handle(place.stream)
    code = core.ObjectCode.from_cubin(place.code)
    empty, three = code.get_kernel("empty"), code.get_kernel("three")
    place.kept += [code, empty, three]
    config, launch, (x, y, z), number = core.LaunchConfig(grid=1, block=1), core.launch, place.pointers, np.int64(N)

    def many_empty(n: int) -> None:
        for _ in range(n):
            launch(stream, config, empty)

    def many_three(n: int) -> None:
        for _ in range(n):
            launch(stream, config, three, x, y, z, number)

    yield "cuda.core launch", {"empty": many_empty, "three": many_three}


def pycuda_path(place: Place) -> Iterator[tuple[str, Loops]]:
    """PyCUDA's prepared calls. PyCUDA cannot wrap a stream, so it launches on one of its own."""
    import pycuda.driver as driver

    driver.init()
    context = driver.Device(0).retain_primary_context()
    context.push()
    atexit.register(context.pop)  # PyCUDA aborts the process if its context is current at the end
    stream, one, block, (x, y, z) = driver.Stream(1), (1, 1), (1, 1, 1), place.pointers
    module = driver.module_from_buffer(place.code)
    place.kept += [module, stream]
    empty = module.get_function("empty").prepare("").prepared_async_call
    three = module.get_function("three").prepare("PPPq").prepared_async_call

    def many_empty(n: int) -> None:
        for _ in range(n):
            empty(one, block, stream)

    def many_three(n: int) -> None:
        for _ in range(n):
            three(one, block, stream, x, y, z, N)

    yield "PyCUDA prepared_async_call", {"empty": many_empty, "three": many_three}


METHODS = (nothing, ctypes_path, bindings_path, core_path, pycuda_path)


# ---- measuring ----


def ready(place: Place) -> tuple[dict[str, Loops], dict[str, str]]:
    """The methods that launch and give the right result here; and why others do not, by name."""
    found: dict[str, Loops] = {}
    failed: dict[str, str] = {}
    for method in METHODS:
        try:
            for name, made in method(place):
                if reason := wrong(made, place, launches=method is not nothing):
                    failed[name] = reason
                else:
                    found[name] = made
        except Exception as error:  # a missing library, or an interface that this version does not have
            failed[method.__name__] = f"{type(error).__name__}: {error}"
    return found, failed


def wrong(made: Loops, place: Place, launches: bool) -> str | None:
    """Why these loops are not what they should be; also warms them up."""
    place.write(place.pointers[2], -1.0)
    for loop in made.values():
        loop(CALLS)
        place.wait()
    expected = X + Y + N if launches else -1.0
    return None if (got := place.result()) == expected else f"the kernel wrote {got}, not {expected}"


def timed(loop: Callable[[int], None], place: Place) -> float:
    """Host seconds of one call: the median of batches, each of which begins with an idle GPU."""
    batches = []
    gc.disable()
    try:
        for _ in range(BATCHES):
            place.wait()
            start = perf_counter()
            loop(CALLS)
            batches.append((perf_counter() - start) / CALLS)
        place.wait()
    finally:
        gc.enable()
    return statistics.median(batches)


def measure(methods: dict[str, Loops], place: Place, repeats: int) -> dict[tuple[str, str], list[float]]:
    """Repeats in seconds, by (method, kernel). All methods take a turn in each repeat, in a new order."""
    turns = [(name, kernel) for name, made in methods.items() for kernel in made]
    found: dict[tuple[str, str], list[float]] = {turn: [] for turn in turns}
    order = random.Random(0)
    for _ in range(repeats):
        order.shuffle(turns)
        for name, kernel in turns:
            found[name, kernel].append(timed(methods[name][kernel], place))
    return found


# ---- the machine ----


def compiled(target: str) -> bytes:
    compiler = nvcc()
    if compiler is None:
        raise SystemExit("nvcc is not on PATH; install the CUDA toolkit, or add its bin folder to PATH")
    with tempfile.TemporaryDirectory() as folder:
        source, code = Path(folder, "call_path.cu"), Path(folder, "call_path.cubin")
        source.write_text(SOURCE)
        subprocess.run([compiler, "-cubin", f"-arch={target}", "-o", str(code), str(source)], check=True)
        return code.read_bytes()


@contextmanager
def place() -> Iterator[Place]:
    """The first GPU: its primary context is current, and the code is compiled for it."""
    context = lab.primary_context(0)
    with lab.within(context):
        stream = ctypes.c_void_p()
        ask("cuStreamCreate", ctypes.byref(stream), 1)  # CU_STREAM_NON_BLOCKING
        assert stream.value
        yield Place(compiled(lab.card(context).target), stream.value)


def versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "driver": lab.release()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def main(path: Path, repeats: int = REPEATS) -> None:
    with place() as on:
        gpu = lab.card(lab.primary_context(0)).name
        methods, failed = ready(on)
        found = measure(methods, on, repeats)
    rows = [
        {
            "method": method,
            "kernel": kernel,
            "median_us": round(1e6 * statistics.median(taken), 3),
            "min_us": round(1e6 * min(taken), 3),
            "max_us": round(1e6 * max(taken), 3),
            "repeats_us": [round(1e6 * t, 3) for t in taken],
        }
        for (method, kernel), taken in found.items()
    ]
    used = {"calls": CALLS, "batches": BATCHES, "repeats": repeats}
    installed = versions()
    whole = {"gpu": gpu, "versions": installed, "counts": used, "rows": rows, "failed": failed}
    path.write_text(json.dumps(whole, indent=1) + "\n")
    print(f"{gpu}; " + ", ".join(f"{name} {v}" for name, v in installed.items()))
    print(f"host us a launch; median (min to max) of {repeats} repeats of {BATCHES} x {CALLS} calls")
    print(f"{'method':<50}  {'no argument':<24}  3 pointers and a number")
    cell = {(r["method"], r["kernel"]): f"{r['median_us']} ({r['min_us']} to {r['max_us']})" for r in rows}
    for method in methods:
        print(f"{method:<50}  {cell[method, 'empty']:<24}  {cell[method, 'three']}")
    for name, reason in failed.items():
        print(f"skipped {name}: {reason}")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        raise SystemExit("usage: python bench/call_path.py FILE.json [REPEATS]")
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
