"""`extern __shared__` in the forms in which people write it."""

from __future__ import annotations

import numpy as np
import pytest

from cudalab import host

pytestmark = pytest.mark.skipif(host.compiler_missing() is not None, reason="no C++ compiler")

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


def test_every_form_is_the_block_s_dynamic_memory():
    text = "\n".join(
        f"namespace form_{i} {{\n{level}\n__global__ void k{i}(float* y) {{ const int i = threadIdx.x; {lines}\n"
        "s[i] = i; __syncthreads(); y[i] = s[63 - i]; }\n}"
        for i, (level, lines) in enumerate(FORMS.values())
        if "namespace" not in level and level.count("s[]") == 0
    )
    module = host.load(text)
    for entry in module.entries:
        y = np.zeros(64, np.float32)
        module.launch(entry, (1, 1, 1), (64, 1, 1), [y], shared=2048)
        np.testing.assert_array_equal(y, np.arange(63, -1, -1), err_msg=entry)
    assert len(module.entries) > 8


@pytest.mark.parametrize("form", [name for name, (level, _) in FORMS.items() if "namespace" in level or "s[]" in level])
def test_every_form_alone_in_its_file(form):
    level, lines = FORMS[form]
    body = f"{{ const int i = threadIdx.x; {lines} s[i] = i; __syncthreads(); y[i] = s[63 - i]; }}"
    module = host.load(f"{level}\n__global__ void k(float* y) {body}")
    y = np.zeros(64, np.float32)
    module.launch("k", (1, 1, 1), (64, 1, 1), [y], shared=2048)
    np.testing.assert_array_equal(y, np.arange(63, -1, -1))


def test_in_a_template():
    text = "template <class T> __global__ void k(T* y) { extern __shared__ T s[]; s[threadIdx.x] = threadIdx.x; "
    module = host.load(text + "__syncthreads(); y[threadIdx.x] = s[63 - threadIdx.x]; }", entries=["k<float>"])
    y = np.zeros(64, np.float32)
    module.launch("k<float>", (1, 1, 1), (64, 1, 1), [y], shared=256)
    np.testing.assert_array_equal(y, np.arange(63, -1, -1))
