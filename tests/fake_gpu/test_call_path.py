"""Kernels called as functions with unmodified PyCUDA on the CPU stand-in: first calls, repeated ones, launches."""

from __future__ import annotations

import ctypes
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import several

from cudalab.backends import _torch
from cudalab.backends import pycuda as pycuda_backend
from cudalab.base.errors import InputError, LaunchError
from cudalab.call import fast_path
from cudalab.call import libraries as arrays
from cudalab.device import cuda, gpu, launch
from cudalab.device import driver as libcuda
from cudalab.device.arrays import DeviceArray
from cudalab.engine import judge, plan
from cudalab.engine.job import Job
from cudalab.engine.kernel_round import cases as cases_of
from cudalab.engine.selection import Selection
from cudalab.kernels.add2d import add2d
from cudalab.kernels.gelu import gelu
from cudalab.kernels.plus_one import plus_one
from cudalab.kernels.transpose import transpose
from cudalab.results import record
from cudalab.spec import find
from cudalab.spec.dtype import dtype, dtype_of
from cudalab.timing.gpu import API_WARM_UPS
from cudalab.timing.rounds import LEAST_ROUNDS


@pytest.fixture
def kernel(fake, tmp_path):
    """The lab's gelu as a kernel without earlier calls."""
    for file in (Path(gelu.file), gelu.cu):
        (tmp_path / file.name).write_text(file.read_text())
    shutil.copytree(gelu.cu.parent / "common", tmp_path / "common")
    return find.kernel(str(tmp_path / "gelu.py"))


@pytest.fixture
def first_calls(kernel, monkeypatch):
    """The shapes of the kernel's calls that are checked from here on."""
    seen = []
    real = fast_path.library_of

    def watched(called, arrays, out=None):
        seen.extend([arrays[0].shape] if called is kernel else [])
        return real(called, arrays, out)

    monkeypatch.setattr(fast_path, "library_of", watched)
    return seen


def on_gpu(array):
    import pycuda.gpuarray as gpuarray

    return gpuarray.to_gpu(array)


X = np.linspace(-4, 4, 1001, dtype=np.float32)


# ---- GPUArrays -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
def test_a_second_call_is_not_checked_again_and_as_right(kernel, first_calls, name):
    x = X.astype(dtype(name).numpy)
    want = gelu(x)
    for turn in range(3):
        given = on_gpu(np.roll(x, turn))
        np.testing.assert_array_equal(kernel(given).get(), np.roll(want, turn))
    assert len(first_calls) == 1
    for other in (x[:500], x[:1000].reshape(10, 100), x.astype(np.float32 if name != "float32" else np.float16)):
        np.testing.assert_array_equal(kernel(on_gpu(other)).get(), gelu(other))
    assert len(first_calls) == 4


def test_slices_off_the_alignment_are_calls_of_their_own(kernel, first_calls):
    x = on_gpu(X)
    for _ in range(2):
        for start in (1, 2, 3):
            np.testing.assert_array_equal(kernel(x[start : 900 + start]).get(), gelu(X[start : 900 + start]))
    assert len(first_calls) == 3


def test_out_and_in_place_and_what_overlaps(kernel, first_calls):
    x, out = on_gpu(X), on_gpu(np.zeros_like(X))
    for _ in range(3):
        assert kernel(x, out=out) is out
    assert len(first_calls) == 1
    np.testing.assert_array_equal(out.get(), gelu(X))
    whole = on_gpu(np.concatenate([X, X]))
    apart, late, early = whole[64 : 64 + 512], whole[1024 : 1024 + 512], whole[128 : 128 + 512]
    kernel(apart, out=late)
    del first_calls[:]
    kernel(apart, out=late)
    assert not first_calls
    with pytest.raises(InputError, match="out overlaps 'x'"):
        kernel(apart, out=early)  # whose type, shape and alignment are those of `late`
    with pytest.raises(InputError, match="takes 1 array, got 2"):
        kernel(apart, late)
    kernel(apart, out=apart)
    np.testing.assert_array_equal(apart.get(), gelu(np.concatenate([X, X])[64 : 64 + 512]))


