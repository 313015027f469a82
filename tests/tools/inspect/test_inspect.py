"""`cudalab inspect` agrees with counts made by hand and with NVIDIA's occupancy calculator.

The machine code of the test kernels is kept in tests/data/sass; the lab's kernels are compiled.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import re
import shutil
import subprocess
from ast import literal_eval
from functools import partial
from pathlib import Path

import kept_sass
import numpy as np
import pytest
from commands import invoke
from tables import table

import cudalab
from cudalab.base import errors
from cudalab.base.errors import InputError, NotFound, SpecError, Unavailable
from cudalab.report import inspection as report
from cudalab.spec import find
from cudalab.spec.architecture import ARCHITECTURES, architecture
from cudalab.spec.dtype import dtype
from cudalab.tools import inspect as inspection
from cudalab.tools.inspect import (
    bounds,
    cards,
    compilers,
    diagnosis,
    instruction_mix,
    sass,
    symbolic_values,
    thread_path,
    thread_state,
    traced_launch,
)

ROOT = Path(__file__).parents[3]
H200 = ROOT / "bench" / "results" / "h200"
WAYS = str(ROOT / "tests" / "data" / "sass" / "ways.py")
LOOPS = str(ROOT / "tests" / "data" / "sass" / "loops.py")
SOFTMAX = str(ROOT / "bench" / "examples" / "softmax.py")
SASS = ROOT / "tests" / "data" / "sass"
KEPT = kept_sass.reader(SASS)
GELU = H200 / "gelu.json"
BY_NVCC = compilers.compiled
COMPILED = {}


def compiled(kernel, kind, architecture, launched=()):
    """The kept machine code of a test kernel; compiles each of the lab's kernels once."""
    if kernel.cu.parent != find.kernel("gelu").cu.parent:
        return KEPT(kernel, kind, architecture)
    if release() == "none":
        pytest.skip("nvcc or nvdisasm is not here")
    key = (kernel.name, str(kernel.parameters), kind.name, architecture)
    if key not in COMPILED:
        COMPILED[key] = BY_NVCC(kernel, kind, architecture)
    return COMPILED[key]


inspect = partial(inspection.inspect, compiled=compiled)


@pytest.fixture
def command(monkeypatch):
    """Runs the command line with `compiled` above."""
    monkeypatch.setattr(compilers, "compiled", compiled)
    function = inspection.inspect.__wrapped__  # under `guarded`
    monkeypatch.setattr(function, "__defaults__", (*function.__defaults__[:-1], compiled))

    def run(*words, width=140):
        return invoke("inspect", *words, COLUMNS=str(width), NO_COLOR="1")

    return run


def way(entry, architecture="sm_90", size="large"):
    (one,) = inspect(WAYS, only=entry, archs=architecture, size=size)
    return one


# --- the walk ---


@pytest.mark.parametrize("architecture", ["sm_90", "sm_120"])
@pytest.mark.parametrize("size", ["small", "large", "37", "36", "123456"])
def test_rounds_by_integer_division_are_exact(architecture, size):
    n = int(size) if size.isdigit() else {"small": 1000, "large": 100_000}[size]
    expected = n // 37 + n % 37 + 17 * n // (n + 1)
    one = way("divided", architecture, size)
    assert one.mix.moved("STG") == 4 * expected
    assert not one.path.notes


@pytest.mark.parametrize("architecture", ["sm_90", "sm_120"])
@pytest.mark.parametrize("n", [100, 575, 576, 577, 1023, 1024, 1025, 100_000])
def test_rounds_of_a_grid_stride_loop_are_those_of_the_middle_thread(architecture, n):
    thread, step = 4 * 128 + 64, 8 * 128
    one = way("strided", architecture, str(n))
    assert one.mix.moved("LDG") == 4 * len(range(thread, n, step))


@pytest.mark.parametrize("architecture", ["sm_90", "sm_120"])
def test_branches_on_data_are_told_and_the_slow_path_is_left_out(architecture):
    one = way("on_data", architecture)
    assert one.mix.moved("STG") == 8, "both sides store"
    said = " ".join(one.path.notes)
    assert "how often this loop runs depends on the data; one iteration is counted" in said
    assert re.search(r"the slow path is left out \(it calls \w*div\w*\)", said)
    assert not any(i.root == "CALL" and one.path.counts[i.address] for i in one.code.instructions)


