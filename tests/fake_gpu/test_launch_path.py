"""Names of C++, cooperative launches, clusters, large shared memory and constants through PyCUDA and libcuda."""

from __future__ import annotations

import launching
import numpy as np
import pytest
import specs
from cpu_rows import rows

from cudalab.base.errors import InputError, LaunchError, NotFound
from cudalab.device import driver
from cudalab.engine.groups import Group
from cudalab.results import record
from cudalab.spec.dtype import dtype
from cudalab.spec.kernel import Launch


@pytest.mark.parametrize("name", ["grid_sync", "cluster", pytest.param("names", marks=pytest.mark.sweep)])
def test_parity(fake, name):
    launching.assert_parity(fake, name, "pycuda")


@pytest.mark.parametrize(
    ("name", "entry"),
    [("grid_sync", "normalize"), ("cluster", "reverse_dynamic"), ("cluster", "reverse"), ("names", "scale<2, float>")],
)
def test_it_is_captured_in_a_graph_and_called_from_python(fake, name, entry):
    launching.assert_in_a_graph_and_in_a_call(fake, name, entry)


def test_shared_memory_beyond_48_kb_is_opted_in(fake, tmp_path):
    kernel = launching.at_the_end_of_shared(tmp_path, 100_000)
    np.testing.assert_array_equal(launching.ran(fake, kernel), 2 * launching.X)


@pytest.mark.parametrize(
    ("nbytes", "how", "said"),
    [
        (300_000, {}, "k: 300,000 bytes of dynamic shared memory; this GPU has 232,448 per block"),
        (256, {"grid": (9999,), "cooperative": True}, r"of 9999 blocks .* is too large: this GPU holds \d+ of them"),
    ],
)  # fmt: skip
def test_what_the_gpu_does_not_hold_is_refused_with_the_number(fake, tmp_path, nbytes, how, said):
    with pytest.raises(LaunchError, match=said):
        launching.ran(fake, launching.at_the_end_of_shared(tmp_path, nbytes, **how))


CLUSTER = """#include <cooperative_groups.h>
__global__ void k(float* y, const float* x) {
    cooperative_groups::this_cluster().sync();
    y[threadIdx.x] = 2 * x[threadIdx.x];
}"""


def test_a_large_cluster_is_opted_in(fake, tmp_path):
    kernel = launching.twice(tmp_path, CLUSTER, grid=(16,), cluster=(16,))
    np.testing.assert_array_equal(launching.ran(fake, kernel), 2 * launching.X)


def test_constants(fake):
    given, code = launching.constants_of_a_filter()
    x = np.arange(8, dtype=np.float32)
    with pytest.raises(NotFound, match="did you mean 'weights'"):
        given("wights", x)
    with pytest.raises(InputError, match=r"got 32 bytes \(shape \(8,\)\), and it has 12 bytes"):
        given("weights", x)
    with pytest.raises(InputError, match="declared as float"):
        given("weights", np.ones(3))
    assert driver.global_of(code, driver.current_context(), "weights")[1] == 12


def test_a_number_that_is_the_address_of_memory_is_refused(fake, tmp_path):
    text = (
        "__global__ void twice(const float* x, float* y, long long n, unsigned long long seed) {\n"
        "    if (threadIdx.x < n) y[threadIdx.x] = 2 * x[threadIdx.x];\n}\n"
    )
    mine = driver.pycuda().mem_alloc(1 << 10)
    for seed, refused in ((42, False), (2**63 + 5, False), (int(mine), True), (int(mine) + 8, True)):
        entries = {"twice": lambda x, y, seed=seed: Launch((1,), (64,), (x, y, np.int64(x.size), np.uint64(seed)))}
        kernel = specs.kernel(tmp_path, "twice", text, reference=lambda x: 2 * x, entries=entries)
        group = Group(kernel, "small", (64,), dtype("float32"))
        (case,) = rows(fake, group, "pycuda")
        assert (case.status == record.ERROR) == refused, case.reason
        if refused:
            assert "twice: argument 4 is the address of memory of a GPU; give the array itself" in case.reason
