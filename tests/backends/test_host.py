"""What the CPU cannot run: kernels as their authors write them, with nvcc and without."""

from __future__ import annotations

import os
import shutil
from concurrent.futures import wait
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import specs

import cudalab
from cudalab import host
from cudalab.backends import host as backend
from cudalab.base.errors import CompileError, NotOnCpu
from cudalab.device import cuda, nvcc
from cudalab.device.operands import Operands
from cudalab.spec.dtype import DTYPES
from cudalab.spec.kernel import Kernel, Launch

DATA = Path(__file__).parents[1] / "data" / "gpu_only"
UNDEFINED = DATA.with_name("undefined")
# What is said of each, and the line; "": only nvcc knows that it is not a mistake.
REASONS = {
    "cp_async": "cp_async.cu:3: address space conversions and queries",
    "cub_device": "cub_device.cu:2: <cub/device/device_reduce.cuh>",
    "intrinsic": "",
    "ptx": "ptx.cu:6: inline asm",
    "tensor_map": "tensor_map.cu:2: <cuda.h>",
    "texture": "texture.cu:2: textures",
    "wgmma": "wgmma.cu:4: inline asm",
}

pytestmark = pytest.mark.skipif(host.compiler_missing() is not None, reason="no C++ compiler")
with_nvcc = pytest.mark.skipif(not cuda.nvcc(), reason="no nvcc")


@pytest.fixture(autouse=True)
def nothing_beside():
    """What an earlier test asked nvcc beside its own work is answered: a later test counts calls."""
    wait(backend._verdicts.values())