@pytest.mark.parametrize("architecture", ["sm_75", "sm_100"])
def test_loops_whose_lanes_wait_for_each_other_end(architecture):
    """For sm_75 the compiler puts a wait for all lanes into a loop: a jump back that does not end the loop."""
    n, rounds = 1 << 14, (1 << 14) // (16 * 256)
    one, swap, search = inspect(LOOPS, archs=architecture, size=str(n))
    assert one.mix.moved("LDG") == rounds, "a byte each"
    assert one.mix.kinds["shared"] == rounds + 2, "256 threads clear 256 bins, and read them"
    assert [note.partition(": ")[2] for note in one.path.notes] == [
        "this branch depends on the data; counted as if at least one lane of each warp takes it"
    ]
    assert swap.mix.kinds["atomic"] == rounds
    assert any(thread_path.ONCE in note for note in swap.path.notes)
    assert search.mix.moved("STG") == 4
    assert any(thread_path.ONCE in note for note in search.path.notes)


@pytest.mark.sweep
def test_what_only_the_launch_decides_needs_no_assumption():
    for name in ("gelu", "add2d", "plus_one"):
        for one in inspect(name, "all"):
            assert not one.path.notes, one.entry
            assert one.path.counts[one.code.instructions[0].address] == 1


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("kernel", "entry", "dtype_name", "loads"), table("instructions", "loads", str, str, str, literal_eval)
)
def test_the_tail_is_not_the_way(kernel, entry, dtype_name, loads):
    (one,) = inspect(kernel, dtype_name, entry)
    size, count = loads
    found = {a.operation: (a.bytes, a.count) for a in one.mix.accesses}
    assert found == {"LDG": (size, count), "STG": (size, 1)}
    assert one.elements == size / dtype(dtype_name).itemsize


def test_sides_end_somewhere_and_without_a_meeting_are_counted_once():
    """Each of 30 branches on data may end the thread; the walk must not follow 2^30 paths. Where no value is known,
    it still ends, and notes say so. Of 258 elements the middle thread has the two after the last full vector.
    """
    branches = ["LDG.E R0, [R2]", "FSETP.GT.AND P0, PT, R0, RZ, PT", "@P0 BRA `(.end)"] * 30
    other = ["FADD R1, R1, R0", "FSETP.GT.AND P1, PT, R1, RZ, PT", "@P1 BRA `(.stop)"]
    lines = [*branches, *other, ".end:", "STG.E [R2], R1", "EXIT", ".stop:", "EXIT"]
    places = iter(range(0, 16 * len(lines), 16))
    listing = "\n".join(line if line.endswith(":") else f"/*{next(places):04x}*/ {line} ;" for line in lines)
    code = sass.parse(f"\t.section\t.text.f\n{listing}\n")["f"]
    walked = thread_path.follow(code, thread_state.State())
    assert set(walked.counts.values()) == {1}
    assert len(walked.counts) == len(code.instructions)
    kept = (WAYS, "sm_90"), (WAYS, "sm_120"), (SOFTMAX, "sm_90"), (LOOPS, "sm_75"), (LOOPS, "sm_100")
    for name, arch in kept:
        kernel = find.kernel(name)
        for code in compiled(kernel, dtype(kernel.dtypes[0]), arch).code.values():
            walked = thread_path.follow(code, thread_state.State())
            assert walked.counts
            assert walked.notes or not any(i.guard and i.root in ("BRA", "EXIT") for i in code.instructions), code.name
    (one,) = inspect("gelu", "float32", "gelu_vec", size="258")
    assert {a.operation: (a.bytes, a.count) for a in one.mix.accesses} == {"LDG": (4, 2), "STG": (4, 2)}


# --- single instructions ---

U32 = [0, 1, 2, 31, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x12345678]


def run(text, **registers):
    """The state after instructions, one a line."""
    state = thread_state.State({name: value for name, value in registers.items() if name[0] in "RU"})
    listing = "\t.section\t.text.f\n" + "".join(
        f"/*{16 * i:04x}*/ {line.strip()} ;\n" for i, line in enumerate(text.strip().splitlines())
    )
    for instruction in sass.parse(listing)["f"].instructions:
        symbolic_values.execute(state, instruction)
    return state


