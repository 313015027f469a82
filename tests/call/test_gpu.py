"""What only a GPU can show: zero-copy calls on other libraries' streams, graphs, and clocks that tell the truth."""

from __future__ import annotations

import json
import threading

import numpy as np
import pytest
from click.testing import CliRunner

from cudalab import backends, timing
from cudalab.base.errors import InputError, Unavailable
from cudalab.cli import main
from cudalab.device import cuda, launch
from cudalab.device import driver as libcuda
from cudalab.device.arrays import DeviceArray
from cudalab.device.open import open_gpu
from cudalab.device.operands import Bound
from cudalab.engine import plan
from cudalab.engine.job import Job
from cudalab.engine.kernel_round import cases as cases_of
from cudalab.engine.selection import Selection
from cudalab.kernels.add2d import add2d
from cudalab.kernels.gelu import gelu
from cudalab.kernels.plus_one import plus_one
from cudalab.results import record
from cudalab.spec.dtype import dtype

pytestmark = pytest.mark.gpu
DTYPES = ("float32", "float16", "bfloat16")


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


@pytest.fixture(scope="module")
def cupy():
    return pytest.importorskip("cupy")


def right(got, x, name):
    from cudalab.checks.expected import expected
    from cudalab.checks.parity import compare

    want = expected(gelu, {"x": x})
    parity = compare(got, want, dtype(name), gelu.budget(dtype(name)))
    assert parity.ok, parity.message


# ---- calls -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DTYPES)
def test_torch_tensors(gpu, torch, name):
    x = torch.randn(1000, 37, device="cuda", dtype=getattr(torch, name))
    y = gelu(x)
    assert (y.dtype, y.shape, y.device) == (x.dtype, x.shape, x.device)
    from cudalab.device.arrays import as_plain

    right(as_plain(y.cpu()), as_plain(x.cpu()), name)
    out = torch.empty_like(x)
    assert gelu(x, out=out) is out
    assert torch.equal(out, y)
    assert torch.equal(gelu(x.clone()), y)


def test_a_misaligned_tensor_is_right(gpu, torch):
    x = torch.randn(300_001, device="cuda")  # so many that a call takes packs
    for start in (1, 2, 3, 5):
        torch.testing.assert_close(gelu(x[start:]), gelu(x[start:].clone()), rtol=0, atol=0)
        half = x.half()[start:]
        torch.testing.assert_close(gelu(half), gelu(half.clone()), rtol=0, atol=0)


@pytest.mark.parametrize("own_stream", [False, True])
@pytest.mark.parametrize("other_context", [False, True])
def test_a_launch_from_a_thread_with_another_context_or_none(gpu, own_stream, other_context):
    import pycuda.driver as driver

    memory = [driver.mem_alloc(4000) for _ in "xy"]
    driver.memcpy_htod(memory[0], np.arange(1000, dtype=np.int32))
    driver.memset_d8(memory[1], 0, 4000)
    driver.Context.synchronize()  # the lab's stream does not wait for copies from pageable memory
    arrays = {n: DeviceArray((1000,), np.dtype(np.int32), int(m)) for n, m in zip("xy", memory, strict=True)}
    made = launch.for_call(plus_one, "plus_one_vec", dtype("int32"), arrays, libcuda.primary_context(gpu.index))
    failed = []

    def work():
        context = driver.Device(gpu.index).make_context() if other_context else None
        try:
            made(gpu.stream.handle if own_stream else 0, *map(int, memory))
        except BaseException as error:
            failed.append(error)
        if context:
            context.pop()
            context.detach()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    gpu._context.synchronize()
    back = np.empty(1000, np.int32)
    driver.memcpy_dtoh(back, memory[1])
    assert not failed
    np.testing.assert_array_equal(back, np.arange(1, 1001))


@pytest.mark.parametrize("name", DTYPES[:2])
def test_cupy_arrays(gpu, cupy, name):
    x = cupy.random.standard_normal((3, 1001)).astype(name)
    y = gelu(x)
    assert isinstance(y, cupy.ndarray)
    right(cupy.asnumpy(y), cupy.asnumpy(x), name)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        z = gelu(x)
        stream.synchronize()
    assert (z == y).all()


def test_gpuarrays(gpu):
    from pycuda import gpuarray

    x = np.random.default_rng(0).standard_normal((5, 777), dtype=np.float32)
    y = gelu(gpuarray.to_gpu(x))
    assert isinstance(y, gpuarray.GPUArray)
    right(y.get(), x, "float32")


