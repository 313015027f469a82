"""Names of C++, cooperative launches, clusters, large shared memory and constants through PyCUDA and libcuda."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cudalab.base.errors import InputError, LaunchError, NotFound
from cudalab.device import constants, cuda, driver, launch
from cudalab.engine.check_plan import checks
from cudalab.engine.groups import Group
from cudalab.engine.job import Job
from cudalab.engine.kernel_round import cases as cases_of
from cudalab.engine.selection import Selection
from cudalab.results import record
from cudalab.spec import find
from cudalab.spec.dtype import dtype
from cudalab.spec.kernel import Budget, Kernel, Launch

DATA = Path(__file__).parents[1] / "data" / "launch"


@pytest.mark.parametrize("name", ["grid_sync", "cluster", pytest.param("names", marks=pytest.mark.sweep)])
def test_parity(fake, name):
    for group in checks([str(DATA / f"{name}.py")], "all"):
        for case in cases_of(Job(fake, Selection(only=("pycuda",)), (), 0, 0.1, lambda text: None), group):
            assert case.status == record.OK, f"{case.label}: {case.reason}"


@pytest.mark.parametrize(
    ("name", "entry"),
    [("grid_sync", "normalize"), ("cluster", "reverse_dynamic"), ("cluster", "reverse"), ("names", "scale<2, float>")],
)
def test_it_is_captured_in_a_graph_and_called_from_python(fake, name, entry):
    kernel, kind = find.kernel(str(DATA / f"{name}.py")), dtype("float32")
    given = kernel.make(next(iter(kernel.sizes.values())), kind)
    operands = fake.place(kernel, kind, given)
    run = launch.on_stream(kernel, entry, kind, operands)
    expected = np.asarray(kernel.reference(**{n: a.astype(np.float64) for n, a in given.items()}))
    output = operands.by_name(kernel)["y"]
    run()
    np.testing.assert_allclose(fake.fetch(output), expected, rtol=1e-5)
    fake.poison(output)
    driver.begin_capture(operands.stream.handle)
    run()
    graph = driver.end_capture(operands.stream.handle)
    driver.replayer(driver.instantiate(graph), operands.stream.handle)()
    np.testing.assert_allclose(fake.fetch(output), expected, rtol=1e-5)
    fake.poison(output)
    arrays = operands.by_name(kernel)
    prepared = launch.for_call(kernel, entry, kind, arrays, driver.current_context())
    prepared(operands.stream.handle, *(array.ptr for array in arrays.values()))
    np.testing.assert_allclose(fake.fetch(output), expected, rtol=1e-5)
    fake.release()


def twice(tmp_path: Path, text: str, grid: tuple[int, ...] = (1,), **how: Any) -> Kernel:
    (tmp_path / "k.cu").write_text(text)
    return Kernel(
        file=str(tmp_path / "k.py"), summary="y = 2 x", dtypes=("float32",), sizes={"small": (64,)}, edges=((64,),),
        reference=lambda x: 2 * x, budgets={"float32": Budget(0)}, output="y",
        entries={"k": lambda x, y: Launch(grid, (64,), (y, x), **how)},
    )  # fmt: skip


SHARED = """extern __shared__ float s[];
__global__ void k(float* y, const float* x) {
    s[threadIdx.x + 20000] = x[threadIdx.x];
    y[threadIdx.x] = 2 * s[threadIdx.x + 20000];
}"""
CLUSTER = """#include <cooperative_groups.h>
__global__ void k(float* y, const float* x) {
    cooperative_groups::this_cluster().sync();
    y[threadIdx.x] = 2 * x[threadIdx.x];
}"""


def ran(fake, kernel: Kernel) -> np.ndarray:
    operands = fake.place(kernel, dtype("float32"), {"x": np.arange(64, dtype=np.float32)})
    launch.on_stream(kernel, "k", dtype("float32"), operands)()
    return fake.fetch(operands.output)


def test_shared_memory_beyond_48_kb_is_opted_in(fake, tmp_path):
    kernel = twice(tmp_path, SHARED, shared=100_000)
    np.testing.assert_array_equal(ran(fake, kernel), 2 * np.arange(64))
    operands = fake.place(kernel, dtype("float32"), {"x": np.arange(64, dtype=np.float32)})
    arrays = operands.by_name(kernel)
    launch.for_call(kernel, "k", dtype("float32"), arrays, driver.current_context())(
        operands.stream.handle, *(array.ptr for array in arrays.values())
    )
    np.testing.assert_array_equal(fake.fetch(operands.output), 2 * np.arange(64))


def test_shared_memory_that_no_block_has_is_refused_with_the_number(fake, tmp_path):
    with pytest.raises(LaunchError, match="k: 300,000 bytes of dynamic shared memory; this GPU has 232,448 per block"):
        ran(fake, twice(tmp_path, SHARED, shared=300_000))


def test_a_grid_that_the_gpu_does_not_hold_at_once_is_refused_with_the_number(fake, tmp_path):
    with pytest.raises(LaunchError, match=r"of 9999 blocks of 64 threads is too large: this GPU holds \d+ of them"):
        ran(fake, twice(tmp_path, SHARED.replace("20000", "0"), shared=256, grid=(9999,), cooperative=True))


def test_a_large_cluster_is_opted_in(fake, tmp_path):
    kernel = twice(tmp_path, CLUSTER, grid=(16,), cluster=(16,))
    np.testing.assert_array_equal(ran(fake, kernel), 2 * np.arange(64))


def test_constants(fake):
    text = (DATA / "constants.cu").read_text()
    module, context = cuda.compiled(text, "constants.cu"), driver.current_context()
    code = cuda._cubin(text, "constants.cu", (), None, (), (), driver.card(context).target)
    given = partial(constants.set_constant, text, code, of_module=module.get_global, context=context)
    given("weights", np.array([1, 2, 3], np.float32))
    given("params::bias", np.array(10.0))
    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    module.get_function("filter")(driver.pycuda().Out(y), driver.pycuda().In(x), np.int32(8), block=(8, 1, 1))
    np.testing.assert_array_equal(y, np.convolve(x, [3, 2, 1], "same") + 10)
    with pytest.raises(NotFound, match="did you mean 'weights'"):
        given("wights", x)
    with pytest.raises(InputError, match=r"got 32 bytes \(shape \(8,\)\), and it has 12 bytes"):
        given("weights", x)
    with pytest.raises(InputError, match="declared as float"):
        given("weights", np.ones(3))
    assert driver.global_of(code, context, "weights")[1] == 12


def test_a_number_that_is_the_address_of_memory_is_refused(fake, tmp_path):
    (tmp_path / "twice.cu").write_text(
        "__global__ void twice(const float* x, float* y, long long n, unsigned long long seed) {\n"
        "    if (threadIdx.x < n) y[threadIdx.x] = 2 * x[threadIdx.x];\n}\n"
    )
    mine = driver.pycuda().mem_alloc(1 << 10)
    for seed, refused in ((42, False), (2**63 + 5, False), (int(mine), True), (int(mine) + 8, True)):
        kernel = Kernel(
            file=str(tmp_path / "twice.py"), summary="", dtypes=("float32",), sizes={"small": (64,)}, edges=((1,),),
            reference=lambda x: 2 * x, budgets={"float32": Budget(0)},
            entries={"twice": lambda x, y, seed=seed: Launch((1,), (64,), (x, y, np.int64(x.size), np.uint64(seed)))},
        )  # fmt: skip
        group = Group(kernel, "small", (64,), dtype("float32"))
        (case,) = cases_of(Job(fake, Selection(only=("pycuda",)), (), 0, 0.1, lambda text: None), group)
        assert (case.status == record.ERROR) == refused, case.reason
        if refused:
            assert "twice: argument 4 is the address of memory of a GPU; give the array itself" in case.reason
