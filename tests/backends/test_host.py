"""What the CPU cannot run: kernels as their authors write them, with nvcc and without."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import cudalab
from cudalab import host
from cudalab.backends import host as backend
from cudalab.base.errors import CompileError, NotOnCpu
from cudalab.device import cuda, nvcc
from cudalab.device.operands import Operands
from cudalab.spec.dtype import DTYPES
from cudalab.spec.kernel import Budget, Kernel, Launch

DATA = Path(__file__).parents[1] / "data" / "gpu_only"
SOURCES = sorted(file.stem for file in DATA.glob("*.cu"))
# What is said of each, and the line; "": only nvcc knows that it is not a mistake.
REASONS = {
    "cp_async": "cp_async.cu:3: addresses as shared or global ones",
    "cub_device": "cub_device.cu:2: <cub/device/device_reduce.cuh>",
    "intrinsic": "",
    "ptx": "ptx.cu:6: inline asm",
    "tensor_map": "tensor_map.cu:2: <cuda.h>",
    "texture": "texture.cu:2: textures",
    "wgmma": "wgmma.cu:4: inline asm",
}

pytestmark = pytest.mark.skipif(host.compiler_missing() is not None, reason="no C++ compiler")
with_nvcc = pytest.mark.skipif(not cuda.nvcc(), reason="no nvcc")


def twice(folder: Path, name: str, text: str) -> Kernel:
    """A kernel whose `.cu` has this text: y = 2 x."""
    (folder / f"{name}.cu").write_text(text)
    return Kernel(
        file=str(folder / f"{name}.py"), summary="y = 2 x", dtypes=("float32",), sizes={"small": (1024,)},
        edges=((256,),), reference=lambda x: 2 * x, budgets={"float32": Budget(0.5)},
        entries={"twice": lambda x, y: Launch((-(-x.size // 256),), (256,), (x, y, np.int32(x.size)))},
    )  # fmt: skip


def bound(kernel: Kernel):
    x = np.ones(1024, np.float32)
    return backend.bind(kernel, "twice", DTYPES["float32"], Operands({"x": x}, np.empty_like(x)))


@pytest.fixture
def no_nvcc(monkeypatch):
    monkeypatch.setattr(cuda, "nvcc", lambda: None)


def test_every_kernel_of_the_folder_is_named():
    assert sorted(REASONS) == SOURCES


@pytest.mark.parametrize("name", SOURCES)
def test_without_nvcc_the_reason_and_the_line_are_said(no_nvcc, tmp_path, name):
    with pytest.raises((NotOnCpu, CompileError)) as caught:
        bound(twice(tmp_path, name, (DATA / f"{name}.cu").read_text()))
    said = str(caught.value)
    if REASONS[name]:
        assert isinstance(caught.value, NotOnCpu) and caught.value.compiled == 0
        assert said.startswith(f"{REASONS[name]} cannot run on the CPU") and "\n" not in said
        assert said.endswith(
            "(and not compiled: nvcc is not on PATH; install the CUDA toolkit, or add its bin folder to PATH)"
        )
    else:
        assert isinstance(caught.value, CompileError)
        assert "intrinsic.cu:5:19: error: '__hcmadd'" in said
        assert "Either the .cu has a mistake, or it uses what the CPU executor lacks. nvcc would tell: nvcc is" in said


@with_nvcc
@pytest.mark.slow
@pytest.mark.parametrize("name", SOURCES)
def test_with_nvcc_it_is_compiled_for_the_newest_architecture_that_fits(tmp_path, name):
    with pytest.raises(NotOnCpu) as caught:
        bound(twice(tmp_path, name, (DATA / f"{name}.cu").read_text()))
    reason = REASONS[name] or "the CPU executor cannot take this: intrinsic.cu:5:19: error: '__hcmadd' was not declared"
    assert str(caught.value).startswith(reason) and caught.value.compiled > 0
    assert f"compiled by nvcc for sm_{'90a' if name == 'wgmma' else '1'}" in str(caught.value)


@with_nvcc
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("ptx", ("2 * v", "2 * w"), r'ptx.cu does not compile:\nptx.cu\(7\): error: identifier "w" is undefined'),
        ("intrinsic", ("__nanosleep", "__nanosleeep"), r'intrinsic.cu\(4\): error: identifier "__nanosleeep"'),
        ("ptx", ("ld.global.nc.L1", "ld.global.nc.L7"), r"ptx.cu does not compile:\nptxas ptx.ptx, line \d+; error"),
    ],
)
def test_a_mistake_is_an_error_with_nvccs_line(tmp_path, name, change, says):
    with pytest.raises(CompileError, match=says):
        bound(twice(tmp_path, name, (DATA / f"{name}.cu").read_text().replace(*change)))


def test_a_verdict_is_kept_and_an_nvcc_that_does_not_work_is_no_verdict(tmp_path, monkeypatch):
    """With an nvcc of ours: it notes its calls, and knows no architecture before sm_90a and no w."""
    monkeypatch.setenv("CUDALAB_CACHE", str(tmp_path / "cache"))
    compiler, calls = tmp_path / "nvcc", tmp_path / "calls"
    compiler.write_text(
        f"#!/bin/sh\necho $4 >> {calls}\n"
        "[ $4 = sm_120a ] && echo 'nvcc fatal: Unsupported gpu architecture' && exit 1\n"
        "grep -q broken *.cu && echo 'x: error: w' && exit 1\n"
        "[ $4 = sm_100a ] && echo 'error: $4 lacks it' && exit 1\nexit 0\n"
    )
    compiler.chmod(0o755)
    monkeypatch.setattr(cuda, "nvcc", lambda: str(compiler))
    nvcc._broken.cache_clear()
    kernel = twice(tmp_path, "right", "__global__ void twice(const float* x, float* y, int n) {}")
    found = nvcc.verdict(kernel, DTYPES["float32"])
    assert found.architecture == "sm_90a" and found == nvcc.verdict(kernel, DTYPES["float32"])
    assert calls.read_text().split() == ["sm_120a", "sm_100a", "sm_90a"]
    broken = twice(tmp_path, "wrong", "__global__ void twice(const float* x, float* y, int n) {} // broken")
    assert nvcc.verdict(broken, DTYPES["float32"]).error == "x: error: w"
    assert calls.read_text().split()[3:] == ["sm_120a", "sm_100a", "sm_90a", "sm_80"]  # the last: does it work at all?
    compiler.write_text("#!/bin/sh\necho 'nvcc fatal   : Cannot find compiler g++ in PATH'\nexit 1\n")
    shutil.rmtree(tmp_path / "cache")
    nvcc._broken.cache_clear()
    said = nvcc.verdict(kernel, DTYPES["float32"])
    assert said.missing == "nvcc does not work here: nvcc fatal   : Cannot find compiler g++ in PATH" and not said.error


# ---- what CUDA leaves undefined and the result does not show ---------------------------------------------------------

UNDEFINED = """#define HEAD __shared__ float s[256]; int t = threadIdx.x
__global__ void branch(const float* x, float* y, int n) { HEAD; if (t < n) { s[t] = x[t];
    __syncthreads(); y[t] = 2 * s[t]; } }
