"""The lab's own GPU code (placing, launching, guarding, timing) with unmodified PyCUDA on the CPU stand-in."""

from __future__ import annotations

import ctypes
import itertools
import shutil
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import planted
import pytest
import several
import specs
from cpu_rows import rows
from small_groups import small_groups

from cudalab import Budget, Launch, Scalar, backends, timing
from cudalab.base.errors import LaunchError
from cudalab.device import copy, driver, kept_data
from cudalab.device.arrays import DeviceArray
from cudalab.device.cpu import Cpu
from cudalab.device.gpu_memory import Regions
from cudalab.device.operands import Bound, returning
from cudalab.engine import against, plan
from cudalab.engine.groups import Group
from cudalab.engine.selection import Selection
from cudalab.results import record
from cudalab.spec import find
from cudalab.spec.dtype import dtype
from cudalab.timing import ceiling
from cudalab.timing.alone import Neighbours
from cudalab.timing.clock import Clock
from cudalab.timing.events import OFF_SECONDS
from cudalab.timing.gpu import cold_graph_clock, graph_clock, rotating, timer_of
from cudalab.timing.graph import Graph
from cudalab.timing.proof import CPU, GPU, Contents, Proof
from cudalab.timing.work import Batch, Returning, Unproven

ONLY = ("pycuda", "pycuda_elementwise")


def of_1000(*names):
    """The group of plus_one, or of these kernels, on 1,000 numbers."""
    return plan.groups(names or ["plus_one"], "1000", "")[0]


def by_label(fake, group, *modes):
    return {case.label: case for case in rows(fake, group, *ONLY, modes=modes)}


def assert_timed(cases, *kinds):
    """Each is right and has these kinds of time, or the usual ones."""
    for case in cases:
        assert case.status in (record.OK, record.CEILING), f"{case.label}: {case.reason}"
        assert set(kinds or ("cold", "hot", "call", "graph", "graph_cold")) <= set(case.times), case.notes


def test_an_earlier_cu_runs_its_own_text(fake, tmp_path):
    """It adds nothing, and so is wrong."""
    kernel = find.kernel("plus_one")
    (tmp_path / "old.cu").write_text(kernel.cu.read_text().replace("x[i] + 1", "x[i]"))
    only = "pycuda:plus_one_scalar"
    group = Group(kernel, "2^12", (2**12,), dtype("float32"))
    (group,) = against.beside([group], str(tmp_path / "old.cu"), Selection(only=(only,)))
    assert {case.label: case.status for case in rows(fake, group, only)} == {
        "pycuda:plus_one_scalar": record.OK, "pycuda:plus_one_scalar @ old": record.WRONG,
    }  # fmt: skip


def kind_of(group):
    """What is placed and launched: how many arrays and scalars, off their alignment or not, and kinds of launches."""
    kernel, placed = group.kernel, Cpu().place(group.kernel, group.dtype, group.arrays(0))
    launches = [kernel.launches(entry, placed.by_name(kernel)) for entry in kernel.entries]
    kinds = {(len(some), bool(one.shared), one.cluster, one.cooperative) for some in launches for one in some}
    counts = tuple(map(len, (kernel.input_names, kernel.outs, kernel.workspace, kernel.scalars)))
    return counts, frozenset(kinds), bool(group.offsets)


GROUPS = small_groups()
FIRST = {kind_of(group): group for group in reversed(GROUPS) if group.dtype.name == group.kernel.dtypes[0]}


def in_a_sweep_unless_first(group):
    """One group of each kind, in a first dtype, shows what a GPU gets; the others are in a sweep."""
    marks = [] if any(group is one for one in FIRST.values()) else pytest.mark.sweep
    return pytest.param(group, id=str(group), marks=marks)


@pytest.mark.parametrize("group", [in_a_sweep_unless_first(group) for group in GROUPS])
def test_parity(fake, group):
    """Arrays are placed, guarded and launched. What a kernel computes is checked on the host (tests/kernels)."""
    for case in rows(fake, group, *ONLY):
        assert case.status == record.OK, f"{case.label}: {case.reason}"


