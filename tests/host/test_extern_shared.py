"""`extern __shared__` in the forms in which people write it."""

from __future__ import annotations

import numpy as np
import pytest
from on_cpu import run, source

from cudalab import host

# Each reverses 0 ... 63 through shared memory.
BODY = "s[i] = i; __syncthreads(); y[i] = s[63 - i]; }"
FORMS = [
    [part.strip() for part in line.split("|")]
    for line in source("extern_shared.txt").splitlines()
    if not line.startswith("#")
]
ALONE = [form for form in FORMS if "namespace" in form[1] or "s[]" in form[1]]


def reverses(module, entry):
    y = np.zeros(64, np.float32)
    run(module, entry, 1, 64, y, shared=2048)
    return y.tolist() == list(range(63, -1, -1))


def test_every_form_is_the_block_s_dynamic_memory():
    text = "\n".join(
        f"namespace form_{i} {{\n{level}\n__global__ void k{i}(float* y) {{ int i = threadIdx.x; {lines}\n{BODY}\n}}"
        for i, (_, level, lines) in enumerate(form for form in FORMS if form not in ALONE)
    )
    module = host.load(text)
    assert [entry for entry in module.entries if not reverses(module, entry)] == []
    assert len(module.entries) > 8


@pytest.mark.parametrize(("name", "level", "lines"), ALONE)
def test_every_form_alone_in_its_file(name, level, lines):
    kernel = f"__global__ void k(float* y) {{ const int i = threadIdx.x; {lines} {BODY}"
    assert reverses(host.load(f"{level}\n{kernel}"), "k")


def test_in_a_template():
    text = f"template <class T> __global__ void k(T* y) {{ extern __shared__ T s[]; int i = threadIdx.x; {BODY}"
    assert reverses(host.load(text, entries=["k<float>"]), "k<float>")