@pytest.mark.parametrize("a", U32)
@pytest.mark.parametrize("b", U32)
def test_sums_and_differences_of_64_bits_carry(a, b):
    wide, other = a << 32 | b, b << 32 | a
    words = {"R0": b, "R1": a, "R2": a, "R3": b}
    state = run("IADD3 R4, P0, R0, R2, RZ\nIADD3.X R5, R1, R3, RZ, P0, !PT", **words)
    assert state.number("R4", 8) == (wide + other) % 2**64
    state = run("IADD3 R4, P0, R0, -R2, RZ\nIADD3.X R5, R1, ~R3, RZ, P0, !PT", **words)
    assert state.number("R4", 8) == (wide - other) % 2**64
    state = run("ISETP.LT.U32.AND P0, PT, R0, R2, PT\nISETP.LT.AND.EX P0, PT, R1, R3, PT, P0", **words)
    assert state.truth("P0") == (np.int64(np.uint64(wide)) < np.int64(np.uint64(other)))
    state = run("IMAD.WIDE R4, R0, R1, R2", **words)
    assert state.number("R4", 8) == (int(np.int32(np.uint32(b))) * int(np.int32(np.uint32(a))) + other) % 2**64


@pytest.mark.parametrize(("text", "expected"), table("instructions", "results", str, literal_eval))
def test_instructions(text, expected):
    state = run(f"MOV R4, 0x77\n{text}", R0=0x9ABCDEF0, R1=0x12345678, R2=5)
    assert state.number("R4") == expected


@pytest.mark.parametrize(("text", "expected"), table("instructions", "predicates", str, literal_eval))
def test_what_is_under_an_unknown_predicate_is_kept_only_if_it_changes_nothing(text, expected):
    assert run(text, R0=1).number("R0") == expected


# --- resources, occupancy, cards ---


def test_resources_are_what_ptxas_says():
    one = way("spilled")
    assert one.resources.registers == 32
    assert one.resources.spill_stores > 0
    assert one.resources.spill_loads > 0
    assert way("tree").resources.shared == 1024
    old = (
        "ptxas info    : Compiling entry function 'f' for 'sm_75'\n"
        "    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads\n"
        "ptxas info    : Used 7 registers, 16 bytes smem, 376 bytes cmem[0]"
    )
    assert compilers.resources(old) == {"f": compilers.Resources(7, 8, 4, 12, 16, 0, 376)}


@pytest.mark.parametrize(("launched", "blocks"), table("inspect", "blocks", str.split, int))
def test_occupancy_is_that_of_nvidias_calculator(launched, blocks):
    name, *numbers = launched
    assert bounds.occupancy(ARCHITECTURES[name], *map(int, numbers)).blocks == blocks


def headers():
    nvcc = shutil.which("nvcc")
    places = [Path("/usr/local/cuda/include"), *([Path(nvcc).resolve().parent.parent / "include"] if nvcc else [])]
    return next((str(p) for p in places if (p / "cuda_occupancy.h").exists()), None)


@pytest.mark.process
@pytest.mark.skipif(not headers() or not shutil.which("g++"), reason="cuda_occupancy.h or g++ is not here")
def test_occupancy_is_that_of_the_calculator_of_this_toolkit(tmp_path):
    source = str(SASS / "calculator.cpp")
    subprocess.run(["g++", f"-I{headers()}", source, "-o", "calculator"], cwd=tmp_path, check=True)
    launches = [
        (t, r, s)
        for t in (1, 33, 64, 96, 128, 256, 384, 640, 1000, 1024)
        for r in (0, 8, 32, 33, 63, 72, 96, 128, 255)
        for s in (0, 1, 1000, 9000, 33000, 49152, 99 * 1024, 163 * 1024, 227 * 1024)
    ]
    lines = "\n".join(" ".join(map(str, numbers)) for numbers in launches)
    for of in ARCHITECTURES.values():
        words = (of.name[3:-1], of.name[-1], of.warps, of.shared, of.shared_block)
        done = subprocess.run(
            [str(tmp_path / "calculator"), *map(str, words)], input=lines, capture_output=True, text=True, check=True
        )
        assert [bounds.occupancy(of, *numbers).blocks for numbers in launches] == list(map(int, done.stdout.split()))


