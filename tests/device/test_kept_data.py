"""Which compiled code keeps data between launches. The ELF files are made by hand; those of nvcc where there is one."""

from __future__ import annotations

import shutil
import subprocess
from struct import pack

import pytest

from cudalab.device.kept_data import constant_bytes, kept_bytes


def elf(sections, symbols=()):
    """An ELF file with sections {name: bytes} and symbols (name, section's name, bytes)."""
    names = ["", *sections, ".symtab", ".strtab", ".shstrtab"]
    strings = b"\0" + b"".join(name.encode() + b"\0" for name, _, _ in symbols)
    at = {name: strings.index(name.encode()) for name, _, _ in symbols}
    table = pack("<IBBH2Q", 0, 0, 0, 0, 0, 0)
    for name, place, size in symbols:
        table += pack("<IBBH2Q", at[name], 1, 0, names.index(place), 0, size)
    texts = b"\0".join(name.encode() for name in names) + b"\0"
    data = {".symtab": table, ".strtab": strings, ".shstrtab": texts}
    body, found, place = b"", [], 64
    for name in names:
        kind = {".symtab": 2, ".strtab": 3, ".shstrtab": 3}.get(name, 1)
        content = data.get(name, b"")
        size = sections.get(name, len(content))
        link = names.index(".strtab") if name == ".symtab" else 0
        found.append(pack("<2I4Q2I2Q", texts.index(name.encode() + b"\0"), kind, 0, 0, place, size, link, 0, 0, 0))
        body += content
        place += len(content)
    header = pack(
        "<16s2HI3QI6H", b"\x7fELF\2\1", 2, 190, 1, 0, 0, 64 + len(body), 0, 64, 0, 0, 64, len(names), len(names) - 1
    )
    return header + body + b"".join(found)


def test_variables_are_counted_and_tables_of_cuda_are_not():
    memo = elf({".nv.global": 4096, ".nv.constant3": 64}, [("memo", ".nv.global", 4096)])
    assert kept_bytes(memo) == 4096
    trig = elf({".nv.global.init": 24 + 8}, [("__cudart_i2opi_f", ".nv.global.init", 24), ("x", ".nv.global.init", 8)])
    assert kept_bytes(trig, "y = sinf(x);") == 8
    more = elf({".nv.global.init": 4096}, [("__cudart_i2opi_f", ".nv.global.init", 4096)])
    assert kept_bytes(more, "y = sinf(x);") == 4096
    assert kept_bytes(elf({".text.k": 128}, [("k", ".text.k", 128)])) == 0
    assert kept_bytes(elf({".text.k": 128}, [("malloc", "", 0)])) == 1
    assert kept_bytes(b"not ELF") == 0
    constants = elf(
        {".nv.constant3": 64, ".nv.constant0.k": 32}, [("a", ".nv.constant3", 60), ("k", ".nv.constant0.k", 32)]
    )
    assert (constant_bytes(constants), constant_bytes(b"not ELF")) == (60, 0)


SOURCES = {
    "none": ('extern "C" __global__ void k(float* y) { y[0] = sinf(y[1]); }', 0),
    "device": ('__device__ int n; extern "C" __global__ void k(int* y) { y[0] = n++; }', 4),
    "static": ('extern "C" __global__ void k(int* y) { static __device__ int n[8]; y[0] = n[y[1]]++; }', 32),
    "managed": ('__managed__ int n[3]; extern "C" __global__ void k(int* y) { y[0] = n[y[1]]++; }', 12),
    # Only a template that is instantiated has its variables.
    "template": (
        "template <class T> __device__ T n[5]; template <class T> __global__ void k(T* y) { y[0] = n<T>[y[1]]++; }"
        "\ntemplate __global__ void k<int>(int*);",
        20,
    ),
    "no template": ("template <class T> __global__ void k(T* y) { static __device__ T n[5]; y[0] = n[y[1]]++; }", 0),
    "heap": ('extern "C" __global__ void k(int** y) { y[0] = (int*)malloc(8); }', 1),
    "new": ('extern "C" __global__ void k(int** y) { y[0] = new int; }', 1),
}


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on PATH")
def test_code_of_nvcc(name, tmp_path):
    text, want = SOURCES[name]
    (tmp_path / "k.cu").write_text(text)
    subprocess.run(["nvcc", "-arch=sm_90", "-cubin", "-o", "k.cubin", "k.cu"], cwd=tmp_path, check=True)
    assert kept_bytes((tmp_path / "k.cubin").read_bytes(), text) == want


@pytest.mark.parametrize("source", [
    "__device__ unsigned __cudart_i2opi_f[6];",
    "__device__ unsigned __cudart_i2\\\nopi_f[6];",
    "__device__ unsigned __cuda\\ \r\nrt_i\\\n2opi_f[6];",
    "#define NAME(a, b) a##b",
    "#define NAME(a, b) a#\\\n#b",
    "#define NAME(a, b) a%:%:b",
    'asm(".global .b32 __cuda" "rt_i2" "opi_f[6];");',
    '__asm__ volatile(".global .b32 __cuda\\x72t_i2" "opi_f[6];");',
    "__device__ unsigned __c\\u0075dart_i2op\\u0069_f[6];",
])  # fmt: skip
def test_a_source_that_may_define_the_name_of_a_table_itself_is_not_believed(source):
    code = elf({".nv.global.init": 24}, [("__cudart_i2opi_f", ".nv.global.init", 24)])
    assert kept_bytes(code, "y = sinf(x);") == 0
    assert kept_bytes(code, source) == 24