def test_several_inputs_arrays_in_place_and_nothing_at_all(fake, tmp_path):
    a = np.arange(15, dtype=np.float32).reshape(3, 5)
    p, m, v, g = (on_gpu(np.ones(1000, np.float32)) for _ in "pmvg")
    assert several.adam(tmp_path)(p, m, v, g, lr=0.5)[0] is p
    want = several.step(*(np.ones(1000) for _ in "pmvg"), 0.5, *(float(np.float32(b)) for b in (0.9, 0.999)))
    np.testing.assert_allclose(p.get(), want[0], rtol=1e-6)
    for _ in range(2):
        np.testing.assert_array_equal(add2d(on_gpu(a), on_gpu(a + 1)).get(), 2 * a + 1)
        np.testing.assert_array_equal(plus_one(on_gpu(np.arange(6, dtype=np.int32))).get(), np.arange(1, 7))
        total, counts = several.count(tmp_path)(g)
        assert (total.get().tolist(), counts.get().tolist()) == ([1000.0], [0, 1000])
    assert gelu(on_gpu(np.empty((0, 3), np.float32))).shape == (0, 3)
    with pytest.raises(InputError, match="must agree"):
        add2d(on_gpu(a), on_gpu(a[:2]))
    with pytest.raises(InputError, match="takes 2 arrays, got 1"):
        add2d(on_gpu(a))


def test_the_result_comes_from_the_inputs_allocator(kernel):
    from pycuda.gpuarray import GPUArray
    from pycuda.tools import DeviceMemoryPool

    pool = DeviceMemoryPool()
    x = GPUArray(X.shape, X.dtype, allocator=pool.allocate)
    x.set(X)
    for _ in range(3):
        held = pool.active_blocks
        y = kernel(x)
        assert y.allocator == x.allocator
        assert pool.active_blocks == held + 1
        np.testing.assert_array_equal(y.get(), gelu(X))
        del y


def test_what_a_kernel_remembers_has_a_bound(kernel, first_calls, monkeypatch):
    monkeypatch.setattr(fast_path, "MOST", 3)
    for n in (1, 2, 3, 4, 5, 5):
        np.testing.assert_array_equal(kernel(on_gpu(X[:n])).get(), gelu(X[:n]))
    assert len(first_calls) == 5
    (quick,) = kernel._calls.quick.values()
    assert len(quick._hits) == 2


def test_an_edited_file_counts_for_all_shapes_once_one_is_new(kernel):
    x = on_gpu(X)
    before = kernel(x).get()
    kernel.cu.write_text(kernel.cu.read_text().replace("scalar_t(gelu(", "scalar_t(-gelu("))
    np.testing.assert_array_equal(kernel(x).get(), before)
    kernel(on_gpu(X[:10]))
    np.testing.assert_array_equal(kernel(x).get(), -before)


# ---- torch tensors, as far as they can be had without a GPU ----------------------------------------------------------


@pytest.fixture
def torch(fake, monkeypatch):
    """torch whose CPU tensors pass for a GPU's: on the stand-in device memory is the host's."""
    torch = pytest.importorskip("torch")
    plain = arrays.as_plain

    def as_plain(array):
        found = plain(array)
        if not isinstance(array, torch.Tensor):
            return found
        return DeviceArray(tuple(array.shape), dtype_of(array).numpy, array.data_ptr(), array)

    for user in (arrays, gpu, judge):
        monkeypatch.setattr(user, "as_plain", as_plain)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: 0, raising=False)
    for name, value in (("on_gpu", True), ("device", 0), ("stream", 0)):
        monkeypatch.setattr(arrays.TorchTensors, name, staticmethod(lambda tensor, value=value: value))
    monkeypatch.setattr(fast_path, "ALIGNED", 15)  # PyTorch aligns to 64 bytes on the CPU
    yield torch
    for called in find.kernels().values():
        called._calls.forget()  # nothing of this is remembered


def done(fake, tensor):
    """The tensor, when all work is done: its memory is the host's, which nothing keeps for a stream."""
    fake._context.synchronize()
    return tensor


def test_torch_tensors_are_launched_and_a_second_call_is_not_checked_again(fake, torch, kernel, first_calls):
    for n in (3, 1001):
        for _ in range(3):
            x = torch.randn(n)
            torch.testing.assert_close(done(fake, kernel(x)), torch.nn.functional.gelu(x), rtol=1e-5, atol=1e-6)
    assert first_calls == [(3,), (1001,)]
    x, out = torch.nn.Parameter(torch.randn(5)), torch.empty(5)
    for _ in range(2):
        with torch.no_grad():
            version = out._version
            assert done(fake, kernel(x, out=out)) is out
            assert out._version > version
            torch.testing.assert_close(out, torch.nn.functional.gelu(x), rtol=1e-5, atol=1e-6)
    assert len(first_calls) == 3


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_torch_tensors_that_look_alike_are_told_apart(fake, torch, kernel):
    x = torch.randn(4, 4)
    for _ in range(2):
        done(fake, kernel(x))
    for wrong, message in (
        (x.t(), "not C-contiguous"),
        (torch._neg_view(x), "negative view"),
        (torch._efficientzerotensor((4, 4)), "zeros without memory"),
        (x.to_sparse(), "sparse"),
        (torch.nested.nested_tensor([x[0], x[1]]), "nested"),
        (x.double(), "has no float64"),
    ):
        with pytest.raises(InputError, match=message):
            kernel(wrong)
    with pytest.raises(InputError, match="takes 1 array, got 2"):
        kernel(x, x)
    with pytest.raises(InputError, match="one library"):
        kernel(x, out=np.zeros((4, 4), np.float32))


