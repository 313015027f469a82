"""Kernels called as functions with unmodified PyCUDA on the CPU stand-in: first calls, repeated ones, launches."""

from __future__ import annotations

import ctypes
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import several
import specs
from cpu_rows import rows

from cudalab import Budget, Kernel, Launch, Scalar
from cudalab.backends import _torch
from cudalab.backends import pycuda as pycuda_backend
from cudalab.base.errors import InputError, LaunchError
from cudalab.call import fast_path
from cudalab.call import libraries as arrays
from cudalab.device import cuda, gpu, launch
from cudalab.device import driver as libcuda
from cudalab.device.arrays import DeviceArray
from cudalab.engine import judge, plan
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
def kernel(fake):
    """The lab's gelu as a kernel without earlier calls."""
    return replace(gelu)


@pytest.fixture
def copied(fake, tmp_path):
    """The same in files that a test may edit."""
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


@pytest.fixture
def firsts(fake, monkeypatch):
    """A list that gets the kernel's name for each call that is checked."""
    seen, real = [], fast_path.run
    monkeypatch.setattr(fast_path, "run", lambda kernel, *given: seen.append(kernel.name) or real(kernel, *given))
    return seen


def adam_of(numbers, **scalars):
    """Four arrays on the stand-in, and what one step makes of the first with these scalars."""
    own = {"lr": 0.01, "b1": 0.9, "b2": 0.999} | scalars
    wide = [np.full(1000, value, np.float32) for value in numbers]
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = [float(np.float32(own[name])) for name in ("lr", "b1", "b2")]
        want = several.step(*(one.astype(float) for one in wide), *rounded)[0]
    return [on_gpu(one) for one in wide], want


def doubled(p, m, v, g, lr, b1, b2):
    """A launch function that computes with one scalar; another one decides about the grid."""
    grid = -(-p.size // 128) if b2 > 0 else 1
    return Launch((grid,), (128,), (p, m, v, g, np.float32(2 * lr), b1, b2, np.int32(p.size)))


@pytest.mark.parametrize("entries", [{}, {"entries": {"adam": doubled}}], ids=["passed", "computed"])
def test_scalars_that_change_are_not_checked_again(fake, firsts, tmp_path, entries):
    adam, times = several.adam(tmp_path, **entries), 2 if entries else 1
    for i in range(6):
        given = {"lr": 0.25 * i, "b1": [0.5, 1, np.float32(0.75)][i % 3]}
        arrays, want = adam_of((1, 2, 3, 4), lr=times * given["lr"], b1=given["b1"])
        p, m, _ = adam(*arrays, **given)
        assert p is arrays[0] and m is arrays[1]
        np.testing.assert_allclose(p.get(), want, rtol=1e-5)
    for again in range(2):  # other scalars are given: calls of another kind
        arrays, want = adam_of((1, 2, 3, 4))
        np.testing.assert_allclose(adam(*arrays, lr=0.01 / times)[0].get(), want, rtol=1e-5)
        assert len(firsts) == 2, again
    for lr in (0.0, -0.0, 1e300):  # float32 has no 1e300: infinity
        arrays, want = adam_of((0, 0, 3, 0), lr=lr)
        got = adam(*arrays, lr=lr)[0].get()
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want))
    for wrong, message in (({"lr": "x"}, "the scalar lr"), ({"rate": 1}, "takes no 'rate'")):
        with pytest.raises(InputError, match=message):
            adam(*arrays, **wrong)
    shared = arrays[0][128:]
    same = [one[:872] for one in arrays]
    adam(*same, lr=0.5)
    with pytest.raises(InputError, match="p overlaps 'm'"):
        adam(same[0], shared, *same[2:], lr=0.5)
    assert arrays[0][:128].get().shape == (128,)


def test_a_grid_that_depends_on_a_scalar(fake, firsts, tmp_path):
    adam = several.adam(tmp_path, entries={"adam": doubled})
    for b2 in (0.5, -1.0, 0.5, -1.0, 0.25):
        arrays, want = adam_of((1, 2, 3, 4), lr=0.2, b2=b2)
        got = adam(*arrays, lr=0.1, b2=b2)[0].get()
        reached = 1000 if b2 > 0 else 128
        np.testing.assert_allclose(got[:reached], want[:reached], rtol=1e-5)
        assert (got[reached:] == 1).all()
    assert len(firsts) == 1