def test_times_of_all_kinds_are_taken(fake):
    cases = by_label(fake, of_1000(), "launch", "graph")
    assert set(cases) == {"pycuda:plus_one_scalar", "pycuda:plus_one_vec", "pycuda_elementwise", "copy"}
    copied = cases["copy"]
    assert (copied.nbytes, copied.written, copied.flops) == (8000, 4000, 0)
    assert copied.notes[0].startswith("the fastest of 10 copies in a trial: ")  # this device has no TMA
    assert_timed(cases.values())
    for case in cases.values():
        assert (case.nbytes, case.written, len(case.times)) == (8000, 4000, 5)
        assert all(case.median(kind) > 0 for kind in case.times)


@pytest.mark.parametrize(
    "make", [several.box, *(pytest.param(make, marks=pytest.mark.sweep) for make in (several.adam, several.count))]
)
def test_arrays_in_place_and_filled_ones_are_new_for_every_run(fake, tmp_path, make):
    group = Group(make(tmp_path), "small", (300,), dtype("float32"))
    assert_timed(by_label(fake, group, "launch", "graph").values())


def test_bugs_in_place_are_wrong(fake, tmp_path):
    spec = planted.write("kernels/adamw", tmp_path, planted.bugs("kernels/adamw"))
    (group,) = plan.groups([str(spec)], "3000", "")
    found = {case.variant: case.status for case in rows(fake, group, *ONLY)}
    assert found.pop("right::adamw_kernel") == record.OK
    assert set(found.values()) == {record.WRONG}, found


def test_every_form_of_the_copy_copies_and_can_be_captured(fake):
    nbytes = 32 * 1000 + 2  # half a pack more than 1,000 read and 1,000 written
    found = fake.copies(nbytes)
    np.testing.assert_array_equal(fake.fetch(found[copy.USUAL].on.inputs["from"]), copy.pattern(4 * 1001))
    right = {form: bound for form, bound in found.items() if ceiling.copies(fake, bound)}
    assert set(found) - set(right) == {form for form in copy.FORMS if form.startswith("bulk")}
    for bound in right.values():
        graph = Graph([bound] * 3, fake.stream)
        assert (graph.runs, graph.kernels) == (3, 3)
        assert ceiling.copies(fake, replace(bound, run=graph.replay))
        graph.close()
        _, elsewhere = fake.operand_sets(2, bound.on)
        assert elsewhere.output.ptr != bound.output().ptr
        assert ceiling.copies(fake, bound.again(elsewhere))


def test_calibration_measures_nothing_an_empty_kernel_and_an_empty_node(fake):
    found = timing.calibrate(fake, ("launch", "graph"))
    assert {name: len(samples) for name, samples in found.items()} == {
        "empty event pair": 100, "empty kernel": 100, "empty graph node": 50,
    }  # fmt: skip
    assert "empty graph node" not in timing.calibrate(fake, ("launch",))


def changed(folder, old, new, name="plus_one"):
    """The lab's plus_one as a user's file, where `new` stands for the first `old`: its group of 1,000 numbers."""
    kernel = find.kernel("plus_one")
    assert old in kernel.cu.read_text()
    (folder / f"{name}.py").write_text(Path(kernel.file).read_text().replace("plus_one = Kernel", f"{name} = Kernel"))
    (folder / f"{name}.cu").write_text(kernel.cu.read_text().replace(old, new, 1))
    shutil.copytree(kernel.cu.parent / "common", folder / "common")
    return of_1000(str(folder / f"{name}.py"))


def bound_on(fake, group):
    operands = fake.place(group.kernel, group.dtype, group.arrays(0))
    return backends.by_name()["pycuda"].bind(group.kernel, "plus_one_vec", group.dtype, operands)


@pytest.fixture
def placed(fake):
    """plus_one on 1,000 numbers, ready to run."""
    yield bound_on(fake, of_1000())
    fake.release()


def on_each(bound):
    """The same, with the operands on which it is bound again."""
    return replace(bound, again=lambda on: replace(bound, output=lambda: on.output, on=on))


def loads(proof):
    """A list that gets the number of the contents of each load."""
    loaded, real = [], proof.contents.load
    proof.contents.load = lambda number, operands=None, names=(): (loaded.append(number), real(number, operands))
    return loaded