def test_gradients_of_torch_tensors_are_launched(fake, torch, kernel):
    for _ in range(2):
        x = torch.randn(100, requires_grad=True)
        y = done(fake, kernel(x))
        dy = torch.randn(100)
        y.backward(dy)
        done(fake, None)
        want = torch.autograd.grad(torch.nn.functional.gelu(x), x, dy)[0]
        torch.testing.assert_close(x.grad, want, rtol=1e-5, atol=1e-6)
    with pytest.raises(InputError, match="has no gradient"):
        kernel(x, out=torch.empty(100))


def test_transforms_of_a_kernel_that_is_known_already(fake, torch, kernel):
    """No kernel is launched: PyTorch transforms the torch form."""
    gelu, x = torch.nn.functional.gelu, torch.randn(4, 3)
    for known in (x, x.clone().requires_grad_(), x[0], x[0].clone().requires_grad_()):
        for _ in range(2):
            done(fake, kernel(known))
    for given in (x, x.clone().requires_grad_()):
        for transform in (torch.func.vmap, lambda f: torch.func.grad(lambda x: f(x).sum()), torch.func.functionalize):
            torch.testing.assert_close(transform(kernel)(given), transform(gelu)(given))
    assert torch.equal(torch.func.jvp(kernel, (x,), (x,))[1], torch.func.jvp(gelu, (x,), (x,))[1])
    nested = [torch.func.vmap(torch.func.grad(lambda x, f=f: f(x).sum()))(x) for f in (kernel, gelu)]
    torch.testing.assert_close(*nested)


# ---- launches --------------------------------------------------------------------------------------------------------


@pytest.fixture
def prepared(fake):
    """plus_one for 1,000 integers in the primary context, nine buffers of so many, and what reads one."""
    import pycuda.driver as driver

    memory = [driver.mem_alloc(4000) for _ in range(9)]
    arrays = {n: DeviceArray((1000,), np.dtype(np.int32), int(m)) for n, m in zip("xy", memory, strict=False)}
    made = launch.for_call(plus_one, "plus_one_vec", dtype("int32"), arrays, libcuda.primary_context(0))
    driver.memcpy_htod(memory[0], np.arange(1000, dtype=np.int32))
    fake._context.synchronize()  # pageable memory: the copy may arrive after the call, and our stream does not wait

    def read(at):
        back = np.empty(1000, np.int32)
        driver.memcpy_dtoh(back, memory[at])
        return back

    return made, [int(m) for m in memory], read


def test_a_driver_that_launches_without_a_configuration(fake, prepared, monkeypatch):
    """A driver older than CUDA 11.8."""
    made, pointers, read = prepared
    old = SimpleNamespace(cuLaunchKernel=libcuda.libcuda().cuLaunchKernel)
    monkeypatch.setattr(libcuda, "libcuda", lambda: old)
    for at in (1, 2):
        made(0, pointers[0], pointers[at])
        fake._context.synchronize()
        np.testing.assert_array_equal(read(at), np.arange(1, 1001))


def test_a_block_of_two_dimensions(fake):
    a = np.arange(70 * 33, dtype=np.float32).reshape(70, 33)
    for entry, launched in transpose.entries.items():
        kernel = replace(transpose, entries={entry: launched})
        for _ in range(2):
            np.testing.assert_array_equal(kernel(on_gpu(a)).get(), a.T)


def test_launches_from_threads_without_a_context(fake, prepared):
    made, pointers, read = prepared
    failed = []

    def work(at):
        try:
            for _ in range(200):
                made(0, pointers[0], pointers[at])
                assert libcuda.current_context() == 0
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(at,)) for at in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    fake._context.synchronize()
    assert not failed
    for at in range(1, 9):
        np.testing.assert_array_equal(read(at), np.arange(1, 1001))
    assert len(made._free) <= 8


@pytest.mark.parametrize("own_stream", [False, True])
def test_a_launch_while_another_context_is_current(fake, prepared, own_stream):
    import pycuda.driver as driver

    made, pointers, read = prepared
    context = driver.Device(0).make_context()
    try:
        made(fake.stream.handle if own_stream else 0, pointers[0], pointers[1])
    finally:
        context.pop()
        context.detach()
    fake._context.synchronize()
    np.testing.assert_array_equal(read(1), np.arange(1, 1001))