def test_a_scalar_may_be_the_grid_and_choose_the_function(fake, firsts, tmp_path):
    body = "(const scalar_t* x, scalar_t* y, int k) { int i = blockIdx.x * 4 + threadIdx.x; y[i] = {} * x[i]; }\n"
    text = "".join(f"__global__ void {name}{body.replace('{}', f)}" for name, f in (("two", "k"), ("more", "9 * k")))
    kernel = specs.kernel(
        tmp_path, "two", text, scalars={"k": Scalar(4, "int32")}, reference=lambda x, k: x,
        entries={"two": lambda x, y, k: Launch((k,), (4,), (x, y, k), entry="" if k % 4 else "more")},
    )  # fmt: skip
    x = on_gpu(np.arange(64, dtype=np.float32))
    for k in (4, 3, 4, 2, 8, 1):
        got = kernel(x, k=k).get()[: 4 * k]
        np.testing.assert_array_equal(got, (k if k % 4 else 9 * k) * np.arange(4 * k, dtype=np.float32))


def test_a_length_among_the_scalars_is_another_shape(fake, firsts, tmp_path):
    (tmp_path / "head.cu").write_text(
        "__global__ void head(const scalar_t* x, scalar_t* y, int k) {\n"
        "    if (threadIdx.x < k) y[threadIdx.x] = x[threadIdx.x];\n}\n"
    )
    kernel = Kernel(
        file=str(tmp_path / "head.py"), summary="", dtypes=("float32",), sizes={"small": (300,)}, edges=(),
        shapes={"x": "n", "y": "k"}, scalars={"k": Scalar(4, "int32")}, reference=lambda x, k: x[:k],
        entries={"head": lambda x, y, k: Launch((1,), (128,), (x, y, k))}, budgets=Budget(0),
    )  # fmt: skip
    x = on_gpu(X)
    for k in (3, 5, 3, 5):
        np.testing.assert_array_equal(kernel(x, k=k).get(), X[:k])
    np.testing.assert_array_equal(kernel(x).get(), X[:4])
    assert len(firsts) == 3


def test_several_outputs_a_workspace_and_several_launches(fake, firsts, tmp_path):
    count, x = several.count(tmp_path), on_gpu(np.ones(1000, np.float32))
    whole = on_gpu(np.ones(8, np.int32))
    given = on_gpu(np.zeros(1, np.float32)), whole[:2]
    for out in (None, given):
        for _ in range(3):  # `counts` begins at zero each time
            total, counts = count(x, out=out)
            assert (total.get().tolist(), counts.get().tolist()) == ([1000.0], [0, 1000])
    assert total is given[0] and counts is given[1]
    assert len(firsts) == 2
    for wrong, message in (
        ((), "out has 0 arrays"),
        ((given[0],), "out has 1 arrays"),
        ((x[:1], given[1]), "total of out overlaps 'x'"),
    ):
        with pytest.raises(InputError, match=message):
            count(x, out=wrong)
    with pytest.raises(InputError, match="takes 1 array, got 2"):
        count(x, given[0], out=given[1:])


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


def test_an_edited_file_counts_for_all_shapes_once_one_is_new(copied):
    x = on_gpu(X)
    before = copied(x).get()
    copied.cu.write_text(copied.cu.read_text().replace("scalar_t(gelu(", "scalar_t(-gelu("))
    np.testing.assert_array_equal(copied(x).get(), before)
    copied(on_gpu(X[:10]))
    np.testing.assert_array_equal(copied(x).get(), -before)


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


def test_torch_tensors_with_several_outputs(fake, torch, firsts, tmp_path):
    rms, adam, w = several.rms(tmp_path), several.adam(tmp_path), torch.randn(5)
    kept = []  # memory of the host, which must not be used again before the stand-in has done its work
    for turn, eps in enumerate((0.1, 0.2, 0.3)):
        for grad in (False, True):
            x = torch.randn(3, 5, requires_grad=grad)
            y, scale = done(fake, rms(x, w, eps=eps))
            kept += [x, y, scale]
            for got, want in zip((y, scale), several.rms_form(x, w, eps), strict=True):
                torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)
            assert y.requires_grad is grad
        assert firsts == ["rms"], turn
    (grad,) = torch.autograd.grad(y.sum(), x)
    (want,) = torch.autograd.grad(several.rms_form(x, w, 0.3)[0].sum(), x)
    torch.testing.assert_close(done(fake, grad), want, rtol=1e-4, atol=1e-5)
    p, *rest = (torch.ones(9) for _ in range(4))
    for lr in (0.5, 0.25):
        version = p._version
        assert done(fake, adam(p, *rest, lr=lr))[0] is p
        assert p._version > version
    assert firsts == ["rms", "adam"]
    with pytest.raises(InputError, match="not differentiable"):
        adam(p.clone().requires_grad_(), *rest, lr=0.5)
    for wrong, message in ((rest[0][::2], "not C-contiguous"), (torch._neg_view(p), "negative view")):
        with pytest.raises(InputError, match=message):
            adam(wrong, *rest, lr=0.5)

    own = p.as_subclass(type("Own", (torch.Tensor,), {"__module__": "torch"}))
    assert done(fake, adam(own, *rest, lr=0.5))[0] is own
    assert firsts[-1] == "adam"  # a subclass may behave in any way: each such call is checked


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


