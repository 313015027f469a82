"""Options of the compiler and values of tunables: declared in a spec, given to every path, kept in the results."""

from __future__ import annotations

import re
import shutil

import pytest

import cudalab
from cudalab import Budget, Kernel, Launch
from cudalab.backends import _cupy
from cudalab.base.errors import InputError, NotFound, SpecError
from cudalab.device import cuda
from cudalab.engine import plan
from cudalab.engine.groups import Work
from cudalab.report import columns
from cudalab.results import comparable
from cudalab.spec import find, tuned
from cudalab.spec.dtype import dtype
from cudalab.tools.inspect import compilers

SOURCE = """
__global__ void scaled_exp(const scalar_t* x, scalar_t* y, int n) {
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i < n) y[i] = expf(x[i]) * FACTOR + (BARE - 1);
}
"""
SPEC = """
import numpy as np
from cudalab import Budget, Kernel, Launch


def launch(x, y, THREADS):
    return Launch((-(-x.size // THREADS),), (THREADS,), (x, y, np.int32(x.size)))


scaled_exp = Kernel(
    file=__file__, summary="y = 2 exp(x)", dtypes=("float32",), sizes={"small": (300,)}, edges=((1,),),
    reference=lambda x: 2 * np.exp(x), budgets={"float32": Budget(8)}, entries={"scaled_exp": launch},
    tunables={"THREADS": (256, 128, 64)}, options=("--use_fast_math", "-DFACTOR=2", "-DBARE"),
)
"""


@pytest.fixture
def spec(tmp_path):
    (tmp_path / "scaled_exp.cu").write_text(SOURCE)
    (tmp_path / "scaled_exp.py").write_text(SPEC)
    return str(tmp_path / "scaled_exp.py")


def test_every_path_gets_the_options(spec):
    kernel, f32 = find.kernel(spec), dtype("float32")
    assert kernel.macros(f32) == {"CUDALAB": "1", "scalar_t": "float", "FACTOR": "2", "BARE": "1", "THREADS": "256"}
    assert "--use_fast_math" in _cupy.options(kernel, f32) and "-DFACTOR=2" in _cupy.options(kernel, f32)
    given = cuda._options(tuple(kernel.macros(f32).items()), kernel.cu.parent, kernel.flags)["options"]
    assert given[:3] == ["-std=c++17", "--use_fast_math", "-DCUDALAB=1"]
    assert given[3:] == ["-Dscalar_t=float", "-DFACTOR=2", "-DBARE=1", "-DTHREADS=256"]
    assert tuned.sources(kernel, "scaled_exp")["options"] == "--use_fast_math -DFACTOR=2 -DBARE"


@pytest.mark.skipif(not shutil.which("nvcc") or not compilers.nvdisasm(), reason="nvcc or nvdisasm is not here")
def test_inspect_compiles_with_them(spec):
    code = compilers.compiled(find.kernel(spec), dtype("float32"), "sm_90").code["scaled_exp"]
    assert any(i.opcode == "FMUL.FTZ" for i in code.instructions), "--use_fast_math flushes subnormal numbers"


EXTENDED = """
#include <limits>
template <class F> __device__ void each(F f, float* y, int n) {
    if (int(threadIdx.x) < n) y[threadIdx.x] = f(threadIdx.x);
}
__global__ void extended(const float* x, float* y, int n) {
    each([=] __device__ (int i) -> float { return fminf(x[i], std::numeric_limits<float>::max()); }, y, n);
}
"""


@pytest.mark.sweep
def test_options_of_the_language_are_given_to_nvcc_and_need_no_note(tmp_path):
    (tmp_path / "extended.cu").write_text(EXTENDED)
    text = SPEC.replace("scaled_exp", "extended").replace(", THREADS", "").replace("THREADS", "300")
    head, _, _ = text.partition("    tunables=")
    options = "    options=('--extended-lambda', '--expt-relaxed-constexpr'),\n)\n"
    (tmp_path / "extended.py").write_text(head.replace("2 * np.exp(x)", "x") + options)
    (case,) = cudalab.check(str(tmp_path / "extended.py"), only="host", device="cpu", sizes="small").cases
    assert (case.status, [note for note in case.notes if "compiled without" in note]) == ("ok", []), case.reason


@pytest.mark.sweep
def test_the_host_says_which_options_it_has_not(spec):
    run = cudalab.check(spec, only="host", device="cpu", sizes="small", parameters={"THREADS": 64})
    (case,) = run.cases
    assert (case.status, case.parameters) == ("ok", {"THREADS": 64}), case.reason
    assert case.notes == ["compiled without --use_fast_math: g++ has no such option"]
    assert run.options["parameters"] == "THREADS=64"
    other = cudalab.check(spec, only="host", device="cpu", sizes="small")
    assert "parameters" not in other.options
    (said,) = (text for text in comparable.remarks(run, other, ()) if "parameters" in text)
    assert said == "launch parameters of scaled_exp host:scaled_exp float32: THREADS=64 -> THREADS=256"