def twice(folder: Path, name: str, text: str) -> Kernel:
    """A kernel whose `.cu` has this text: y = 2 x."""
    entries = {"twice": lambda x, y: Launch((-(-x.size // 256),), (256,), (x, y, np.int32(x.size)))}
    return specs.kernel(folder, name, text, sizes={"small": (1024,)}, reference=lambda x: 2 * x, entries=entries)


def bound(kernel: Kernel):
    x = np.ones(1024, np.float32)
    return backend.bind(kernel, "twice", DTYPES["float32"], Operands({"x": x}, np.empty_like(x)))


@pytest.fixture
def no_nvcc(monkeypatch):
    monkeypatch.setattr(cuda, "nvcc", lambda: None)


@pytest.mark.parametrize("name", sorted(file.stem for file in DATA.glob("*.cu")))
def test_without_nvcc_the_reason_and_the_line_are_said(no_nvcc, tmp_path, name):
    with pytest.raises((NotOnCpu, CompileError)) as caught:
        bound(twice(tmp_path, name, (DATA / f"{name}.cu").read_text()))
    said = str(caught.value)
    if REASONS[name]:
        assert isinstance(caught.value, NotOnCpu) and caught.value.compiled == 0
        assert said.startswith(f"{REASONS[name]} cannot run on the CPU") and "\n" not in said
        assert "(and not compiled by nvcc: nvcc is not on PATH; install the CUDA toolkit and add" in said
    else:
        assert isinstance(caught.value, CompileError)
        assert "intrinsic.cu:5:5: error: '__prof_trigger'" in said
        assert "or it uses a feature that the CPU executor lacks. nvcc could tell which: nvcc is" in said


@pytest.mark.sweep
@with_nvcc
@pytest.mark.parametrize("name", REASONS)
def test_with_nvcc_it_is_compiled_for_the_newest_architecture_that_fits(tmp_path, name):
    with pytest.raises(NotOnCpu) as caught:
        bound(twice(tmp_path, name, (DATA / f"{name}.cu").read_text()))
    reason = REASONS[name] or "the CPU executor rejects it: intrinsic.cu:5:5: error: '__prof_trigger' was not declared"
    assert str(caught.value).startswith(reason) and caught.value.compiled > 0
    assert f"compiled by nvcc for sm_{'90a' if name == 'wgmma' else '1'}" in str(caught.value)


@pytest.mark.sweep
@with_nvcc
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


@pytest.fixture
def nvcc_that(tmp_path, monkeypatch):
    """Puts an nvcc of ours in place, a shell script of these lines, with a cache of its own."""
    monkeypatch.setenv("CUDALAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(cuda, "nvcc", lambda: str(tmp_path / "nvcc"))

    def does(*lines):
        (tmp_path / "nvcc").write_text("\n".join(["#!/bin/sh", *lines, ""]))
        (tmp_path / "nvcc").chmod(0o755)
        nvcc.broken.cache_clear()

    return does


EMPTY = "__global__ void twice(const float* x, float* y, int n) {}"


def test_a_verdict_is_kept_and_an_nvcc_that_does_not_work_is_no_verdict(tmp_path, nvcc_that):
    """It notes its calls, and knows no architecture before sm_90a and no w."""
    calls = tmp_path / "calls"
    nvcc_that(
        f"echo $4 >> {calls}",
        "[ $4 = sm_120a ] && echo 'nvcc fatal: Unsupported gpu architecture' && exit 1",
        "grep -q broken *.cu && echo 'x: error: w' && exit 1",
        "[ $4 = sm_100a ] && echo 'error: $4 lacks it' && exit 1",
        "exit 0",
    )
    kernel = twice(tmp_path, "right", EMPTY)
    found = nvcc.verdict(kernel, DTYPES["float32"])
    assert found.architecture == "sm_90a" and found == nvcc.verdict(kernel, DTYPES["float32"])
    assert calls.read_text().split() == ["sm_120a", "sm_100a", "sm_90a"]
    broken = twice(tmp_path, "wrong", f"{EMPTY} // broken")
    assert nvcc.verdict(broken, DTYPES["float32"]).error == "x: error: w"
    assert calls.read_text().split()[3:] == ["sm_120a", "sm_100a", "sm_90a", "sm_80"]  # the last: does it work at all?
    nvcc_that("echo 'nvcc fatal   : Cannot find compiler g++ in PATH'", "exit 1")
    shutil.rmtree(tmp_path / "cache")
    said = nvcc.verdict(kernel, DTYPES["float32"])
    assert said.missing == "nvcc does not work here: nvcc fatal   : Cannot find compiler g++ in PATH" and not said.error


@pytest.mark.parametrize(("of_hopper", "refused"), [("", True), ("wgmma", False)])
def test_static_shared_memory_that_only_the_targets_with_an_a_take_is_refused(tmp_path, nvcc_that, of_hopper, refused):
    """Unless the `.cu` needs such a target for another reason."""
    says = "ptxas error   : Entry function 'twice' uses too much shared data (0x10000 bytes)"
    nvcc_that(
        "[ -f probe.cu ] && exit 0",
        "case $4 in *a) echo 'ptxas info    : Used 8 registers, 65536 bytes smem' >&2; exit 0;; esac",
        "grep -q wgmma *.cu && echo 'ptxas error   : wgmma needs sm_90a' >&2",
        f'echo "{says}" >&2; exit 1',
    )
    found = nvcc.verdict(twice(tmp_path, "own", f"{EMPTY} // {of_hopper}"), DTYPES["float32"])
    assert (found.error, found.architecture) == ((says, "") if refused else ("", "sm_120a"))


@pytest.mark.parametrize(
    ("head", "calls"),
    [
        ("", 1),
        ("#include <cuda_fp16.h>\n", 1),
        ('#include "own.cuh"\n', 1),  # with the same contents
        ("#include <own.cuh>\n", 2),
        ('#include "to_own.cuh"\n', 2),
        ("#define FILE <own.cuh>\n#include FILE\n", 2),
    ],
)
def test_a_copy_of_a_file_is_not_asked_about_again_unless_it_may_read_other_files(tmp_path, nvcc_that, head, calls):
    noted = tmp_path / "calls"
    nvcc_that(f"echo $4 >> {noted}")
    for place in ("here", "there"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "own.cuh").write_text("#define OWN\n")
        (tmp_path / place / "to_own.cuh").write_text("#include <own.cuh>\n")
        kernel = twice(tmp_path / place, "right", head + EMPTY)
        assert nvcc.verdict(kernel, DTYPES["float32"]).architecture == "sm_120a"
    assert len(noted.read_text().split()) == calls


@pytest.fixture
def fails_on_w(nvcc_that):
    """It compiles what has no w."""
    nvcc_that("! grep -n '\\bw\\b' own.cu >&2")


BODY = "__global__ void twice(const float* x, float* y, int n) { int i = blockIdx.x * 256 + threadIdx.x;"


@pytest.mark.nvcc
def test_what_nvcc_refuses_is_an_error_although_the_cpu_runs_it(tmp_path, fails_on_w):
    said = r"own.cu runs on the CPU, but nvcc does not compile it for a GPU:\n2:float w"
    with pytest.raises(CompileError, match=said):
        bound(twice(tmp_path, "own", f"float w = 2;\n{BODY} if (i < n) y[i] = w * x[i]; }}"))
    bound(twice(tmp_path, "own", f"{BODY} if (i < n) y[i] = 2 * x[i]; }}")).run()


def test_a_header_that_only_the_lab_has_is_remarked_once(tmp_path, nvcc_that):
    said = "echo 'own.cu:1:10: fatal error: curand_kernel.h: No such file' >&2; exit 1"
    nvcc_that("[ -f own.cu ] || exit 0", said)
    kernel = twice(tmp_path, "own", f"#include <curand_kernel.h>\n{BODY} if (i < n) y[i] = 2 * x[i]; }}")
    first, second = bound(kernel).remarks(), bound(kernel).remarks()
    assert (first, second) == (["nvcc did not compile it: its toolkit lacks curand_kernel.h"], [])


def test_without_a_library_that_no_toolkit_has_a_kernel_is_skipped(tmp_path, nvcc_that, monkeypatch):
    """It is asked again where an include path is given later; a header that a toolkit should have is a mistake."""
    nvcc_that(
        "a=$(sed -n 's/#include <\\(.*\\)>/\\1/p' own.cu 2>/dev/null)",
        '[ -z "$a" ] || [ -n "$NVCC_APPEND_FLAGS" ] && exit 0',
        'echo "own.cu:1:10: fatal error: $a: No such file" >&2; exit 1',
    )
    kernel = twice(tmp_path, "own", f"#include <cutlass/half.h>\n{BODY} }}")
    with pytest.raises(NotOnCpu, match=r"^own\.cu:1: .* nvcc, which does not find <cutlass/half\.h>") as caught:
        bound(kernel)
    assert not caught.value.compiled
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-Icutlass/include")
    assert nvcc.verdict(kernel, DTYPES["float32"]).architecture
    monkeypatch.delenv("NVCC_APPEND_FLAGS")
    with pytest.raises(CompileError, match=r"fatal error: cub/blok\.cuh"):
        bound(twice(tmp_path, "own", f"#include <cub/blok.cuh>\n{BODY} }}"))


def test_the_reason_of_the_cpu_is_kept_where_nvcc_refuses_too(tmp_path, fails_on_w):
    with pytest.raises(CompileError) as caught:
        bound(twice(tmp_path, "own", f'{BODY} float w; asm("mov.f32 %0, 2.0;" : "=f"(w)); y[i] = w * x[i]; }}'))
    assert str(caught.value).startswith("own.cu:1: inline asm cannot run on the CPU")
    assert "own.cu does not compile:\n2:" in str(caught.value)


@pytest.mark.nvcc
@pytest.mark.process
def test_what_a_launch_refuses_counts_as_compiled_by_nvcc(tmp_path, fails_on_w):
    lockstep = "volatile float* s = t; s[threadIdx.x] += s[threadIdx.x ^ 1];"
    (tmp_path / "own.cu").write_text(f"{BODY} __shared__ float t[256]; {lockstep} if (i < n) y[i] = 2 * x[i]; }}")
    (tmp_path / "own.py").write_text(SPEC.replace(', "fine": launch', ""))
    rows = [case for case in cudalab.check(tmp_path / "own.py").cases if case.backend == "host"]
    assert rows and all(case.status == "skipped" and case.compiled for case in rows)


# ---- what CUDA leaves undefined and the result does not show ---------------------------------------------------------


def test_threads_that_do_not_come_are_noted_once_with_line_and_thread(tmp_path):
    says = {
        "branch": "own.cu:3: block (0,0,0): thread (0,0,0) waits at this barrier, and thread (100,0,0) has returned; "
        "CUDA requires all threads of the block here, but GPUs since Volta accept it",
        "mask": "",  # CUDA asks the lanes of a mask to come that have not returned
        "two": "own.cu:7: block (0,0,0): thread (0,0,0) waits at this barrier, and thread (64,0,0) at the one in "
        "own.cu:8; CUDA leaves that undefined",
        "right": "",
    }
    kernel = twice(tmp_path, "own", (UNDEFINED / "noted.cu").read_text())
    kernel = replace(kernel, entries=dict.fromkeys(says, kernel.entries["twice"]))
    x = np.arange(100, dtype=np.float32)
    for entry, note in says.items():
        operands = Operands({"x": x}, np.empty_like(x))
        work = backend.bind(kernel, entry, DTYPES["float32"], operands)
        work.run()
        np.testing.assert_array_equal(operands.output, 2 * x)
        assert (work.remarks(), work.remarks()) == ([note] if note else [], [])


@pytest.mark.process
@pytest.mark.sweep
def test_where_the_reason_or_a_note_names_the_undefined_line_the_reason_asks_nothing(tmp_path):
    shutil.copy(UNDEFINED / "wrong.cu", tmp_path / "own.cu")
    entries = '"undefined": launch, "forgiven": launch, "apart"'
    text = SPEC.replace("edges=((256,),)", "edges=((100,),)").replace('"twice": launch, "fine"', entries)
    (tmp_path / "own.py").write_text(text)
    rows = [case for case in cudalab.check(tmp_path / "own.py").cases if case.backend == "host"]
    assert rows and {case.status for case in rows} == {"WRONG"}
    for case in rows:
        said = [case.reason, case.parity.message]
        assert not [text for text in said if "?" in text] or case.variant == "forgiven"
    assert all("; own.cu:3: block" in case.reason for case in rows if case.variant == "undefined")
    notes = {case.variant: case for case in rows if case.notes}
    assert "own.cu:5: block" in "".join(notes["forgiven"].notes)
    assert "own.cu:7: block" in "".join(notes["apart"].notes)
    assert "was every element written?" in notes["forgiven"].reason  # GPUs accept what its note says


WRITES = f"""#include <unistd.h>
{BODY} if (i < n) y[i] = 2 * x[i];
    if (i == 0) for (int file = 3; file < 64; ++file) write(file, TEXT, sizeof TEXT - 1); }}
{BODY.replace("twice", "fine")} if (i < n) y[i] = 2 * x[i]; }}
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


@pytest.mark.process
@pytest.mark.sweep
@pytest.mark.parametrize(
    "text", ['{\\"type\\":\\"Failed\\",\\"kind\\":\\"X\\",\\"message\\":\\"y\\"}\\n', "half a line"],
    ids=["a forged answer", "part of a line"],
)  # fmt: skip
def test_it_loses_its_own_row(tmp_path, monkeypatch, text):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")  # nvcc would refuse the call of write
    monkeypatch.delenv("CUDA_ROOT", raising=False)
    monkeypatch.delenv("CUDA_HOME", raising=False)
    (tmp_path / "own.cu").write_text(WRITES.replace("TEXT", f'"{text}"'))
    (tmp_path / "own.py").write_text(SPEC)
    run = cudalab.check(tmp_path / "own.py", sizes="small", device="cpu", only="host,numpy", timeout=30)
    found = {case.label: case.status for case in run.cases}
    assert found == {"numpy": "ok", "host:twice": "error", "host:fine": "ok"}
    (reason,) = [case.reason for case in run.cases if case.reason]
    assert reason.startswith("twice wrote to a file that is not its own: the process that ran it sent what is no reply")