def test_a_graph_runs_each_bound_once(fake, placed):
    want = fake.fetch(placed.output()) if placed.run() is None else None
    graph = Graph([placed] * 3, fake.stream)
    assert (graph.runs, graph.kernels, len(graph.results)) == (3, 3, 3)
    fake.poison(placed.output())
    assert not np.array_equal(fake.fetch(placed.output()), want)
    graph.replay()
    np.testing.assert_array_equal(fake.fetch(placed.output()), want)
    graph.close()
    graph.close()


def proof_of(fake, bound, contents=2):
    """Judges a bound of plus_one on 1,000 numbers, whose inputs take `contents` in turn."""
    group, arrays = of_1000(), []

    def draw():
        arrays.append(group.arrays(len(arrays)))
        fake.keep(arrays[-1])

    for _ in range(contents):
        draw()

    def judge(number, result, digest, clock):
        assert fake.fingerprint(result) == digest
        np.testing.assert_array_equal(fake.fetch(result), arrays[number]["x"] + 1)

    return Proof(Contents(contents, fake.load, np.random.default_rng(0), draw), judge)


def test_results_of_a_library_are_poisoned_and_let_go_once_they_are_verified(fake, placed):
    (again,) = fake.operand_sets(1, placed.on)
    given = []

    def call():
        """A new array each time, as a library returns it."""
        (output,) = fake.outputs(again.output, 1 + len(given))[-1:]
        placed.again(replace(again, output=output)).run()
        given.append(output)
        return output

    proof = proof_of(fake, placed, 3)
    work = Returning(fake, call, proof, 2)
    for touched in (True, False):
        work.before()
        if touched:
            work.touch()  # a run on other contents
            work.before()
        work.run()
        assert len(work._results) == 2
        results = [*work._results]
        work.verify()
        right = fake.fetch(placed.on.inputs["x"]) + 1
        assert not work._results and not any(np.array_equal(fake.fetch(result), right) for result in results)
    fake.poison(given[-1], 0)
    work.before()
    work._results.append(given[-1])
    with pytest.raises(AssertionError):
        work.verify()
    assert not work._results and fake.fetch(given[-1]).view(np.uint32).any()  # poisoned all the same


def test_a_cold_graph_rotates_over_operands_with_other_contents(fake, placed):
    bounds, operands = rotating(fake, placed)
    footprint = 2 * fake.fetch(placed.output()).nbytes
    memory = {bound.output().ptr for bound in bounds}
    assert len(memory) == len(bounds) == len(operands)
    assert len(memory) * footprint >= 5 * fake.details()["l2_bytes"]
    clock = cold_graph_clock(fake, placed, proof_of(fake, placed))
    assert clock.sample()[0] > 0
    assert len({fake.fingerprint(on.inputs["x"]) for on in operands}) == 2


def test_every_run_of_a_batch_and_of_a_graph_is_judged(fake, placed):
    proof, judged = proof_of(fake, placed), []
    real = proof.judge
    proof.judge = lambda number, result, digest, clock: (judged.append(result.ptr), real(number, result, digest, clock))
    found = timing.clocks(fake, placed, ("launch", "graph"), [], proof)
    for kind, results in (("cold", 1), ("hot", 4), ("call", 8), ("graph", 4)):
        judged.clear()
        found[kind].sample()
        assert len(set(judged)) >= results, kind


def test_a_run_that_skips_its_work_is_caught_by_each_clock(fake, placed):
    proof, lazy = proof_of(fake, placed), on_each(replace(placed, run=timer_of(fake).empty))
    found = timing.clocks(fake, lazy, ("launch", "graph"), [], proof)
    assert set(found) == {"cold", "hot", "call", "graph", "graph_cold"}
    for kind, clock in found.items():
        with pytest.raises(AssertionError):
            print(kind, clock.sample())
    alone = timing.clocks(fake, placed, ("graph",), [], proof)
    assert list(alone) == ["cold", "graph", "graph_cold"]  # the cold time bounds theirs


@pytest.mark.parametrize(("held", "other", "raises"), [(4e-6, 4e-6, False), (4e-6, 40e-6, True), (400e-6, 4e-6, True)])
def test_events_that_the_gpu_s_own_timer_contradicts_are_refused(fake, monkeypatch, held, other, raises):
    timer, work = timer_of(fake), Unproven(lambda: None)
    monkeypatch.setattr(timer, "_slack", OFF_SECONDS)  # a busy CPU has more
    for _ in range(4):
        timer._agree(work, held, other)
    with pytest.raises(LaunchError, match="one of the clocks was replaced") if raises else nullcontext():
        timer._agree(work, held, other)


