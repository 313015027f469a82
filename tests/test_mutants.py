"""The gate must bite: known-wrong versions of every kernel are rejected by `cudalab check`, each in its own process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cudalab import registry

PASS_TAIL = ("i < n && i < first + Pack::width", "i < n - 1 && i < first + Pack::width")
MUTANTS = {
    "gelu": {
        "zeros": ("return 0.5f * x *", "return 0.0f * x *"),
        "copy of the input": ("return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));", "return x;"),
        "tanh for erf": (
            "erff(x * 0.70710678118654752f)",
            "tanhf(0.7978845608f * (x + 0.044715f * x * x * x))",
        ),
        "a digit of sqrt(1/2)": ("0.70710678118654752f", "0.70730678f"),
        "a late bound": ("if (i < n) y[i]", "if (i <= n) y[i]"),
        "no bound": ("if (i < n) y[i]", "y[i]"),
        "an early bound": ("if (i < n) y[i]", "if (i < n - 1) y[i]"),
        "a short tail": PASS_TAIL,
        "no tail": ("for (long long i = first; i < n &&", "for (long long i = first; false && i < n &&"),
        "no look at the alignment": ("const bool aligned = ", "const bool aligned = true || "),
        "packs that overlap": ("threadIdx.x) * Pack::width", "threadIdx.x) * (Pack::width - 1)"),
        "one element of a pack": ("k < Pack::width; ++k", "k < Pack::width - 1; ++k"),
        "in place": ("*reinterpret_cast<Pack*>(y + first) = pack", "*(Pack*)(x + first) = pack"),
    },
    "add2d": {
        "difference": ("a[row * cols + col] + b", "a[row * cols + col] - b"),
        "one operand twice": ("+ b[row * cols + col]", "+ a[row * cols + col]"),
        "transposed": ("y[row * cols + col] =", "y[col * rows + row] ="),
        "square": ("y[row * cols + col] =", "y[row * rows + col] ="),
        "one column too many": ("if (col >= cols)", "if (col > cols)"),
        "one row too many": ("row < rows;", "row <= rows;"),
        "one row too few": ("row < rows;", "row < rows - 1;"),
        "a short tail": PASS_TAIL,
        "half a pack": ("k < Pack::width; ++k", "k < Pack::width / 2; ++k"),
    },
    "plus_one": {
        "plus two": ("x[i] + 1;", "x[i] + 2;"),
        "plus two in packs": ("+= 1;", "+= 2;"),
        "a short tail": PASS_TAIL,
        "packs that overlap": ("threadIdx.x) * Pack::width", "threadIdx.x) * (Pack::width - 1)"),
        "nothing added": ("x[i] + 1;", "x[i];"),
        "a late bound": ("if (i < n)", "if (i <= n)"),
        "an early bound": ("if (i < n)", "if (i < n - 1)"),
        "one block": (
            "(long long)blockIdx.x * blockDim.x + threadIdx.x",
            "(long long)threadIdx.x",
        ),  # every other block's elements stay unwritten
    },
}
# A mutant that changes no answer on the CPU, and why; it must pass, so that this list stays true.
HARMLESS = {("gelu", "no look at the alignment"): "the lab's own buffers are aligned; test_call.py passes slices"}
# These would fault on a GPU; the host says where.
MISALIGNED = {("gelu", "packs that overlap"), ("plus_one", "packs that overlap")}


CASES = [(kernel, mutant) for kernel, mutants in MUTANTS.items() for mutant in mutants]


@pytest.fixture(scope="module")
def checks(tmp_path_factory):
    """`cudalab check` of every mutant, as many at once as there are cores."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield {case: pool.submit(check, *case, tmp_path_factory.mktemp("mutant")) for case in CASES}


def check(kernel, mutant, folder):
    spec = registry.kernel(kernel)
    old, new = MUTANTS[kernel][mutant]
    text = spec.cu.read_text()
    assert old in text
    (folder / f"{kernel}.cu").write_text(text.replace(old, new))
    (folder / f"{kernel}.py").write_text(Path(spec.file).read_text())
    command = [sys.executable, "-m", "cudalab.cli", "check", str(folder / f"{kernel}.py"), "--device", "cpu",
               "--only", "host", "--dtypes", spec.dtypes[0]]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("kernel", "mutant"), CASES)
def test_a_mutant_is_rejected(checks, kernel, mutant):
    done = checks[kernel, mutant].result()
    if (kernel, mutant) in HARMLESS:
        assert done.returncode == 0, done.stdout
        return
    if (kernel, mutant) in MISALIGNED:
        assert done.returncode == 2, done.stdout
        assert "misaligned" in done.stdout
        return
    assert done.returncode == 1, done.stdout
    assert re.search(rf"host:{kernel}.*WRONG", done.stdout), done.stdout


def test_every_kernel_has_mutants():
    assert set(MUTANTS) == set(registry.kernels())