@pytest.mark.parametrize(("name", "card"), table("cards", "names"))
def test_the_card_of_a_machine(name, card):
    found = cards.of_machine(name)
    assert (found.name if found else "") == card


def test_cards_and_architectures_are_known_and_an_opcode_has_one_kind():
    assert cards.card("rtx 4090").name == "RTX4090"
    assert architecture("9.0").name == architecture("90").name == "sm_90"
    assert {c.architecture for c in cards.CARDS.values()} <= set(ARCHITECTURES)
    roots = [root for roots in instruction_mix.KINDS.values() for root in roots]
    assert len(roots) == len(set(roots))


@pytest.mark.parametrize("name", ["gelu", WAYS, SOFTMAX, pytest.param("rmsnorm", marks=pytest.mark.sweep)])
def test_every_opcode_has_a_kind(name):
    for kind in ("float32", "float16", "bfloat16") if name == "gelu" else ("float32",):
        code = compiled(find.kernel(name), dtype(kind), "sm_90").code.values()
        other = {i.root for c in code for i in c.instructions if instruction_mix.kind(i) == instruction_mix.OTHER}
        assert other <= {"NOP"}


# --- bounds and words ---


@pytest.mark.sweep
def test_the_memory_time_is_that_of_the_copy():
    run = cudalab.load(GELU)
    for one in inspect("gelu", "all", file=GELU):
        copy = next(c for c in run.cases if c.backend == "copy" and (c.size, c.dtype) == ("xlarge", one.dtype))
        ours = next(c for c in run.cases if c.variant == one.entry and c.size == "xlarge" and c.dtype == one.dtype)
        assert one.traced.nbytes == copy.nbytes
        assert one.bounds.seconds["memory"] == pytest.approx(copy.median("cold"))
        assert one.measured == next(
            c.median("cold") for c in run.cases if c.label == f"pycuda:{one.entry}" and c.group == ours.group
        )


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["gelu", "add2d", "plus_one"])
def test_nothing_is_much_faster_than_its_bound(name):
    for one in inspect(name, "all", file=H200 / f"{name}.json"):
        assert 0.88 < one.ratio < 1.6, one.sentence  # the least: loads of 2 bytes, whose latency is a guess


def test_issue_time_by_hand_and_what_bounds_a_slower_card():
    (one,) = inspect("gelu", "bfloat16", "gelu_vec", card="H200")
    warps = math.ceil(one.traced.blocks / 132) * 4
    assert one.bounds.seconds["issue"] == pytest.approx(warps * one.mix.total / 4 / 1.98e9)
    assert one.bounds.seconds["memory"] == pytest.approx(1024 * 3 * 224 * 224 * 4 / 4.8e12)
    assert one.mix.total == sum(one.mix.kinds.values()) == sum(one.path.counts.values())
    assert sum(line.share for line in one.mix.lines) <= 1.0000001
    (one,) = inspect("gelu", "bfloat16", "gelu_vec", card="H100")
    assert one.bounds.name == "memory"
    assert set(one.bounds.seconds) & {"start", "latency"} == set(), "not measured on that card"


def test_hints():
    (plain,) = inspect("add2d", only="add2d_plain")
    (few,) = inspect(WAYS, only="tree", card="H200")
    (row,) = inspect(SOFTMAX, card="H200")
    costly = way("costly")
    low = dataclasses.replace(row.occupancy, warps=8, limit="registers")
    none = dataclasses.replace(row.occupancy, blocks=0, warps=0, limit="shared memory")
    tensor = dataclasses.replace(row.mix, kinds={**row.mix.kinds, "tensor": 4})
    for one, hint in (
        (way("spilled"), "registers are spilled"),
        (costly, "64 bytes of local memory per thread"),
        (costly, "double-precision instructions per thread on float32 data"),
        (costly, "50 threads per block: not a multiple of 32"),
        (plain, "global memory is accessed 4 bytes at a time"),
        (few, "with 1 block, 131 of 132 SMs have no work"),
        (row, "request 2.0 times the bytes"),
        (dataclasses.replace(row, occupancy=low), "8 of 64 warps are resident, limited by registers"),
        (dataclasses.replace(row, occupancy=none), "no block fits on an SM: too much shared memory"),
        (dataclasses.replace(row, mix=tensor), "tensor cores"),
    ):
        assert any(hint in said for said in diagnosis.hints(one)), hint
    assert "division" not in " ".join(way("divided").hints)  # once a thread
    assert [one.entry for one in inspect("add2d", skip="add2d_[!p]*")] == ["add2d_plain"]
    assert "32 of 64 warps are resident" not in " ".join(row.hints)
    assert [one.hints for one in inspect("gelu", "all", "gelu_vec")] == [()] * 3