def test_values_reach_the_worker_and_replace_tuned_ones(spec):
    (group,) = plan.with_parameters(plan.groups([spec], "small", ""), {"THREADS": 128})
    assert Work.on(group).group().kernel.parameters == {"THREADS": 128}
    assert tuned.chosen(group.kernel, "scaled_exp", group.dtype, None) == (group.kernel, [])
    (usual,) = plan.groups([spec], "small", "")
    assert Work.on(usual).parameters == {}


@pytest.mark.parametrize(
    ("parameters", "error", "said"),
    [
        ("THREAD=64", NotFound, "no tunable of scaled_exp named 'THREAD'; did you mean 'THREADS'"),
        ("THREADS=65", SpecError, "THREADS is 65; the spec declares 256, 128, 64"),
        ("THREADS", InputError, "'THREADS' does not set a tunable; give NAME=VALUE"),
        ("THREADS=many", InputError, "give NAME=VALUE"),
        ("THREADS=64,THREADS=128", InputError, "THREADS is given twice, as 64 and as 128; .* run once for each"),
    ],
)
def test_wrong_values_are_refused(spec, parameters, error, said):
    with pytest.raises(error, match=said):
        cudalab.bench(spec, sizes="small", device="cpu", parameters=parameters)


@pytest.mark.process
def test_the_heading_says_which_values_were_used(spec):
    run = cudalab.check(spec, only="numpy", device="cpu", dtype="float32")
    assert "THREADS" not in columns.heading(run)
    run.options["parameters"] = "THREADS=64,PACKS=2"
    assert columns.heading(run).endswith("nothing was timed, with THREADS=64 PACKS=2")


def test_a_kernel_without_tunables_says_so():
    with pytest.raises(InputError, match="no tunables in sum"):
        plan.with_parameters(plan.groups(["sum"], "small", ""), {"NOT_THERE": 1})


def with_option(option):
    return Kernel(
        file="k.py", summary="", dtypes=("float32",), sizes={"small": (9,)}, edges=(), reference=lambda x: x,
        entries={"k": lambda x, y: Launch((1,), (1,), (x, y))}, budgets={"float32": Budget(0)}, options=(option,),
    )  # fmt: skip


@pytest.mark.parametrize("option", ["-DX=$(id)", "-D X", "-DX=a,b", "--unheard-of", "x", "", 3])
def test_options_of_other_kinds_are_refused(option):
    with pytest.raises(SpecError, match="give a tuple of -DNAME=VALUE"):
        with_option(option)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--std=c++20", "every path compiles C"),
        ("-std=c++20", "every path compiles C"),
        ("-rdc=true", "compiled alone, without linking: #include the other file"),
        ("--relocatable-device-code=true", "without linking"),
        ("-dc", "without linking"),
        ("-I/tmp", "put them there, or set NVCC_APPEND_FLAGS"),
        ("--include-path=/tmp", "put them there"),
        ("-lcublas", "links no library; time one as a rival"),
        ("-arch=sm_90", "for the GPU that it runs on; leave it out"),
        ("-gencode=arch=compute_90,code=sm_90", "for the GPU that it runs on"),
        ("-O2", "compiled with -O3"),
        ("-G", "compiled with -O3"),
        ("-lineinfo", "inspect adds -lineinfo"),
        ("--default-stream=per-thread", "launches on a stream of its own"),
        ("-ccbin=/tmp/x", "of other programs are not passed on"),
        ("--compiler-options=-fplugin=x.so", "of other programs are not passed on"),
        ("-Xptxas=-v", "inspect shows what ptxas says"),
        ("--use-fast-math", "write it as --use_fast_math$"),
        ("-maxrregcount 32", "write it as --maxrregcount=32$"),
        ("--prec_div=false", "write it as --prec-div=true$"),
    ],
)
def test_an_option_of_nvcc_that_is_not_taken_is_refused_with_what_to_do(option, said):
    with pytest.raises(SpecError, match=f"k.py: options has '{re.escape(option)}'.*{said}"):
        with_option(option)


@pytest.mark.parametrize(
    "option", ["-use_fast_math", "--fmad=false", "-prec-div=true", "--maxrregcount=64", "-DX", "-DX=-1.5", "--restrict"]
)
def test_options_that_change_the_code_alone_are_taken(option):
    assert with_option(option).options == (option,)