def test_the_cold_clock_confirms_its_time_on_new_contents(fake, placed):
    proof = proof_of(fake, placed)
    proof.contents.last = True
    clock = timing.clocks(fake, placed, ("launch",), [], proof)["cold"]
    for _ in range(4):
        clock.sample()
    clock.confirm([[1.0]])
    assert (proof.contents.count, max(proof.met)) == (3, 2)
    clock.confirm([[-1.0]])  # no run is so fast, on known contents neither
    assert proof.contents.count == 3 + proof.limits.tries


class OfTimer:
    """Takes these seconds for runs alone."""

    launch, expired = 1e-6, 0

    def __init__(self, seconds):
        self.left = list(seconds)

    def once(self, run, held):
        run()

    def cold(self, work, n, held):
        for _ in range(n):
            work.run()

    def hot(self, work, held):
        work.before()
        work.touch()
        work.run()
        work.verify()
        return [1e-6 * self.left.pop(0)]


@pytest.mark.parametrize(
    ("measured", "now", "alone", "launches", "refused"),
    [
        (60, 60, [100] * 5, 1, True),
        (87, 60, [100] * 5, 1, True),
        (89, 60, [100], 1, False),
        (60, 89, [100, 100], 1, False),  # the GPU has become slow
        (60, 60, [100, 100, 62], 1, False),  # two runs were disturbed
        (60, 60, [100, 100], 36, False),  # a graph saves the time between launches
    ],
)
def test_runs_of_a_batch_that_take_far_less_than_one_alone_are_refused(
    fake, placed, measured, now, alone, launches, refused
):
    bound = on_each(replace(placed, run=lambda: [placed.run() for _ in range(launches)]))
    proof, timer = proof_of(fake, bound, 4), OfTimer(alone)
    proof.met = {1, 3}
    (other,) = fake.outputs(placed.output(), 1)
    loaded = loads(proof)
    fake.poison(other, 0)
    neighbours = Neighbours(fake, timer, bound, lambda: Batch(fake, bound, proof, 1), proof)
    confirm = neighbours.bounded(Clock(lambda: [1e-6 * now]), "hot").confirm
    said = rf"a run takes {measured}\.0 \u00b5s hot, and 100 \u00b5s alone with the same data in L2: do runs reuse"
    with pytest.raises(LaunchError, match=said) if refused else nullcontext():
        confirm([[1e-6 * measured]])
    assert not timer.left
    assert all(set(pair) == {1, 3} for pair in zip(loaded[::2], loaded[1::2], strict=True)) and loaded
    assert fake.fetch(other).any()  # an earlier result is gone
    proof.met = {0}
    confirm([[0.0]])  # with one content nothing is told


def test_a_large_use_of_local_memory_is_said(fake):
    size = ctypes.c_int.in_dll(driver.libcuda(), "local_bytes")
    for size.value, said in ((40, False), (256, True)):
        bound, notes = bound_on(fake, of_1000()), []
        timing.clocks(fake, bound, ("launch",), notes, proof_of(fake, bound))
        assert [note[:38] for note in notes] == ["a thread uses 256 B of local memory, w"] * said
        fake.release()
    size.value = 0


def test_the_limits_of_a_stand_in_are_those_of_the_cpu_that_it_runs_on(fake, placed):
    proof = proof_of(fake, placed)
    assert timer_of(fake).on_cpu and proof.limits is GPU
    timing.clocks(fake, placed, ("launch",), [], proof)
    assert proof.limits is CPU


def test_newly_loaded_code_never_meets_new_contents_before_its_sample(fake, placed):
    """Else its `__device__` variables would hold the answer when the last run confirms the time."""
    proof = proof_of(fake, placed)
    proof.contents.last = True
    clock = timing.clocks(fake, replace(placed, kept=4, fresh=lambda: placed), ("launch",), [], proof)["cold"]
    clock.sample()
    loaded = loads(proof)
    clock.confirm([[1.0]])
    assert loaded[-1] == 2 and loaded.count(2) == 1 and len(loaded) >= 2


