"""Sources that the CPU executor refuses, and names that it does not mistake for what it refuses."""

from __future__ import annotations

import re

import numpy as np
import pytest
from on_cpu import run, source
from tables import entries

from cudalab import host
from cudalab.base import errors
from cudalab.base.errors import NotOnCpu

REFUSED = entries(r"^## (\w+): (.*)\n((?:(?!#{1,2} ).*\n)+)", source("refused.txt"))


@pytest.mark.parametrize(("error", "says", "text"), REFUSED, ids=[says for _, says, _ in REFUSED])
def test_a_source_is_refused_with_file_and_line(error, says, text):
    with pytest.raises(getattr(errors, error), match="^" + re.escape(says).replace(r"\.\.\.", "(?s:.*)")):
        host.load(text, name="k.cu")


@pytest.mark.parametrize("races", [False, True])
def test_a_call_of_the_operating_system_in_a_header_is_refused(tmp_path, races):
    (tmp_path / "more.h").write_text("#include <unistd.h>\n__device__ inline void more() { fork(); }\n")
    text = '#include "more.h"\n__global__ void k() { if (!threadIdx.x) more(); }\n'
    with pytest.raises(NotOnCpu, match=r"more.h:2: functions .* cannot run on the CPU: fork\(\)"):
        host.load(text, name="k.cu", include=tmp_path, races=races)


def test_shared_memory_of_a_header(tmp_path):
    """A static array works as in the `.cu`. A dynamic one would have to be rewritten, and is refused by its line."""
    text = '#include "mine.cuh"\n__global__ void f(float* y) { y[threadIdx.x] = next(threadIdx.x); }\n'
    body = "{ DECLARED s[i] = i; __syncthreads(); return s[(i + 1) % 32]; }"
    header = tmp_path / "mine.cuh"
    header.write_text("__device__ float next(int i)\n" + body.replace("DECLARED", "__shared__ float s[32];"))
    y = run(host.load(text, name="f.cu", include=tmp_path), "f", 1, 32, np.zeros(32, np.float32))
    np.testing.assert_array_equal(y, (np.arange(32) + 1) % 32)
    header.write_text("__device__ float next(int i)\n" + body.replace("DECLARED", "extern __shared__ float s[];"))
    with pytest.raises(NotOnCpu, match=r"mine.cuh:2: a dynamic shared array in a header .*; declare it in f.cu"):
        host.load(text, name="f.cu", include=tmp_path)


def test_names_that_are_not_refused(tmp_path):
    """In comments and strings, of the user's own functions, and behind a macro of a header.

    A weak function of this process is not there: else a `.cu` could run Python in the process that judges it.
    """
    (tmp_path / "meet.h").write_text("#define MEET __sync##threads()\n")
    module = host.load(source("not_refused.cu"), name="<string>", include=tmp_path)
    assert module.entries == ("own", "weak", "meet")
    assert run(module, "own", 1, 1, np.zeros(1, np.int32)) == 7
    assert run(module, "weak", 1, 1, np.zeros(1, np.int32)) == 2
    np.testing.assert_array_equal(run(module, "meet", 1, 64, np.zeros(64, np.int32)), np.arange(64)[::-1])
