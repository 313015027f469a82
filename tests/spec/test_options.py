"""Options of the compiler and values of tunables: declared in a spec, given to every path, kept in the results."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import cudalab
from cudalab.backends import _cupy
from cudalab.base.errors import InputError, NotFound, SpecError
from cudalab.device import cuda
from cudalab.engine import plan
from cudalab.engine.groups import Work
from cudalab.report import columns
from cudalab.results import comparable, record
from cudalab.results.record import Machine, Results
from cudalab.spec import compile_options, find, tuned
from cudalab.spec.dtype import dtype
from cudalab.tools.inspect import compilers

DATA = Path(__file__).parents[1] / "data" / "specs"
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
    shutil.copy(DATA / "scaled_exp.cu", tmp_path)
    (tmp_path / "scaled_exp.py").write_text(SPEC)
    return str(tmp_path / "scaled_exp.py")


def test_every_path_gets_the_options(spec):
    kernel, f32 = find.kernel(spec), dtype("float32")
    assert kernel.macros(f32) == {"CUDALAB": "1", "scalar_t": "float", "FACTOR": "2", "BARE": "1", "THREADS": "256"}
    assert "--use_fast_math" in _cupy.options(kernel, f32) and "-DFACTOR=2" in _cupy.options(kernel, f32)
    given = cuda._options(tuple(kernel.macros(f32).items()), kernel.cu.parent, kernel.flags)["options"]
    assert given[:3] == ["-std=c++17", "--use_fast_math", "-DCUDALAB=1"]
    assert given[3:] == ["-Dscalar_t=float", "-DFACTOR=2", "-DBARE=1", "-DTHREADS=256"]
    standard = replace(kernel, options=("--std=c++20",))  # which is given once, and first
    assert standard.flags == ("-std=c++20",)
    assert [one for one in _cupy.options(standard, f32) if "std" in one] == ["-std=c++20"]
    assert cuda._options((), None, standard.flags)["options"] == ["-std=c++20"]
    assert tuned.sources(kernel, "scaled_exp")["options"] == "--use_fast_math -DFACTOR=2 -DBARE"


@pytest.mark.skipif(not shutil.which("nvcc") or not compilers.nvdisasm(), reason="nvcc or nvdisasm is not here")
def test_inspect_compiles_with_them(spec):
    code = compilers.compiled(find.kernel(spec), dtype("float32"), "sm_90").code["scaled_exp"]
    assert any(i.opcode == "FMUL.FTZ" for i in code.instructions), "--use_fast_math flushes subnormal numbers"


ALONE = "\nA .cu is compiled alone: #include the file that defines the function."


@pytest.mark.parametrize(
    ("message", "code", "flags", "want"),
    [
        ("error: 'concept' only available with '-std=c++20' or '-fconcepts'", "", (), "-std=c++20"),
        ('error: identifier "concept" is undefined', "concept C = true;", ("-std=c++17",), "-std=c++20"),
        ("error: expected a type", "auto operator<=>(P) const = default;", ("-std=c++20",), ""),
        ("The experimental flag '--expt-relaxed-constexpr' can be", "", (), "--expt-relaxed-constexpr"),
        ("annotation on lambda requires --extended-lambda nvcc flag", "", ("-std=c++17",), "--extended-lambda"),
        ('error: identifier "y" is undefined', "y[i] = 1;", (), ""),
        ("ptxas fatal   : Unresolved extern function '_Z6helperf'", "", (), ALONE),
    ],
)
def test_a_message_names_the_option_that_the_code_lacks(message, code, flags, want):
    said = compile_options.advice(message, code, flags)
    assert said == (f"\nAdd to the options of the spec: options=('{want}',)" if want.startswith("-") else want)


@pytest.mark.sweep
def test_options_of_the_language_are_given_to_nvcc_and_need_no_note(tmp_path):
    shutil.copy(DATA / "extended.cu", tmp_path)
    text = SPEC.replace("scaled_exp", "extended").replace(", THREADS", "").replace("THREADS", "300")
    head, _, _ = text.partition("    tunables=")
    options = "    options=('--extended-lambda', '--expt-relaxed-constexpr', '-std=c++20'),\n)\n"
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
    with pytest.raises(InputError, match="no tunables in sum"):
        plan.with_parameters(plan.groups(["sum"], "small", ""), {"NOT_THERE": 1})


def test_rules_of_dims_hold_for_each_value_of_a_tunable(spec):
    kernel = replace(find.kernel(spec), shapes={"x": "n", "y": "n"}, dims={"n": "multiple of THREADS"}, edges=((256,),),
                     sizes={"small": (512,)})  # fmt: skip
    assert list(kernel.allowed((512,), 0)[:3]) == [0, 256, 512]
    with pytest.raises(InputError, match=r"n is 320, but .*, where THREADS is 256 or 128 or 64; give 256 or 512"):
        kernel.accepts((320,))
    kernel.with_parameters({"THREADS": 64}).accepts((320,))
    with pytest.raises(SpecError, match="no other dimension named 'THREAD'; did you mean 'THREADS'"):
        replace(kernel, dims={"n": "multiple of THREAD"})


def test_lengths_reach_the_worker_with_the_sizes_that_they_fit(spec):
    more = """k: 2 * np.exp(x[:k]), shapes={"x": "n", "y": "k"}, dims={"k": "at most n"},
    scalars={"k": Scalar(5, "int32")}, edges=((5,), (7,)),"""
    text = SPEC.replace(", Launch", ", Launch, Scalar").replace("edges=((1,),),", "")
    Path(spec).write_text(text.replace(": 2 * np.exp(x),", f", {more}"))
    one, other = plan.groups([spec], "small,7,k=6", "")
    again = Work.on(other).group()
    assert (one.size, other.size) == ("small,k=6", "7,k=6")
    assert (again.scalars, again.kernel.scalars["k"].value, again.kernel.edges) == ((("k", 6),), 6, ((7,),))
    for sizes, said in (("7,k=8", "k is 8, but dims says 'at most n', where n is 7; give 7"), ("7,n=7", "n is a dim")):
        with pytest.raises(InputError, match=said):
            plan.groups([spec], sizes, "")
    with pytest.raises(InputError, match="k is a length, no tunable; write --size small,k=8"):
        plan.with_parameters([one], {"k": 8})


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


def test_the_heading_says_which_values_were_used():
    run = Results(record.FORMAT, record.VERSION, "", {}, Machine("cpu", "a CPU"))
    assert "THREADS" not in columns.heading(run)
    run.options["parameters"] = "THREADS=64,PACKS=2"
    assert columns.heading(run).endswith("nothing was timed, with THREADS=64 PACKS=2")


@pytest.mark.parametrize(
    "option", ["-use_fast_math", "--fmad=false", "-prec-div=true", "--maxrregcount=64", "-DX", "-DX=-1.5", "--restrict"]
)
def test_options_that_change_the_code_alone_are_taken(option):
    assert replace(find.kernel("sum"), options=(option,)).options == (option,)