class Prepared:
    """plus_one for 1,000 integers in the primary context, from the first of nine buffers of so many to the others."""

    def __init__(self, fake):
        import pycuda.driver as driver

        self.fake, self.driver = fake, driver
        self.memory = [driver.mem_alloc(4000) for _ in range(9)]
        self.pointers = [int(one) for one in self.memory]
        arrays = {n: DeviceArray((1000,), np.dtype(np.int32), p) for n, p in zip("xy", self.pointers, strict=False)}
        self.made = launch.for_call(plus_one, "plus_one_vec", dtype("int32"), arrays, libcuda.primary_context(0))
        driver.memcpy_htod(self.memory[0], np.arange(1000, dtype=np.int32))
        fake._context.synchronize()  # pageable memory: the copy may arrive after the call, our stream does not wait

    def launch(self, to, stream=0):
        self.made(stream, self.pointers[0], self.pointers[to])

    def read(self, at):
        back = np.empty(1000, np.int32)
        self.driver.memcpy_dtoh(back, self.memory[at])
        return back

    def assert_right(self, *buffers):
        self.fake._context.synchronize()
        for at in buffers:
            np.testing.assert_array_equal(self.read(at), np.arange(1, 1001))


@pytest.fixture
def prepared(fake):
    return Prepared(fake)


def test_a_driver_that_launches_without_a_configuration(prepared, monkeypatch):
    """A driver older than CUDA 11.8."""
    old = SimpleNamespace(cuLaunchKernel=libcuda.libcuda().cuLaunchKernel)
    monkeypatch.setattr(libcuda, "libcuda", lambda: old)
    prepared.launch(1)
    prepared.launch(2)
    prepared.assert_right(1, 2)


def test_a_block_of_two_dimensions(fake):
    a = np.arange(70 * 33, dtype=np.float32).reshape(70, 33)
    for entry, launched in transpose.entries.items():
        kernel = replace(transpose, entries={entry: launched})
        for _ in range(2):
            np.testing.assert_array_equal(kernel(on_gpu(a)).get(), a.T)


def test_launches_from_threads_without_a_context(prepared):
    def work(to):
        for _ in range(200):
            prepared.launch(to)
            assert libcuda.current_context() == 0

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(1, 9)))
    prepared.assert_right(*range(1, 9))
    assert len(prepared.made._free) <= 8


@pytest.mark.parametrize("own_stream", [False, True])
def test_a_launch_while_another_context_is_current(fake, prepared, own_stream):
    context = prepared.driver.Device(0).make_context()
    try:
        prepared.launch(1, fake.stream.handle if own_stream else 0)
    finally:
        context.pop()
        context.detach()
    prepared.assert_right(1)


def test_a_launch_that_interrupts_another_does_not_change_it(prepared):
    """A signal handler may launch between the writing and the reading of the pointers."""
    prepared.launch(3)  # its record is what the next call takes
    write, go = prepared.made._free.pop()
    depth = []

    def interrupted(*values):
        write(*values)
        if not depth:
            depth.append(1)
            prepared.launch(2)

    prepared.made._free.append((interrupted, go))
    prepared.launch(1)
    prepared.assert_right(1, 2)
    assert len(prepared.made._free) == 2


def test_a_launch_goes_to_the_given_stream_and_is_not_waited_for(prepared):
    driver = prepared.driver
    driver.memset_d8(prepared.pointers[1], 0, 4000)
    flag = driver.pagelocked_zeros(1, np.int32, mem_flags=driver.host_alloc_flags.DEVICEMAP)
    text = "__global__ void wait(const volatile int* flag) { for (long i = 0; i < 1L << 32 && *flag == 0; i++) {} }"
    wait = cuda.compiled(text, "wait.cu").get_function("wait").prepare("P")
    stream = driver.Stream(1)
    wait.prepared_async_call((1, 1), (1, 1, 1), stream, int(flag.base.get_device_pointer()))
    prepared.launch(1, stream.handle)
    assert not stream.is_done()
    prepared.launch(2)  # which runs at once
    np.testing.assert_array_equal(prepared.read(2), np.arange(1, 1001))
    assert not prepared.read(1).any()
    flag[0] = 1
    prepared.assert_right(1)


def test_what_the_driver_refuses_is_an_error_that_says_so(copied):
    spec = Path(copied.file)
    spec.write_text(spec.read_text().replace("(threads,), (x, y", "(2048,), (x, y"))
    with pytest.raises(LaunchError, match="gelu: gelu_scalar: the driver said CUDA_ERROR_INVALID_VALUE"):
        find.kernel(copied.file)(on_gpu(X))


# ---- the mode api ----------------------------------------------------------------------------------------------------


def api_cases(fake):
    (group,) = plan.groups(["gelu"], "1000", "")
    return {case.label: case for case in rows(fake, group, "pycuda", modes=("launch", "api"), budget=0.05)}


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