def test_a_launch_that_interrupts_another_does_not_change_it(fake, prepared):
    """A signal handler may launch between the writing and the reading of the pointers."""
    made, pointers, read = prepared
    made(0, pointers[0], pointers[3])  # its record is what the next call takes
    write, go = made._free.pop()
    depth = []

    def interrupted(*values):
        write(*values)
        if not depth:
            depth.append(1)
            made(0, pointers[0], pointers[2])

    made._free.append((interrupted, go))
    made(0, pointers[0], pointers[1])
    fake._context.synchronize()
    for at in (1, 2):
        np.testing.assert_array_equal(read(at), np.arange(1, 1001))
    assert len(made._free) == 2


def test_a_launch_goes_to_the_given_stream_and_is_not_waited_for(fake, prepared):
    import pycuda.driver as driver

    made, pointers, read = prepared
    driver.memset_d8(pointers[1], 0, 4000)
    flag = driver.pagelocked_zeros(1, np.int32, mem_flags=driver.host_alloc_flags.DEVICEMAP)
    text = "__global__ void wait(const volatile int* flag) { for (long i = 0; i < 1L << 32 && *flag == 0; i++) {} }"
    wait = cuda.compiled(text, "wait.cu").get_function("wait").prepare("P")
    stream = driver.Stream(1)
    wait.prepared_async_call((1, 1), (1, 1, 1), stream, int(flag.base.get_device_pointer()))
    made(stream.handle, pointers[0], pointers[1])
    assert not stream.is_done()
    made(0, pointers[0], pointers[2])  # which runs at once
    np.testing.assert_array_equal(read(2), np.arange(1, 1001))
    assert not read(1).any()
    flag[0] = 1
    stream.synchronize()
    np.testing.assert_array_equal(read(1), np.arange(1, 1001))


def test_what_the_driver_refuses_is_an_error_that_says_so(fake, kernel, tmp_path):
    spec = Path(kernel.file)
    spec.write_text(spec.read_text().replace("(threads,), (x, y", "(2048,), (x, y"))
    with pytest.raises(LaunchError, match="gelu: gelu_scalar: the driver said CUDA_ERROR_INVALID_VALUE"):
        find.kernel(kernel.file)(on_gpu(X))


# ---- the mode api ----------------------------------------------------------------------------------------------------


def api_cases(fake):
    (group,) = plan.groups(["gelu"], "1000", "")
    job = Job(fake, Selection(only=("pycuda",)), ("launch", "api"), 0, 0.05, lambda text: None)
    return {case.label: case for case in cases_of(job, group)}


@pytest.mark.sweep
def test_a_call_is_timed_as_a_user_makes_it(fake, torch, monkeypatch):
    """The call gets tensors on the lab's own buffers and launches on the lab's stream."""
    kept = []  # memory of the host, which must not be used again before the stand-in has done its work

    def keeping(make):
        def made(*args, **kwargs):
            kept.append(make(*args, **kwargs))
            return kept[-1]

        return made

    def tensors(operands):
        def tensor(array):
            buffer = (ctypes.c_float * array.size).from_address(array.ptr)
            return torch.frombuffer(buffer, dtype=torch.float32).view(array.shape)

        return [tensor(array) for array in operands.inputs.values()]

    monkeypatch.setattr(pycuda_backend, "torch_missing", lambda device: None)
    monkeypatch.setattr(_torch, "tensors", tensors)
    monkeypatch.setattr(torch, "empty_like", keeping(torch.empty_like))
    monkeypatch.setattr(arrays.TorchTensors, "empty", staticmethod(keeping(arrays.TorchTensors.empty)))
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: fake.stream.handle, raising=False)
    monkeypatch.setattr(arrays.TorchTensors, "stream", staticmethod(lambda tensor: fake.stream.handle))
    cases = api_cases(fake)
    assert not [f"{c.label} {c.reason}" for c in cases.values() if c.status not in (record.OK, record.CEILING)]
    assert "api" in cases["pycuda:gelu_scalar"].times
    assert "api" not in cases["pycuda:gelu_vec"].times
    assert "api" not in cases["copy"].times
    assert len(kept) > API_WARM_UPS + LEAST_ROUNDS  # a slow stand-in gets few calls a round


@pytest.mark.sweep
def test_where_torch_sees_no_gpu_a_note_says_so(fake):
    cases = api_cases(fake)
    called = cases["pycuda:gelu_scalar"]
    assert called.status == record.OK, called.reason
    assert "api" not in called.times
    assert any(note.startswith("no api time: api is the time of gelu(x) on torch") for note in called.notes)
    assert not any("api" in note for note in cases["pycuda:gelu_vec"].notes)