def test_bad_arguments_are_refused_before_a_launch(gpu, torch):
    x = torch.randn(8, 8, device="cuda")
    for call, message in (
        (lambda: gelu(x.t()), "not C-contiguous"),
        (lambda: gelu(x.double()), "has no float64"),
        (lambda: gelu(x, out=torch.empty(4, device="cuda")), "out has float32"),
        (lambda: gelu(x, out=torch.empty_like(x, device="cpu")), "one device"),
        (lambda: add2d(x, x.cpu()), "one device"),
        (lambda: add2d(x, x[:4]), "must agree"),
        (lambda: add2d(x.clone().requires_grad_(), x), "is not differentiable"),
        (lambda: gelu(x.view(-1)[1:], out=x.view(-1)[:-1]), "overlaps"),
    ):
        with pytest.raises(InputError, match=message):
            call()


# ---- the engine --------------------------------------------------------------------------------------------------


def spin(gpu, microseconds):
    """A kernel that lasts as long as the SM clock needs for so many cycles, on the given stream."""
    text = """extern "C" __global__ void spin(long long cycles) {
        const long long start = clock64();
        while (clock64() - start < cycles) {}
    }"""
    function = cuda.compiled(text, "spin.cu").get_function("spin").prepare("q")
    rate = gpu.attribute("CLOCK_RATE")  # kHz
    cycles = int(rate * 1e-3 * microseconds)
    return lambda stream: function.prepared_async_call((1, 1), (1, 1, 1), stream, cycles)


@pytest.mark.wall
def test_a_kernel_of_known_length_is_timed_right(gpu):
    work = spin(gpu, 200)
    for _ in range(200):
        work(gpu.stream)  # clocks rise under load
    clocks = timing.clocks(gpu, Bound(lambda: work(gpu.stream), lambda: None), ("launch",), [])
    for kind in ("cold", "hot"):
        seconds = float(np.median([s for _ in range(5) for s in clocks[kind].sample()]))
        assert seconds == pytest.approx(200e-6, rel=0.15), kind
    assert np.median(clocks["call"].sample()) < 100e-6
    gpu.release()


@pytest.mark.wall
def test_a_variant_that_waits_inside_is_marked(gpu):
    work = spin(gpu, 20)

    def waits():
        work(gpu.stream)
        gpu.stream.synchronize()

    notes = []
    clocks = timing.clocks(gpu, Bound(waits, lambda: None), ("launch",), notes)
    assert any("waits for the GPU inside the call" in note for note in notes)
    assert 15e-6 < min(clocks["cold"].sample()) < 500e-6  # others may have the GPU in between


@pytest.mark.wall
def test_the_state_of_the_gpu_is_read_while_it_works(gpu):
    if gpu.nvml.missing:
        pytest.skip(gpu.nvml.missing)
    state = gpu.condition()
    assert state["sm_hz"] > 1e9
    assert state["memory_hz"] > 1e9
    assert 50 < state["power_w"] < 2000


@pytest.mark.wall
def test_every_timed_backend_has_all_its_times(gpu):
    for name in ("gelu", "add2d"):
        (group,) = plan.groups([name], "small", "float32")
        job = Job(gpu, Selection(), ("launch", "graph"), 0, 0.05, lambda text: None)
        cases = {c.label: c for c in cases_of(job, group)}
        for label, case in cases.items():
            if reason := case.status == record.SKIPPED and backends.by_name()[case.backend].missing("cuda"):
                assert reason in case.reason  # a library that this machine lacks
                continue
            assert case.status in (record.OK, record.CEILING), f"{label}: {case.reason}"
            expected = {"cold", "hot", "graph", "graph_cold"} | (set() if case.allocates else {"call"})
            assert set(case.times) == expected, f"{label}: {case.notes}"
            assert case.median("graph_cold") > 0.9 * case.median("graph"), label
        assert cases["copy"].status == record.CEILING


@pytest.mark.wall
def test_a_bandwidth_above_the_ceiling_is_impossible_when_cold(gpu):
    (group,) = plan.groups(["plus_one"], "xlarge", "float32")
    job = Job(gpu, Selection(only=("pycuda", "torch_eager")), ("launch",), 0, 0.2, lambda text: None)
    cases = {c.label: c for c in cases_of(job, group)}
    for case in cases.values():
        assert case.median("cold") > 0.95 * cases["copy"].median("cold"), case.label


def test_no_such_gpu():
    with pytest.raises(Unavailable, match="no GPU number 99"):
        open_gpu(99, None)


# ---- the command -------------------------------------------------------------------------------------------------


def test_bench_on_the_gpu(gpu, tmp_path):
    out = tmp_path / "r.json"
    run = CliRunner().invoke(
        main, ["bench", "plus_one", "--sizes", "2^16", "--device", "cuda:0", "--budget", "0.05", "-o", str(out)]
    )
    assert run.exit_code == 0, run.output
    assert json.loads(out.read_text())["machine"]["device"] == "cuda"
    for word in ("copy (ceiling)", "cold", "graph", "x\n", "floor"):
        assert word.strip() in run.output