@pytest.mark.parametrize("architecture", ["sm_90", "sm_120"])
def test_a_division_is_a_hint_if_it_is_done_for_each_element(architecture):
    """And not for a count of rounds, which the compiler computes once a thread."""
    lines = (SASS / "ways.cu").read_text().splitlines()
    (number,) = (i for i, line in enumerate(lines, 1) if "x[i % " in line)
    of_element = [hint for hint in way("quotients", architecture).hints if "division" in hint]
    assert of_element == [
        f"integer division at ways.cu:{number} by a number that the compiler does not know costs about 20 instructions"
    ]
    assert not any("division" in hint for hint in way("trips", architecture).hints)


def test_arrays_updated_in_place_are_read_and_written(tmp_path):
    """Workspace is not counted, and `bytes` of the spec counts where it is given: as `bench` counts."""

    def of(*changes):
        (one,) = inspect(ways_with(tmp_path, *changes), only="trips", card="H200")
        return one

    both = of(("reference=lambda x: x,", "reference=lambda x, y: x + y,"))
    assert both.bytes == 12 and "12 bytes per element" in both.sentence  # x and y read, y written
    assert not any("times the bytes of the arrays" in hint for hint in both.hints)
    assert of().bytes == 8
    work = (
        ("Kernel, Launch", "Kernel, Launch, Work"),
        ("budgets=", 'shapes={"x": "n", "w": "n"}, workspace={"w": Work()}, budgets='),
    )
    takes = ("lambda x, y:", "lambda x, y, w:"), ("def divided(x, y)", "def divided(x, y, w)")
    assert of(*work, *takes).bytes == 8
    assert of(("budgets=", "bytes=lambda x: x.nbytes, budgets=")).bytes == 4


@pytest.mark.sweep
def test_the_sentence_is_derived():
    (vec,) = inspect("gelu", "float32", "gelu_vec", card="H100")
    assert re.match(
        r"gelu_vec, float32: \d+ instructions and 8 bytes per element; on an H100 bound by memory", vec.sentence
    )
    (no_card,) = inspect("gelu", "float32", "gelu_vec", archs="sm_90")
    assert no_card.bounds is None
    assert no_card.sentence.endswith("give --card to see what bounds it")
    (plain,) = inspect("softmax", "float32", "softmax_plain", file=H200 / "softmax.json")
    assert "bound by instruction issue, which takes 1." in plain.sentence
    assert "of the instructions are of softmax.cu:23 (expf)" in plain.sentence
    assert diagnosis._called("float f() {\n  return sinf(x) + g(1); // cosf(x)\n}", 2) == " (sinf, g)"


# --- the command ---


def test_the_table_fits_into_80_columns_and_puts_many_entries_below_one_another(command):
    done = command("gelu", "--dtypes", "all", "--results", str(GELU), width=80)
    assert done.exit_code == 0, done.output
    assert max(map(len, done.output.splitlines())) <= 80
    for words in ("registers", "limited by", "instructions per element", "measured / predicted", "bound by", "hint: "):
        assert words in done.output
    assert done.output.count("\ngelu  xlarge") == 2
    assert "spill" not in done.output
    done = command(WAYS, width=80)
    assert max(map(len, done.output.splitlines())) <= 80
    assert done.output.count("\nthreads per block ") == 2


