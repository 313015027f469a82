"""On a GPU: names of C++, cooperative launches, clusters, large shared memory, constants."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from cudalab.base.errors import LaunchError
from cudalab.device import constants, cuda, driver, launch, limits
from cudalab.engine.check_plan import checks
from cudalab.engine.job import Job
from cudalab.engine.kernel_round import cases as cases_of
from cudalab.engine.selection import Selection
from cudalab.results import record
from cudalab.spec import find
from cudalab.spec.dtype import dtype
from cudalab.spec.kernel import Budget, Kernel, Launch

pytestmark = pytest.mark.gpu
DATA = Path(__file__).parents[1] / "data" / "launch"


def needs_clusters() -> None:
    if not limits.device_attribute(driver.current_context(), limits.CLUSTER_LAUNCH):
        pytest.skip("this GPU has no clusters")


@pytest.mark.parametrize(
    ("name", "only"), [("names", ("pycuda", "cupy_raw")), ("grid_sync", ("pycuda",)), ("cluster", ("pycuda",))]
)
def test_parity(gpu, name, only):
    if name == "cluster":
        needs_clusters()
    for group in checks([str(DATA / f"{name}.py")], "all"):
        for case in cases_of(Job(gpu, Selection(only=only), (), 0, 0.1, lambda text: None), group):
            assert case.status in (record.OK, record.SKIPPED), f"{case.label}: {case.reason}"
            assert case.status == record.OK or case.label.startswith("cupy"), f"{case.label}: {case.reason}"


@pytest.mark.parametrize(("name", "entry"), [("grid_sync", "normalize"), ("cluster", "reverse_dynamic")])
def test_launch_attributes_in_a_graph_and_in_a_call(gpu, name, entry):
    if name == "cluster":
        needs_clusters()
    kernel, kind = find.kernel(str(DATA / f"{name}.py")), dtype("float32")
    given = kernel.make(next(iter(kernel.sizes.values())), kind)
    operands = gpu.place(kernel, kind, given)
    arrays = operands.by_name(kernel)
    expected = np.asarray(kernel.reference(**{n: a.astype(np.float64) for n, a in given.items()}))
    run = launch.on_stream(kernel, entry, kind, operands)
    run()
    np.testing.assert_allclose(gpu.fetch(arrays["y"]), expected, rtol=1e-5)
    gpu.poison(arrays["y"])
    driver.begin_capture(operands.stream.handle)
    run()
    driver.replayer(driver.instantiate(driver.end_capture(operands.stream.handle)), operands.stream.handle)()
    np.testing.assert_allclose(gpu.fetch(arrays["y"]), expected, rtol=1e-5)
    gpu.poison(arrays["y"])
    prepared = launch.for_call(kernel, entry, kind, arrays, driver.current_context())
    prepared(operands.stream.handle, *(array.ptr for array in arrays.values()))
    np.testing.assert_allclose(gpu.fetch(arrays["y"]), expected, rtol=1e-5)
    gpu.release()


def shared(tmp_path: Path, nbytes: int, grid: int = 1, cooperative: bool = False) -> Kernel:
    (tmp_path / "k.cu").write_text("""extern __shared__ float s[];
__global__ void k(float* y, const float* x, int last) {
    s[last - 64 + threadIdx.x] = x[threadIdx.x];
    y[threadIdx.x] = 2 * s[last - 64 + threadIdx.x];
}""")
    args = np.int32(nbytes // 4)
    return Kernel(
        file=str(tmp_path / "k.py"), summary="y = 2 x", dtypes=("float32",), sizes={"small": (64,)}, edges=((64,),),
        reference=lambda x: 2 * x, budgets={"float32": Budget(0)}, output="y",
        entries={"k": lambda x, y: Launch((grid,), (64,), (y, x, args), nbytes, cooperative)},
    )  # fmt: skip


def ran(gpu, kernel: Kernel) -> np.ndarray:
    operands = gpu.place(kernel, dtype("float32"), {"x": np.arange(64, dtype=np.float32)})
    launch.on_stream(kernel, "k", dtype("float32"), operands)()
    return gpu.fetch(operands.output)


def test_all_the_shared_memory_that_a_block_can_have(gpu, tmp_path):
    most = limits.most_shared(driver.current_context())
    np.testing.assert_array_equal(ran(gpu, shared(tmp_path, most // 4 * 4)), 2 * np.arange(64))
    with pytest.raises(LaunchError, match=f"this GPU has {most:,} per block"):
        ran(gpu, shared(tmp_path, most + 4))


def test_a_grid_that_the_gpu_does_not_hold_at_once(gpu, tmp_path):
    with pytest.raises(LaunchError, match=r"of 99999 blocks of 64 threads is too large: this GPU holds \d+ of them"):
        ran(gpu, shared(tmp_path, 1024, grid=99999, cooperative=True))


def test_constants(gpu):
    text = (DATA / "constants.cu").read_text()
    module, context, pycuda = cuda.compiled(text, "constants.cu"), driver.current_context(), driver.pycuda()
    code = cuda._cubin(text, "constants.cu", (), None, (), (), driver.card(context).target)
    given = partial(constants.set_constant, text, code, of_module=module.get_global, context=context)
    given("weights", np.array([1, 2, 3], np.float32))
    given("params::bias", np.array(10.0))
    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    module.get_function("filter")(pycuda.Out(y), pycuda.In(x), np.int32(8), block=(8, 1, 1))
    np.testing.assert_array_equal(y, np.convolve(x, [3, 2, 1], "same") + 10)
