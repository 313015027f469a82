"""`extern __shared__` in the forms in which people write it."""

from __future__ import annotations

import numpy as np
import pytest
from on_cpu import run

from cudalab import host

# Each reverses 0 ... 63 through shared memory; file level, then the kernel's first lines.
FORMS = {
    "cast": ("extern __shared__ char raw[];", "float* s = (float*)raw;"),
    "reinterpret_cast": ("extern __shared__ unsigned char raw[];", "float* s = reinterpret_cast<float*>(raw) + 4;"),
    "align after extern": ("", "extern __align__(16) __shared__ char raw[]; float* s = (float*)raw;"),
    "align at file level": ("extern __shared__ __align__(sizeof(float4)) char raw[];", "float* s = (float*)&raw[64];"),
    "pointers": ("extern __shared__ char* params[];", "float* s = (float*)(params + 2);"),
    "float4": ("extern __shared__ float4 v[];", "float* s = &v[0].x;"),
    "of two types": ("extern __shared__ float s[];\nextern __shared__ double d[];", "if (i < 0) d[0] = 1;"),
    "two in one line": ("", "extern __shared__ float s[], t[]; if (i < 0) t[0] = 1;"),
    "rows": ("extern __shared__ float r[][32];", "float* s = r[1];"),
    "a struct": ("struct P { float a[64]; };\nextern __shared__ P p[];", "float* s = p->a;"),
    "a macro": ("#define SMEM(T, n) extern __shared__ T n[]", "SMEM(float, s);"),
    "auto": ("extern __shared__ float raw[];", "auto* s = raw;"),
    "a comment inside": ("extern __shared__ /* bytes */ float s[];", ""),
    "in a namespace": ("namespace n { extern __shared__ float raw[]; }", "float* s = n::raw;"),
    "the other order": ("__shared__ extern float s[];", ""),
}


BODY = "s[i] = i; __syncthreads(); y[i] = s[63 - i]; }"
ALONE = [name for name, (level, _) in FORMS.items() if "namespace" in level or "s[]" in level]


def reverses(module, entry):
    y = np.zeros(64, np.float32)
    run(module, entry, 1, 64, y, shared=2048)
    return y.tolist() == list(range(63, -1, -1))


def test_every_form_is_the_block_s_dynamic_memory():
    text = "\n".join(
        f"namespace form_{i} {{\n{level}\n__global__ void k{i}(float* y) {{ int i = threadIdx.x; {lines}\n{BODY}\n}}"
        for i, (name, (level, lines)) in enumerate(FORMS.items())
        if name not in ALONE
    )
    module = host.load(text)
    assert [entry for entry in module.entries if not reverses(module, entry)] == []
    assert len(module.entries) > 8


@pytest.mark.parametrize("form", ALONE)
def test_every_form_alone_in_its_file(form):
    level, lines = FORMS[form]
    kernel = f"__global__ void k(float* y) {{ const int i = threadIdx.x; {lines} {BODY}"
    assert reverses(host.load(f"{level}\n{kernel}"), "k")


def test_in_a_template():
    text = f"template <class T> __global__ void k(T* y) {{ extern __shared__ T s[]; int i = threadIdx.x; {BODY}"
    assert reverses(host.load(text, entries=["k<float>"]), "k<float>")
