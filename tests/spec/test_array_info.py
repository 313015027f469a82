"""What launch functions, `called` and `constants` get of arrays."""

from __future__ import annotations

import numpy as np
import pytest

from cudalab import Budget, Kernel, Launch, SpecError
from cudalab.device.arrays import DeviceArray
from cudalab.spec.array_info import ArrayInfo, infos


def made(tmp_path, launch, **more):
    (tmp_path / "k.cu").write_text("__constant__ float c[1];\n__global__ void k(const float* x, float* y, int n) {}\n")
    fields = {
        "file": str(tmp_path / "k.py"), "summary": "k", "dtypes": ("float32",), "sizes": {"small": (8,)},
        "edges": ((3,),), "reference": lambda x: x, "entries": {"k": launch}, "budgets": Budget(0),
    }  # fmt: skip
    return Kernel(**fields | more)


def arrays():
    return {"x": np.arange(6, dtype=np.float32).reshape(2, 3), "y": np.zeros((2, 3), np.float32)}


def test_an_info_has_the_shape_and_the_dtype_whatever_the_device():
    on_gpu = DeviceArray((2, 3), np.dtype("float16"), 4096)
    for array, bits in ((arrays()["x"], 32), (on_gpu, 16)):
        info = infos({"x": array})["x"]
        assert (info.shape, info.ndim, info.size, info.itemsize, info.nbytes) == (
            (2, 3),
            2,
            6,
            bits // 8,
            6 * bits // 8,
        )


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
    with pytest.raises(
        SpecError, match=f"{what} is not known before a launch; of an array there are shape, dtype, size"
    ):
        use(ArrayInfo("x", (2, 3), np.dtype("float32")))


def test_a_launch_has_the_arrays_that_its_arguments_stand_for(tmp_path):
    def launch(x, y):
        assert isinstance(x, ArrayInfo) and isinstance(y, ArrayInfo)
        return Launch((1,), (32,), (x, y, np.int32(x.size)))

    given = arrays()
    (found,) = made(tmp_path, launch).launches("k", given)
    assert found.args[0] is given["x"] and found.args[1] is given["y"] and found.args[2] == 6


def test_a_launch_function_that_reads_values_is_refused_on_the_cpu_too(tmp_path):
    kernel = made(tmp_path, lambda x, y: Launch((1,), (32,), (x, y, np.int32(x.max()))))
    with pytest.raises(SpecError, match=r"x\.max is not known before a launch"):
        kernel.launches("k", arrays())


def test_constants_and_called_get_no_values_either(tmp_path):
    launch = lambda x, y: Launch((1,), (32,), (x, y, np.int32(x.size)))  # noqa: E731
    kernel = made(tmp_path, launch, constants={"c": lambda x: np.float32([x.size])}, called=lambda x: "k")
    assert kernel.constants_of(arrays())["c"] == [6]
    assert kernel.entry_of_call({"x": arrays()["x"]}) == "k"
    reads = made(tmp_path, launch, constants={"c": lambda x: np.float32([x.sum()])}, called=lambda x: str(x[0]))
    with pytest.raises(SpecError, match=r"x\.sum is not known"):
        reads.constants_of(arrays())
    with pytest.raises(SpecError, match="an element of x is not known"):
        reads.entry_of_call({"x": arrays()["x"]})