def test_calls_that_return_one_array_again_and_again_have_no_hot_and_no_graph_time(fake, placed):
    again, notes = placed.output(), []

    def ready(on):
        function = placed.again(on.writing_to(again)).run
        return returning(lambda: (function(), again)[1], lambda on: [], on)

    bound = replace(ready(placed.on), again=ready)
    found = timing.clocks(fake, bound, ("launch", "graph", "api"), notes, proof_of(fake, placed))
    assert set(found) == {"cold"}
    assert [note.partition(":")[0] for note in notes] == ["no hot time", "no api time", "no graph"]
    assert all("several calls return the same memory" in note for note in notes)


def test_what_does_not_fit_into_a_graph_is_refused(fake, placed):
    def waits():
        placed.run()
        fake.stream.synchronize()

    for bound, message in (
        (Bound(lambda: None, lambda: None), "4 runs were captured as 0 kernels"),
        (replace(placed, run=waits), "cannot be captured: LogicError: cuStreamSynchronize failed"),
    ):
        with pytest.raises(LaunchError, match=message):
            Graph([bound] * 4, fake.stream)


def test_release_ends_the_graphs_that_stand_on_the_arrays(fake, placed, monkeypatch):
    ended = []
    real = Graph.close
    monkeypatch.setattr(Graph, "close", lambda graph: (ended.append(graph), real(graph)))
    graph_clock(fake, placed, 2, None)
    assert not ended
    fake.release()
    assert len(ended) == 1
    fake.release()
    assert len(ended) == 1


def test_what_l2_was_told_to_keep_is_released_before_each_sample(fake):
    resets = ctypes.c_uint.in_dll(driver.libcuda(), "l2_resets")
    before = resets.value
    timer, work = timer_of(fake), Unproven(timer_of(fake).empty, 5)
    assert len(timer.cold(work, 5, True)) == 5
    assert resets.value - before == 5
    timer.hot(work, True)
    assert resets.value - before == 6


def test_a_write_beyond_the_end_is_wrong(fake, tmp_path):
    case = by_label(fake, changed(tmp_path, "if (i < n)", "if (i <= n)"))["pycuda:plus_one_scalar"]
    assert case.status == record.WRONG
    assert "bytes after 'y'" in case.reason


def test_a_changed_input_is_wrong(fake):
    kernel = find.kernel("plus_one")
    operands = fake.place(kernel, dtype("float32"), kernel.make((100,), dtype("float32")))
    assert fake.tampered(operands) is None
    fake.poison(DeviceArray((1,), np.dtype(np.float32), operands.inputs["x"].ptr))
    assert fake.tampered(operands) == "changed its input 'x'"
    fake.release()


@pytest.mark.parametrize(
    ("when", "reason"), [("true", ""), pytest.param("calls++ > 60", " (in a timed run)", marks=pytest.mark.sweep)]
)
def test_a_write_to_a_constant_is_wrong(fake, tmp_path, when, reason):
    """Else a kernel could keep answers there, from one launch to the next."""
    write = f"    if (i == 0 && {when}) const_cast<volatile int*>(seen)[1] = 7;\n"
    group = changed(tmp_path, "    if (i < n) y[i]", f"{write}    if (i < n) y[i]")
    variables = "__constant__ int seen[4];\n__device__ int calls;\n"
    group.kernel.cu.write_text(group.kernel.cu.read_text().replace('extern "C"', f'{variables}extern "C"', 1))
    found = by_label(fake, group, "launch")
    case = found["pycuda:plus_one_scalar"]
    assert (case.status, case.times) == (record.WRONG, {})
    assert case.reason == f"wrote to its __constant__ variable 'seen', which a kernel may only read{reason}"
    assert found["pycuda:plus_one_vec"].status == record.OK


@pytest.mark.sweep
@pytest.mark.parametrize("used", ["doubled[0] / 2", "1.5f"])
def test_scalars_have_other_values_and_constants_follow_them_and_come_back(fake, tmp_path, used):
    """A `__constant__` variable that follows from a scalar has the spec's value again when times are taken."""
    text = (
        "__constant__ float doubled[1];\n"
        "__global__ void scaled(const float* x, float* y, int n) {\n"
        f"    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i < n) y[i] = x[i] * ({used});\n}}\n"
    )
    kernel = specs.kernel(
        tmp_path, "scaled", text, reference=lambda x, a: x * a, budgets=Budget(1), scalars={"a": Scalar(1.5)},
        constants={"doubled": lambda a: np.array([2 * a], np.float32)},
    )  # fmt: skip
    case = by_label(fake, Group(kernel, "small", (1000,), dtype("float32")), "launch", "graph")["pycuda:scaled"]
    if used == "1.5f":
        assert case.status == record.WRONG and "this is the result for a=1.5; is that value" in case.reason
    else:
        assert_timed([case], "cold", "hot", "graph")