def test_json_and_annotated_sass_have_everything(command):
    done = command("gelu", "--dtypes", "bfloat16", "--results", str(GELU), "--format", "json")
    scalar, _full, vec = json.loads(done.output)
    assert vec["entry"] == "gelu_vec"
    assert vec["predicted"] == max(vec["seconds"].values()) == vec["seconds"][vec["bound_by"]]
    assert vec["ratio"] == pytest.approx(vec["measured"] / vec["predicted"])
    assert vec["accesses_per_thread"][0] == {"operation": "LDG", "bytes": 16, "count": 2}
    assert vec["instructions_per_thread"]["total"] == sum(vec["instructions_per_thread"]["kinds"].values())
    assert scalar["launch"]["block"] == [256, 1, 1]
    done = command("gelu", "--dtypes", "float32", "--only", "gelu_vec", "--sass")
    lines = done.output.splitlines()
    assert any(re.match(r" +1 x +\w+ +LDG\.E\.128\.CONSTANT R\d+, desc", line) for line in lines)
    source = [line for line in lines if line.startswith("gelu.cu:")]
    assert any("fmaf" in line for line in source)
    assert any("that this thread skips" in line for line in lines)
    assert "STG.E " not in done.output, "the tail stores one element at a time"


def test_what_executes_too_many_instructions_is_refused(command, monkeypatch):
    monkeypatch.setattr(thread_path, "MOST", 10_000)
    done = command(WAYS, "--size", "1G", "--only", "strided")
    assert done.exit_code == 2
    assert "executes more than 10,000 instructions; give a smaller --size" in done.output


def changed(tmp_path, change):
    run = cudalab.load(GELU)
    change(run)
    run.save(tmp_path / "changed.json")
    return tmp_path / "changed.json"


def test_results_of_other_machines_sources_and_sizes(tmp_path):
    file = changed(tmp_path, lambda run: setattr(run.machine, "name", "Some GPU"))
    with pytest.raises(NotFound, match=r"Some GPU is not known here; give --card, one of H200"):
        inspect("gelu", file=file)
    assert inspect("gelu", file=file, card="H200")[0].measured
    file = changed(tmp_path, lambda run: setattr(run.machine, "device", "cpu"))
    with pytest.raises(InputError, match="measured on a CPU"):
        inspect("gelu", file=file)
    file = changed(tmp_path, lambda run: run.sources.update({"gelu.cu": "0" * 64}))
    assert "the results are of another version of gelu.cu; measure it again" in inspect("gelu", file=file)[0].hints
    (one,) = inspect("gelu", "float32", "gelu_vec", size="1000000", file=GELU)
    assert one.measured is None
    assert one.bounds.memory.source == "a copy of 1,233 MB in the results"
    assert one.hints == ("the results have no time of gelu_vec at this size",)
    (other,) = inspect("gelu", "float32", "gelu_vec", file=H200 / "add2d.json")
    assert other.bounds.memory.source == "a copy of 3,221 MB in the results"
    assert other.remark


def ways_with(tmp_path, *changes):
    """A copy of the kernel `ways` whose spec has texts replaced; its path."""
    text = (SASS / "ways.py").read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "ways.py").write_text(text)
    (tmp_path / "ways.cu").write_bytes((SASS / "ways.cu").read_bytes())
    return str(tmp_path / "ways.py")


def test_what_cannot_be_compiled_or_allocated(tmp_path):
    def nothing(kernel, kind, architecture, launched):
        return compilers.Compiled({}, {}, kernel.cu.read_text())

    with pytest.raises(SpecError, match=r"nvcc generates no code for gelu_scalar; does an #if exclude it\?"):
        inspection.inspect("gelu", compiled=nothing)
    with pytest.raises(InputError, match="do not fit here; give a smaller --size"):
        traced_launch.arrays(find.kernel("gelu"), dtype("float32"), (2**20, 2**20, 2**10))
    one = way("strided")
    code = dataclasses.replace(one.code, parameters=(0x210, 28))
    with pytest.raises(
        SpecError, match=r"strided takes 28 bytes of arguments, but its launch passes 24; .* np.int64\(n\)"
    ):
        traced_launch.first_state(code, one.traced, "sm_90")


@pytest.mark.process
@pytest.mark.parametrize(("nvcc", "nvdisasm", "error", "said"), table("inspect", "missing tools"))
def test_missing_tools_say_what_to_type(monkeypatch, nvcc, nvdisasm, error, said):
    monkeypatch.setattr(compilers.cuda, "nvcc", lambda: nvcc or None)
    monkeypatch.setattr(compilers, "nvdisasm", lambda: nvdisasm or None)
    with pytest.raises(getattr(errors, error), match=said):
        compilers.compiled(find.kernel("gelu"), dtype("float32"), "sm_90")