__global__ void mask(const float* x, float* y, int n) { HEAD; if (t >= n) return;
    s[t] = __shfl_xor_sync(~0u, x[t], 1); y[t] = 2 * x[t]; }
__global__ void two(const float* x, float* y, int n) { HEAD; s[t] = 0; if (t < 64)
    __syncthreads(); else
    __syncthreads(); if (t < n) y[t] = 2 * x[t]; }
__global__ void right(const float* x, float* y, int n) { HEAD; s[t] = 0;
    __syncthreads(); __syncwarp(); if (t < n) y[t] = 2 * x[t]; }
"""


@pytest.mark.slow
def test_threads_that_do_not_come_are_noted_once_with_line_and_thread(tmp_path):
    says = {
        "branch": "own.cu:3: block (0,0,0): thread (0,0,0) waits at this barrier, and thread (100,0,0) has returned "
        "without it; CUDA asks all threads to come, and GPUs since Volta accept it",
        "mask": "own.cu:5: block (0,0,0): thread (96,0,0) names thread (100,0,0) in the mask 0xffffffff of a warp "
        "operation, which has returned without it; a GPU may still run that one",
        "two": "own.cu:7: block (0,0,0): thread (0,0,0) waits at this barrier, and thread (64,0,0) at the one in "
        "own.cu:8; CUDA leaves that undefined",
        "right": "",
    }
    kernel = twice(tmp_path, "own", UNDEFINED)
    kernel = replace(kernel, entries=dict.fromkeys(says, kernel.entries["twice"]))
    x = np.arange(100, dtype=np.float32)
    for entry, note in says.items():
        operands = Operands({"x": x}, np.empty_like(x))
        work = backend.bind(kernel, entry, DTYPES["float32"], operands)
        work.run()
        np.testing.assert_array_equal(operands.output, 2 * x)
        assert (work.remarks(), work.remarks()) == ([note] if note else [], [])


# ---- a kernel that writes to files that are not its own --------------------------------------------------------------

WRITES = """#include <unistd.h>
__global__ void twice(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
    if (i == 0) for (int file = 3; file < 64; ++file) write(file, TEXT, sizeof TEXT - 1);
}
__global__ void fine(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
"""
SPEC = """import numpy as np
from cudalab import Budget, Kernel, Launch

def launch(x, y):
    return Launch((-(-x.size // 256),), (256,), (x, y, np.int32(x.size)))

own = Kernel(
    file=__file__, summary="y = 2 x", dtypes=("float32",), sizes={"small": (1024,)}, edges=((256,),),
    reference=lambda x: 2 * x, entries={"twice": launch, "fine": launch}, budgets={"float32": Budget(0.5)},
)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", ['{\\"type\\":\\"Failed\\",\\"kind\\":\\"X\\",\\"message\\":\\"y\\"}\\n', "half a line"],
    ids=["a forged answer", "part of a line"],
)  # fmt: skip
def test_it_loses_its_own_row(tmp_path, text):
    (tmp_path / "own.cu").write_text(WRITES.replace("TEXT", f'"{text}"'))
    (tmp_path / "own.py").write_text(SPEC)
    run = cudalab.check(tmp_path / "own.py", sizes="small", device="cpu", only="host,numpy", timeout=30)
    found = {case.label: case.status for case in run.cases}
    assert found == {"numpy": "ok", "host:twice": "error", "host:fine": "ok"}
    (reason,) = [case.reason for case in run.cases if case.reason]
    assert reason.startswith("the worker process wrote something else to the pipe of its answers: b'")
    assert "while it ran host:twice" in reason
