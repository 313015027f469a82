"""On a GPU: names of C++, cooperative launches, clusters, large shared memory, constants."""

from __future__ import annotations

import launching
import numpy as np
import pytest

from cudalab.base.errors import LaunchError
from cudalab.device import driver, limits

pytestmark = pytest.mark.gpu


def needs_clusters() -> None:
    if not limits.device_attribute(driver.current_context(), limits.CLUSTER_LAUNCH):
        pytest.skip("this GPU has no clusters")


@pytest.mark.parametrize(
    ("name", "only"), [("names", ("pycuda", "cupy_raw")), ("grid_sync", ("pycuda",)), ("cluster", ("pycuda",))]
)
def test_parity(gpu, name, only):
    if name == "cluster":
        needs_clusters()
    launching.assert_parity(gpu, name, *only)


@pytest.mark.parametrize(("name", "entry"), [("grid_sync", "normalize"), ("cluster", "reverse_dynamic")])
def test_launch_attributes_in_a_graph_and_in_a_call(gpu, name, entry):
    if name == "cluster":
        needs_clusters()
    launching.assert_in_a_graph_and_in_a_call(gpu, name, entry)


def test_all_the_shared_memory_that_a_block_can_have(gpu, tmp_path):
    most = limits.most_shared(driver.current_context())
    kernel = launching.at_the_end_of_shared(tmp_path, most // 4 * 4)
    np.testing.assert_array_equal(launching.ran(gpu, kernel), 2 * launching.X)
    with pytest.raises(LaunchError, match=f"this GPU has {most:,} per block"):
        launching.ran(gpu, launching.at_the_end_of_shared(tmp_path, most + 4))


def test_a_grid_that_the_gpu_does_not_hold_at_once(gpu, tmp_path):
    kernel = launching.at_the_end_of_shared(tmp_path, 1024, grid=(99999,), cooperative=True)
    with pytest.raises(LaunchError, match=r"of 99999 blocks of 64 threads is too large: this GPU holds \d+ of them"):
        launching.ran(gpu, kernel)


def test_constants(gpu):
    launching.constants_of_a_filter()