@pytest.mark.sweep
def test_variables_of_what_a_launch_instantiates_count_as_kept(fake, monkeypatch, tmp_path):
    """The launch of an entry may name a template that no entry names; an expression may call what no entry calls."""
    codes = []
    monkeypatch.setattr(kept_data, "kept_bytes", lambda code, source="": codes.append(code) or 4)
    text = (
        "template <int BY> __device__ int by() { static int n[4]; n[0] += BY; return BY; }\n"
        "template <int BY> __global__ void add(const float* x, float* y, int n) {\n"
        "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i < n) y[i] = x[i] + by<BY>();\n}\n"
    )
    kernel = specs.kernel(
        tmp_path, "one", text, pointwise=True, reference=lambda x: x + 1, elementwise="x + by<1>()",
        entries={"plus": lambda x, y: Launch((8,), (128,), (x, y, np.int32(x.size)), entry="add<1>")},
    )  # fmt: skip
    found = by_label(fake, Group(kernel, "small", (1000,), dtype("float32")), "launch", "graph")
    assert found["pycuda:plus"].status == record.OK, found["pycuda:plus"].reason
    assert set(found["pycuda:plus"].times) == {"cold", "call"}
    assert all(b"2by" in code for code in codes) and len(codes) == 2  # the instances are in the code that is looked at
    assert "only pycuda's rows are timed" in found["pycuda_elementwise"].notes[-1]


def test_a_file_that_does_not_compile_costs_its_rows_only(fake, tmp_path):
    for case in rows(fake, changed(tmp_path, "x[i] + 1;", "x[i] + one;", name="broken"), *ONLY):
        assert case.status == record.ERROR
        assert "broken.cu:10" in case.reason and "one" in case.reason


def test_a_digest_depends_on_the_key_of_the_run(fake):
    data = np.arange(100, dtype=np.float32)
    pointer = driver.pycuda().to_device(data)
    driver.pycuda().Context.synchronize()  # the copy went through another stream
    found = []
    for key in (1, 2, 1):
        regions = Regions(fake.lab, fake.stream, [(int(pointer), data.nbytes)], 2, key)
        found += regions.digests()
    assert found[0] == found[2] != found[1]


@pytest.mark.parametrize("kind", ["batch", "copies", "contents"])
def test_guard_bands_of_every_allocation_are_looked_at(fake, kind):
    kernel, single = find.kernel("gelu"), dtype("float32")
    arrays = kernel.make((1, 300), single, 0)
    operands = fake.place(kernel, single, arrays)
    made = {
        "batch": lambda: fake.outputs(operands.output, 3),
        "copies": lambda: fake.operand_sets(3),
        "contents": lambda: fake.keep(arrays),
    }[kind]()

    def assert_said(start, said, **how):
        assert fake.tampered(operands) is None
        driver.pycuda().memset_d8_async(start, 7, 1, fake.stream)
        assert (fake.tampered(operands, **how) or "").startswith(f"wrote 1 bytes {said} the arrays of other runs")
        fake.restore(arrays)

    for where, side in itertools.product(("before", "after"), (0, -1)):
        buffer = next(iter(fake._more))
        start, nbytes = buffer.bands[where]
        assert_said(start + side % nbytes, where)
    for start, nbytes in buffer.gaps:  # what rounds an array up, too
        assert_said(start + nbytes - 1, "between")
    assert len(buffer.gaps) >= len(made) if kind == "batch" else buffer.gaps
    start, nbytes = buffer.slack
    driver.pycuda().memset_d8_async(start + nbytes - 1, 7, 1, fake.stream)
    assert fake.tampered(operands) is None and "after the arrays of other runs" in fake.tampered(operands, slack=True)
    fake.restore(arrays)
    assert fake.tampered(operands, slack=True) is None
    del made
    fake.release()