def test_the_disassembler_is_looked_for_where_pip_puts_it(monkeypatch, tmp_path):
    program = tmp_path / "nvidia" / "cu13" / "bin" / "nvdisasm"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", "")
    for name in ("CUDA_ROOT", "CUDA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(compilers, "_folders", lambda package: [tmp_path / package])
    assert compilers.nvdisasm() == str(program)
    program.unlink()
    assert compilers.nvdisasm() is None


def test_kept_code_of_another_source_is_refused(tmp_path):
    kernel, kind = find.kernel("gelu"), dtype("float32")
    file = kept_sass.place(tmp_path, kernel, kind, "sm_90")
    with pytest.raises(Unavailable, match="no machine code is kept in"):
        kept_sass.reader(tmp_path)(kernel, kind, "sm_90")
    file.write_text("gelu.cu 0000\n")
    with pytest.raises(Unavailable, match=r"is of another gelu.cu; python tests/support/kept_sass.py writes it again"):
        kept_sass.reader(tmp_path)(kernel, kind, "sm_90")


def test_what_comes_from_files_is_made_visible():
    (one,) = inspect("gelu", "float32", "gelu_vec")
    text = report.render([dataclasses.replace(one, sentence="a\x1b[31mb", text="\x1b[2J\n" * 40)], 80, False, sass=True)
    assert "\x1b" not in text


# --- with the compiler ---


@functools.cache
def release():
    nvcc = compilers.cuda.nvcc()
    if not nvcc or not compilers.nvdisasm():
        return "none"
    said = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"release ([\d.]+)", said)
    return found[1] if found else "none"  # a stand-in for nvcc


@pytest.mark.skipif(release() == "none", reason="nvcc or nvdisasm is not here")
def test_an_older_architecture_by_the_compiler_itself():
    """All steps from the source to the counts, for an architecture without kept code."""
    (one,) = inspection.inspect(WAYS, only="divided", archs="sm_80")
    assert one.mix.moved("STG") == 4 * (100_000 // 37 + 100_000 % 37 + 16)
    assert one.architecture == "sm_80"
    assert one.resources.registers > 0


@pytest.mark.skipif(release() == "none", reason="nvcc or nvdisasm is not here")
@pytest.mark.parametrize("architecture", sorted({card.architecture for card in cards.CARDS.values()}))
def test_loops_of_every_architecture_end(architecture):
    one, *others = inspection.inspect(LOOPS, archs=architecture)
    assert one.mix.moved("LDG") == 4
    assert all(other.mix.total < 1000 for other in others)


def instructions(text):
    """Those of nvdisasm's text, whose sections, notes and numbers of labels depend on its version."""
    found = "\n".join(re.findall(r"/\*[0-9a-f]{4,}\*/\s+([^.\s].*?)\s*(?:\(\*.*?\*\))?\s*;", text))
    labels = {label: f"L{i}" for i, label in enumerate(dict.fromkeys(re.findall(r"\.L_x_\d+", found)))}
    return re.sub(r"\.L_x_\d+", lambda label: labels[label[0]], found)


@pytest.mark.skipif(release() != "13.0", reason="the kept machine code is that of nvcc 13.0")
def test_what_is_kept_is_what_the_compiler_makes():
    kernel, kind = find.kernel(WAYS), dtype("float32")
    kept, made = kept_sass.place(SASS, kernel, kind, "sm_90").read_text(), kept_sass.text(kernel, kind, "sm_90")
    assert "STG" in instructions(kept)
    assert instructions(kept) == instructions(made)


@pytest.mark.skipif(release() == "none", reason="nvcc or nvdisasm is not here")
def test_compile_errors_are_the_compilers_own(tmp_path):
    spec = Path(ways_with(tmp_path))
    spec.with_suffix(".cu").write_text(spec.with_suffix(".cu").read_text().replace("v + 1;", "v + one;"))
    done = invoke("inspect", spec)
    assert done.exit_code == 2
    assert re.search(r'ways.cu\(\d+\): error: identifier "one" is undefined', done.output)
    assert "/tmp" not in done.output.replace(str(tmp_path), "")
