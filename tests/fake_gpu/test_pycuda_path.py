"""PyCUDA itself, unmodified, on a machine without a GPU: libcuda.so.1 and nvcc are the stand-ins of this folder."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

if os.environ.get("CUDALAB_FAKE_GPU"):  # elsewhere PyCUDA may be absent, or have a real GPU
    import pycuda.autoprimaryctx
    import pycuda.compiler
    import pycuda.driver as cuda

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


def test_the_device_says_that_it_is_a_stand_in():
    device = cuda.Device(0)
    assert cuda.Device.count() == 1
    assert device.name() == "cudalab CPU stand-in"
    assert device.compute_capability() == (9, 0)
    assert device.get_attribute(cuda.device_attribute.L2_CACHE_SIZE) == 1 << 20
    assert device.get_attribute(cuda.device_attribute.MAX_THREADS_PER_BLOCK) == 1024
    assert device.pci_bus_id() == "0000:00:00.0"


def test_a_thread_without_a_context_is_refused():
    """PyCUDA, which tracks contexts itself, refuses it, and so does the driver."""
    results = []

    def synchronize():
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


# ---- streams and events --------------------------------------------------------------------------


@pytest.fixture
def kernels():
    """What enqueues a kernel that waits for `flag`, one that sets y to 5, the y, and the flag, an int32 of the host.

    The flag is 1 at the end, so that no kernel waits for ever.
    """
    flag = cuda.pagelocked_zeros(1, np.int32, mem_flags=cuda.host_alloc_flags.DEVICEMAP)
    y = cuda.pagelocked_zeros(1, np.int32)
    functions = pycuda.compiler.SourceModule(WAIT)
    wait, one = functions.get_function("wait").prepare("P"), functions.get_function("set").prepare("Pi")
    flag_at, y_at = (int(array.base.get_device_pointer()) for array in (flag, y))
    launch = (1, 1), (1, 1, 1)
    yield SimpleNamespace(
        flag=flag, y=y,
        waits=lambda stream: wait.prepared_async_call(*launch, stream, flag_at),
        sets=lambda stream: one.prepared_async_call(*launch, stream, y_at, 5),
    )  # fmt: skip
    flag[0] = 1
    cuda.Context.synchronize()


def test_a_launch_does_not_wait_for_the_kernel(kernels):
    stream, done = cuda.Stream(), cuda.Event()
    kernels.waits(stream)
    kernels.sets(stream)
    done.record(stream)
    time.sleep(0.02)
    assert kernels.y[0] == 0  # a reader that forgets to synchronise is shown the old value
    assert not stream.is_done()
    assert not done.query()
    kernels.flag[0] = 1
    done.synchronize()
    assert kernels.y[0] == 5


def test_one_stream_waits_for_another_ones_event(kernels):
    first, second, event = cuda.Stream(), cuda.Stream(), cuda.Event()
    kernels.waits(first)
    event.record(first)
    second.wait_for_event(event)
    kernels.sets(second)
    time.sleep(0.02)
    assert kernels.y[0] == 0
    kernels.flag[0] = 1
    second.synchronize()
    assert kernels.y[0] == 5


@pytest.mark.parametrize("blocking", [True, False])
def test_the_default_stream_follows_blocking_streams_only(kernels, blocking):
    stream, done = cuda.Stream(0 if blocking else 1), cuda.Event()  # 1: CU_STREAM_NON_BLOCKING
    kernels.waits(stream)
    kernels.sets(None)
    done.record()
    if blocking:
        time.sleep(0.02)
        assert kernels.y[0] == 0
        kernels.flag[0] = 1
    done.synchronize()
    assert kernels.y[0] == 5
    assert stream.is_done() == blocking
    kernels.flag[0] = 1  # before y goes: freeing it waits for the device


def test_events_time_the_kernel_between_them(kernels):
    stream, start, end = cuda.Stream(), cuda.Event(), cuda.Event()
    start.record(stream)
    kernels.waits(stream)
    end.record(stream)
    with pytest.raises(cuda.RuntimeError, match="not ready"):
        end.time_since(start)
    time.sleep(0.05)
    kernels.flag[0] = 1
    end.synchronize()
    assert 20 < end.time_since(start) < 10_000  # ms: the kernel waited for most of our sleep, if not all


# ---- memory --------------------------------------------------------------------------------------


def test_free_memory_counts_allocations():
    before, _ = cuda.mem_get_info()
    memory = cuda.mem_alloc(1 << 20)
    assert before - cuda.mem_get_info()[0] >= 1 << 20
    memory.free()
    assert cuda.mem_get_info()[0] == before


# ---- failures ------------------------------------------------------------------------------------


def sets(*scalars, **launch):
    """A launch of the kernel `set`."""
    launch = {"block": (32, 1, 1), **launch}
    return lambda: pycuda.compiler.SourceModule(WAIT).get_function("set")(cuda.mem_alloc(4), *scalars, **launch)


@pytest.mark.parametrize(
    "call",
    [
        sets(np.int32(1), block=(1025, 1, 1)),
        sets(np.int32(1), grid=(0, 1)),
        sets(np.int32(1), grid=(1, 65536)),
        sets(np.int32(1), shared=(48 << 10) + 1),
        sets(),
        sets(np.int64(1)),
        sets(np.int32(1), np.int32(1)),
        lambda: cuda.mem_alloc(0),
    ],
    ids=["block", "empty grid", "grid y", "shared", "no argument", "too wide", "too many", "no memory"],
)
def test_what_cuda_refuses(call):
    with pytest.raises(cuda.LogicError, match="invalid argument"):
        call()


def test_more_memory_than_there_is():
    with pytest.raises(cuda.MemoryError, match="out of memory"):
        cuda.mem_alloc(cuda.mem_get_info()[1] + 1)


def run_python(code):
    """A process of its own, since a failing kernel takes the context with it, as on a GPU."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)


def test_a_stuck_barrier_is_an_error_that_stays():
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


def test_a_module_that_was_not_made_for_the_cpu_is_refused():
    with pytest.raises(cuda.RuntimeError, match="tests/fake_gpu/nvcc"):
        cuda.module_from_buffer(b"\x7fELF" + bytes(200))
