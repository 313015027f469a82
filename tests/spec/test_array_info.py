"""What launch functions, `called` and `constants` get of arrays."""

from __future__ import annotations

import numpy as np
import pytest
import specs

from cudalab import Launch, SpecError
from cudalab.device.arrays import DeviceArray
from cudalab.spec.array_info import ArrayInfo, infos

CU = "__constant__ float c[1];\n__global__ void k(const float* x, float* y, int n) {}\n"
ARRAYS = {"x": np.arange(6, dtype=np.float32).reshape(2, 3), "y": np.zeros((2, 3), np.float32)}


@pytest.mark.parametrize(("array", "itemsize"), [(ARRAYS["x"], 4), (DeviceArray((2, 3), np.dtype("float16"), 4096), 2)])
def test_an_info_has_the_shape_and_the_dtype_whatever_the_device(array, itemsize):
    info = infos({"x": array})["x"]
    assert (info.shape, info.ndim, info.size) == ((2, 3), 2, 6)
    assert (info.itemsize, info.nbytes) == (itemsize, 6 * itemsize)


@pytest.mark.parametrize(
    ("use", "what"),
    [
        (lambda x: x.max(), r"x\.max"),
        (lambda x: x.ptr, r"x\.ptr"),
        (lambda x: len(x), r"len\(x\)"),
        (lambda x: x[0], "an element of x"),
        (lambda x: list(x), "an element of x"),
        (lambda x: np.asarray(x), "a value of x"),
        (lambda x: 1 if x else 0, "a value of x"),
    ],
)
def test_what_a_gpu_would_not_tell_is_refused_by_name(use, what):
    said = f"{what} is not known before a launch; of an array there are shape, dtype, size"
    with pytest.raises(SpecError, match=said):
        use(ArrayInfo("x", (2, 3), np.dtype("float32")))


def test_functions_of_a_spec_get_infos_and_a_launch_the_arrays_that_they_stand_for(tmp_path):
    def launch(x, y):
        assert isinstance(x, ArrayInfo) and isinstance(y, ArrayInfo)
        return Launch((1,), (32,), (x, y, np.int32(x.size)))

    kernel = specs.spec(
        tmp_path, cu=CU, entries={"k": launch}, constants={"c": lambda x: np.float32([x.size])}, called=lambda x: "k"
    )
    (found,) = kernel.launches("k", ARRAYS)
    assert found.args[0] is ARRAYS["x"] and found.args[1] is ARRAYS["y"] and found.args[2] == 6
    assert kernel.constants_of(ARRAYS)["c"] == [6]
    assert kernel.entry_of_call({"x": ARRAYS["x"]}) == "k"


def test_functions_of_a_spec_that_read_values_are_refused_on_the_cpu_too(tmp_path):
    entries = {"k": lambda x, y: Launch((1,), (32,), (x, y, np.int32(x.max())))}
    constants = {"c": lambda x: np.float32([x.sum()])}
    kernel = specs.spec(tmp_path, cu=CU, entries=entries, constants=constants, called=lambda x: str(x[0]))
    with pytest.raises(SpecError, match=r"x\.max is not known before a launch"):
        kernel.launches("k", ARRAYS)
    with pytest.raises(SpecError, match=r"x\.sum is not known"):
        kernel.constants_of(ARRAYS)
    with pytest.raises(SpecError, match="an element of x is not known"):
        kernel.entry_of_call({"x": ARRAYS["x"]})
