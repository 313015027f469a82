"""Every `.cu` of the lab compiles with nvcc for old and new architectures, without a warning."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from cudalab.device import cuda
from cudalab.spec import find
from cudalab.spec.dtype import dtype
from cudalab.tools import inspect
from cudalab.tools.inspect import compilers

ARCHITECTURES = ("80", "100")  # sm_90 is that of the kept machine code
# One dtype per kernel, in turn: nvcc is slow, and dtypes differ in only a few lines of each file.
KERNELS = find.kernels().values()
FILES = [(k.cu, name, k.macros(dtype(name))) for i, k in enumerate(KERNELS) for name in [k.dtypes[i % len(k.dtypes)]]]
FILES += [(path, "float32", {}) for path in sorted(cuda.LAB.parents[1].rglob("*.cu"))]


@pytest.mark.nvcc
@pytest.mark.sweep
@pytest.mark.skipif(not shutil.which("nvcc"), reason="nvcc is not on PATH")
@pytest.mark.parametrize(("path", "name", "macros"), FILES, ids=[f"{p.stem}-{n}" for p, n, _ in FILES])
def test_compiles_without_a_warning(path, name, macros, tmp_path):
    defined = [f"-D{k}={v}" for k, v in macros.items()]
    targets = [f"-gencode=arch=compute_{a},code=sm_{a}" for a in ARCHITECTURES]
    command = ["nvcc", "--fatbin", *targets, "-Werror=all-warnings", "-Wno-deprecated-gpu-targets", *cuda.FLAGS]
    done = subprocess.run(
        [*command, *defined, str(path), "-o", str(tmp_path / "out")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


@pytest.mark.nvcc
@pytest.mark.sweep
@pytest.mark.skipif(not cuda.nvcc() or not compilers.nvdisasm(), reason="nvcc or nvdisasm is not here")
def test_a_cluster_exchanges_without_a_fence_that_waits_for_all_loads():
    (one,) = inspect.inspect("rmsnorm", dtypes="float32", only="rmsnorm_cluster", archs="sm_90")
    opcodes = {i.parts[0] for i in one.code.instructions}
    assert "STAS" in opcodes and "MEMBAR" not in opcodes
