"""PyCUDA itself, unmodified, on a machine without a GPU: libcuda.so.1 and nvcc are the stand-ins of this folder."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

if os.environ.get("CUDALAB_FAKE_GPU"):  # elsewhere PyCUDA may be absent, or have a real GPU
    import pycuda.autoprimaryctx
    import pycuda.compiler
    import pycuda.driver as cuda
    import pycuda.elementwise
    import pycuda.gpuarray as gpuarray

SAXPY = """
__global__ void saxpy(float *y, const float *x, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + SHIFT;
}
"""

# Waits, as the timing's queue blocker does, for the host to write to memory that it shares with the device.
# Gives up after some seconds: where a launch wrongly waits for its kernel, that is a failure and not a hang.
WAIT = """
__global__ void wait(const volatile int *flag) { for (long i = 0; i < 1L << 32 && *flag == 0; i++) {} }
__global__ void set(int *y, int value) { *y = value; }
"""

STUCK = """
__global__ void stuck(float *y) {
    if (threadIdx.x < 16) __syncthreads();
    else { __shfl_sync(0xffffffffu, y[0], 0); }
}
"""

N = 1000


def module(source: str, **options: object) -> pycuda.compiler.SourceModule:
    return pycuda.compiler.SourceModule(source, **options)


@pytest.fixture
def x() -> np.ndarray:
    return np.random.default_rng(7).standard_normal(N, dtype=np.float32)


def device_pointer(pagelocked: np.ndarray) -> int:
    """Where kernels find an array of `pycuda.driver.pagelocked_*`."""
    return int(pagelocked.base.get_device_pointer())  # type: ignore[union-attr]


@pytest.fixture
def flag() -> Iterator[np.ndarray]:
    """An int32 in host memory that kernels can read; set to 1 at the end, so that no kernel waits for ever."""
    memory = cuda.pagelocked_zeros(1, np.int32, mem_flags=cuda.host_alloc_flags.DEVICEMAP)
    yield memory
    memory[0] = 1
    cuda.Context.synchronize()


def test_the_device_says_that_it_is_a_stand_in() -> None:
    device = cuda.Device(0)
    assert cuda.Device.count() == 1
    assert device.name() == "cudalab CPU stand-in"
    assert device.compute_capability() == (9, 0)
    assert device.get_attribute(cuda.device_attribute.L2_CACHE_SIZE) == 1 << 20
    assert device.get_attribute(cuda.device_attribute.MAX_THREADS_PER_BLOCK) == 1024
    assert device.pci_bus_id() == "0000:00:00.0"


def test_autoprimaryctx_is_the_current_context() -> None:
    assert pycuda.autoprimaryctx.device == cuda.Context.get_device()
    assert cuda.Context.get_current() is not None


def test_a_thread_without_a_context_is_refused() -> None:
    """PyCUDA, which tracks contexts itself, refuses it, and so does the driver."""
    results: list[object] = []

    def synchronize() -> None:
        try:
            cuda.mem_alloc(4)
        except cuda.Error as error:
            results.append(str(error))
        results.append(ctypes.CDLL("libcuda.so.1").cuCtxSynchronize())

    thread = threading.Thread(target=synchronize)
    thread.start()
    thread.join()
    assert "invalid device context" in str(results[0])
    assert results[1] == 201  # CUDA_ERROR_INVALID_CONTEXT


@pytest.mark.parametrize("extern_c", [True, False], ids=["wrapped", "extern-c-in-source"])
def test_source_module(x: np.ndarray, extern_c: bool) -> None:
    source = SAXPY if extern_c else SAXPY.replace("__global__", 'extern "C" __global__')
    saxpy = module(source, no_extern_c=not extern_c, options=["-DSHIFT=1"]).get_function("saxpy")
    y = np.full(N + 1, 9, np.float32)
    args = (cuda.InOut(y), cuda.In(x), np.float32(2), np.int32(N))
    saxpy(*args, block=(128, 1, 1), grid=(8, 1))
    np.testing.assert_allclose(y[:N], 2 * x + 1, rtol=1e-6)
    assert y[N] == 9


def test_a_changed_define_is_another_module() -> None:
    y = np.zeros(1, np.float32)
    for shift in (1, 2):
        saxpy = module(SAXPY, options=["-D", f"SHIFT={shift}"]).get_function("saxpy")
        args = (cuda.Out(y), cuda.In(y.copy()), np.float32(0), np.int32(1))
        saxpy(*args, block=(1, 1, 1))
        assert y[0] == shift


def test_a_changed_header_is_another_module(tmp_path: Path) -> None:
    y = np.zeros(1, np.float32)
    for shift in (1, 2):
        (tmp_path / "shift.h").write_text(f"#define SHIFT {shift}\n")
        source = '#include "shift.h"\n' + SAXPY
        saxpy = module(source, include_dirs=[str(tmp_path)]).get_function("saxpy")
        args = (cuda.Out(y), cuda.In(y.copy()), np.float32(0), np.int32(1))
        saxpy(*args, block=(1, 1, 1))
        assert y[0] == shift


def test_unknown_function_is_an_error() -> None:
    with pytest.raises(cuda.LogicError, match="named symbol not found"):
        module(WAIT).get_function("absent")


def test_constant_memory() -> None:
    source = """
    __constant__ float scale[2];
    __global__ void use(float *y) { y[threadIdx.x] = scale[threadIdx.x]; }
    """
    mod = module(source)
    pointer, size = mod.get_global("scale")
    assert size == 8
    cuda.memcpy_htod(pointer, np.array([3, 4], np.float32))
    y = np.zeros(2, np.float32)
    mod.get_function("use")(cuda.Out(y), block=(2, 1, 1))
    assert y.tolist() == [3, 4]


def test_compile_error_reaches_the_user() -> None:
    with pytest.raises(cuda.CompileError) as caught:
        module("__global__ void broken(float *y) {\n    y[0] = no_such_name;\n}")
    assert "no_such_name" in caught.value.stderr
    assert "kernel.cu:3" in caught.value.stderr  # PyCUDA's `extern "C" {` is line 1


# ---- streams and events --------------------------------------------------------------------------


def test_prepared_async_call_on_a_stream(x: np.ndarray) -> None:
    saxpy = module(SAXPY, options=["-DSHIFT=0"]).get_function("saxpy").prepare("PPfi")
    stream = cuda.Stream()
    y = cuda.mem_alloc(x.nbytes)
    cuda.memset_d8_async(y, 0xFF, x.nbytes, stream)
    saxpy.prepared_async_call((8, 1), (128, 1, 1), stream, y, cuda.to_device(x), 3.0, N)
    back = cuda.pagelocked_empty(N, np.float32)
    cuda.memcpy_dtoh_async(back, y, stream)
    stream.synchronize()
    np.testing.assert_allclose(back, 3 * x, rtol=1e-6)


def test_a_launch_does_not_wait_for_the_kernel(flag: np.ndarray) -> None:
    functions = module(WAIT)
    stream, done = cuda.Stream(), cuda.Event()
    y = cuda.pagelocked_zeros(1, np.int32)
    wait = functions.get_function("wait").prepare("P")
    one = functions.get_function("set").prepare("Pi")
    wait.prepared_async_call((1, 1), (1, 1, 1), stream, device_pointer(flag))
    one.prepared_async_call((1, 1), (1, 1, 1), stream, device_pointer(y), 5)
    done.record(stream)
    time.sleep(0.02)
    assert y[0] == 0  # a reader that forgets to synchronise is shown the old value
    assert not stream.is_done()
    assert not done.query()
    flag[0] = 1
    done.synchronize()
    assert y[0] == 5


def test_one_stream_waits_for_another_ones_event(flag: np.ndarray) -> None:
    functions = module(WAIT)
    first, second, event = cuda.Stream(), cuda.Stream(), cuda.Event()
    y = cuda.pagelocked_zeros(1, np.int32)
    wait = functions.get_function("wait").prepare("P")
    one = functions.get_function("set").prepare("Pi")
    wait.prepared_async_call((1, 1), (1, 1, 1), first, device_pointer(flag))
    event.record(first)
    second.wait_for_event(event)
    one.prepared_async_call((1, 1), (1, 1, 1), second, device_pointer(y), 5)
    time.sleep(0.02)
    assert y[0] == 0
    flag[0] = 1
    second.synchronize()
    assert y[0] == 5


@pytest.mark.parametrize("blocking", [True, False])
def test_the_default_stream_follows_blocking_streams_only(flag: np.ndarray, blocking: bool) -> None:
    functions = module(WAIT)
    stream = cuda.Stream(0 if blocking else 1)  # 1: CU_STREAM_NON_BLOCKING
    y, done = cuda.pagelocked_zeros(1, np.int32), cuda.Event()
    wait = functions.get_function("wait").prepare("P")
    one = functions.get_function("set").prepare("Pi")
    wait.prepared_async_call((1, 1), (1, 1, 1), stream, device_pointer(flag))
    one.prepared_async_call((1, 1), (1, 1, 1), None, device_pointer(y), 5)
    done.record()
    if blocking:
        time.sleep(0.02)
        assert y[0] == 0
        flag[0] = 1
    done.synchronize()
    assert y[0] == 5
    assert stream.is_done() == blocking
    flag[0] = 1  # before y goes: freeing it waits for the device


def test_events_time_the_kernel_between_them(flag: np.ndarray) -> None:
    stream, start, end = cuda.Stream(), cuda.Event(), cuda.Event()
    wait = module(WAIT).get_function("wait").prepare("P")
    start.record(stream)
    wait.prepared_async_call((1, 1), (1, 1, 1), stream, device_pointer(flag))
    end.record(stream)
    with pytest.raises(cuda.RuntimeError, match="not ready"):
        end.time_since(start)
    time.sleep(0.05)
    flag[0] = 1
    end.synchronize()
    assert 20 < end.time_since(start) < 10_000  # ms: the kernel waited for most of our sleep, if not all


def test_events_with_nothing_between_give_a_positive_time() -> None:
    start, end = cuda.Event(), cuda.Event()
    start.record()
    end.record()
    end.synchronize()
    assert 0 < end.time_since(start) < 1000


# ---- memory --------------------------------------------------------------------------------------


def test_host_mapped_memory(x: np.ndarray) -> None:
    memory = cuda.pagelocked_empty(N, np.float32, mem_flags=cuda.host_alloc_flags.DEVICEMAP)
    memory[:] = x
    pointer = device_pointer(memory)
    saxpy = module(SAXPY, options=["-DSHIFT=0"]).get_function("saxpy").prepare("PPfi")
    saxpy.prepared_call((8, 1), (128, 1, 1), pointer, pointer, 2.0, N)
    cuda.Context.synchronize()
    np.testing.assert_allclose(memory, 2 * x, rtol=1e-6)


def test_registered_memory(x: np.ndarray) -> None:
    """Through ctypes: the array that pycuda.driver.register_host_memory returns has lost its base."""
    driver, y, pointer = ctypes.CDLL("libcuda.so.1"), np.zeros_like(x), ctypes.c_void_p()
    address = ctypes.c_void_p(y.ctypes.data)
    assert driver.cuMemHostGetDevicePointer_v2(ctypes.byref(pointer), address, 0) != 0
    assert driver.cuMemHostRegister_v2(address, ctypes.c_size_t(y.nbytes), 0) == 0
    assert driver.cuMemHostGetDevicePointer_v2(ctypes.byref(pointer), address, 0) == 0
    cuda.memcpy_dtod(pointer.value, cuda.to_device(x), x.nbytes)
    assert driver.cuMemHostUnregister(address) == 0
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize(("bits", "value"), [(8, 0xA1), (16, 0xA1B2), (32, 0xA1B2C3D4)])
def test_memset(bits: int, value: int) -> None:
    y = np.zeros(5, f"u{bits // 8}")
    memory = cuda.to_device(y)
    getattr(cuda, f"memset_d{bits}")(memory, value, 4)
    cuda.memcpy_dtoh(y, memory)
    assert y.tolist() == [value] * 4 + [0]


def test_allocations_that_cuda_refuses() -> None:
    with pytest.raises(cuda.LogicError, match="invalid argument"):
        cuda.mem_alloc(0)
    with pytest.raises(cuda.MemoryError, match="out of memory"):
        cuda.mem_alloc(cuda.mem_get_info()[1] + 1)


def test_free_memory_counts_allocations() -> None:
    before, _ = cuda.mem_get_info()
    memory = cuda.mem_alloc(1 << 20)
    assert before - cuda.mem_get_info()[0] >= 1 << 20
    memory.free()
    assert cuda.mem_get_info()[0] == before


@pytest.mark.parametrize(
    "launch",
    [
        {"block": (1025, 1, 1), "grid": (1, 1)},
        {"block": (32, 1, 1), "grid": (0, 1)},
        {"block": (32, 1, 1), "grid": (1, 65536)},
        {"block": (32, 1, 1), "grid": (1, 1), "shared": (48 << 10) + 1},
    ],
    ids=["block", "empty-grid", "grid-y", "shared"],
)
def test_launches_that_cuda_refuses(launch: dict[str, object]) -> None:
    y = cuda.mem_alloc(4)
    with pytest.raises(cuda.LogicError, match="invalid argument"):
        module(WAIT).get_function("set")(y, np.int32(1), **launch)


@pytest.mark.parametrize(
    "scalars", [(), (np.int64(1),), (np.int32(1), np.int32(1))], ids=["missing", "too-wide", "extra"]
)
def test_arguments_of_another_size_are_refused(scalars: tuple[np.generic, ...]) -> None:
    y = cuda.mem_alloc(4)
    with pytest.raises(cuda.LogicError, match="invalid argument"):
        module(WAIT).get_function("set")(y, *scalars, block=(1, 1, 1))


# ---- what PyCUDA builds on top -------------------------------------------------------------------


def test_elementwise_kernel(x: np.ndarray) -> None:
    saxpy = pycuda.elementwise.ElementwiseKernel(
        "float *y, const float *x, float a", "y[i] = a * x[i] + tanhf(x[i])", "saxpy"
    )
    device_x = gpuarray.to_gpu(x)
    y = gpuarray.empty_like(device_x)
    saxpy(y, device_x, np.float32(2))
    np.testing.assert_allclose(y.get(), 2 * x + np.tanh(x), rtol=1e-5, atol=1e-6)


def test_gpuarray(x: np.ndarray) -> None:
    a = gpuarray.to_gpu(x)
    np.testing.assert_array_equal(a.get(), x)
    np.testing.assert_allclose((2 * a + a * a - 1).get(), 2 * x + x * x - 1, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal((a > 0).get(), x > 0)
    assert not gpuarray.zeros(N, np.float64).get().any()


def test_gpuarray_of_two_dimensions_and_a_view(x: np.ndarray) -> None:
    a = gpuarray.to_gpu(x.reshape(20, 50))
    np.testing.assert_array_equal(a[3:7].get(), x.reshape(20, 50)[3:7])
    np.testing.assert_array_equal(a[:, 5:9].get(), x.reshape(20, 50)[:, 5:9])


# ---- failures ------------------------------------------------------------------------------------


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    """A process of its own, since a failing kernel takes the context with it, as on a GPU."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)


def test_a_stuck_barrier_is_an_error_that_stays() -> None:
    done = run_python(f"""
import numpy as np, pycuda.autoprimaryctx, pycuda.driver as cuda
from pycuda.compiler import SourceModule
y = cuda.to_device(np.zeros(64, np.float32))
SourceModule({STUCK!r}).get_function("stuck")(y, block=(64, 1, 1), grid=(1, 1))
for attempt in (cuda.Context.synchronize, lambda: cuda.mem_alloc(4)):
    try:
        attempt()
    except cuda.LaunchError as error:
        print("LaunchError", error)
""")
    lines = [line for line in done.stdout.splitlines() if line.startswith("LaunchError")]
    assert len(lines) == 2, done.stdout + done.stderr
    assert all("__syncthreads" in line for line in lines)


def test_a_module_that_was_not_made_for_the_cpu_is_refused() -> None:
    with pytest.raises(cuda.RuntimeError, match="tests/fake_gpu/nvcc"):
        cuda.module_from_buffer(b"\x7fELF" + bytes(200))
