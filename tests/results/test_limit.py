"""The least time that physics allows: four limits by hand, false times refused, and no true one."""

from __future__ import annotations

import math
from ast import literal_eval
from pathlib import Path

import pytest
from tables import table

from cudalab.results import limit, record
from cudalab.results.file import load
from cudalab.results.record import Case, Machine
from cudalab.spec.architecture import ARCHITECTURES
from cudalab.spec.dtype import dtype
from cudalab.tools.inspect.cards import CARDS

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "bench" / "results" / "h200").glob("*.json"))

L2 = 62914560
H200 = Machine("cuda", "NVIDIA H200", {
    "compute_capability": "9.0", "multiprocessors": 132, "l2_bytes": L2, "memory_clock_hz": 3201000000,
    "memory_bus_bits": 6016, "sm_clock_hz": 1980000000,
})  # fmt: skip
BUS = 2 * 3.201e9 * 6016 / 8
EMPTY = {"empty kernel": [2.656e-6, 2.688e-6, 2.72e-6], "empty graph node": [0.526e-6, 0.528e-6]}
MIB = 2**20


def case(cold=None, read=0, written=0, **more):
    times = more.pop("times", {"cold": [[cold] * 3] * 5} if cold else {})
    given = {"dtype": "float32", "nbytes": read + (written or 0), "written": written, **more}
    return Case("k", "s", (1,), backend="pycuda", times=times, **given)


def least(one, kind="cold", machine=H200, calibration=EMPTY):
    found = limit.limit(one, kind, machine, calibration)
    return found.seconds if found else None


def refused(one, machine=H200):
    limit.refuse(one, machine, EMPTY)
    return one


LARGE, SMALL, EVEN = (case(read=r * MIB, written=w * MIB) for r, w in ((256, 256), (8, 8), (50, 50)))
GATHER, OLDER = case(read=256 * MIB, written=4), case(read=256 * MIB + 4, written=None)
L2_RATE = 64 * 132 * 1.98e9
PEAK = 132 * 1.98e9  # of one operation a cycle


@pytest.mark.parametrize(
    ("one", "kinds", "seconds"),
    [
        pytest.param(LARGE, "cold", (512 * MIB - L2) / BUS, id="the output may stay in L2"),
        pytest.param(GATHER, "cold graph_cold", 256 * MIB / BUS, id="all inputs cross the bus"),
        pytest.param(EVEN, "cold", 50 * MIB / BUS, id="all of the output stays in L2"),
        pytest.param(OLDER, "cold", (256 * MIB + 4 - L2) / BUS, id="an older file does not tell the output"),
        pytest.param(case(written=20 * MIB), "cold", 2.656e-6 - 0.032e-6, id="the start of a kernel, less a step"),
        pytest.param(GATHER, "hot graph", (256 * MIB + 4 - L2) / BUS, id="a hot run finds in L2 what fits"),
        pytest.param(SMALL, "hot", 0.526e-6 - 0.002e-6, id="an empty node of a graph"),
        pytest.param(case(read=30 * MIB, written=10 * MIB), "graph", 30 * MIB / L2_RATE, id="from L2"),
        pytest.param(case(read=10 * MIB, written=30 * MIB), "hot", 30 * MIB / L2_RATE, id="to L2"),
        *(
            pytest.param(case(read=MIB, flops=10**12, dtype=name), " ".join(limit.KINDS), 10**12 / (a_cycle * PEAK),
                         id=f"operations in {name}")
            for name, a_cycle in {"float16": 4096, "bfloat16": 4096, "float32": 2048, "float64": 256}.items()
        ),
        pytest.param(case(read=256 * MIB, flops=10**15), "call api wall steps", None, id="times of the host"),
    ],
)  # fmt: skip
def test_the_least_time(one, kinds, seconds):
    assert [least(one, kind) for kind in kinds.split()] == [seconds and pytest.approx(seconds)] * len(kinds.split())


# TFLOP/s of dense matrices as the data sheets have them, at the clock that they name.
@pytest.mark.parametrize(("card", "clock", "rates"), table("limit", "sheets", str, float, literal_eval))
def test_the_rates_are_those_of_the_data_sheets(card, clock, rates):
    of = ARCHITECTURES[CARDS[card].architecture]
    for name, teraflops in rates.items():
        a_cycle, _ = of.fastest(name)
        assert a_cycle * CARDS[card].sms * clock == pytest.approx(1e12 * teraflops, rel=0.02), name


def test_the_units_of_each_dtype_and_the_l2_of_newer_cards():
    assert ARCHITECTURES["sm_90"].fastest("float32") == (2048, "TF32 tensor cores")
    assert ARCHITECTURES["sm_75"].fastest("float32") == (128, "float32 units")
    assert ARCHITECTURES["sm_86"].fastest("float64") == (4, "float64 units")
    assert ARCHITECTURES["sm_90"].fastest("int32") is None
    b200 = Machine("cuda", "NVIDIA B200", {**H200.details, "compute_capability": "10.0"})
    assert least(case(read=30 * MIB, written=30 * MIB), "hot", b200) == pytest.approx(30 * MIB / (2 * L2_RATE))
    assert limit.step([1e-6, 1.032e-6, 1.032e-6 + 1e-15, 1.096e-6]) == pytest.approx(0.032e-6)
    assert limit.step([1e-6, 1e-6]) == 0


HOT_OF_L2 = {"cold": [[30e-6]], "hot": [[0.6e-6]]}


@pytest.mark.parametrize(
    ("one", "words"),
    [
        # reference/audit_truth.md, flaw 1: a softmax of 4096 x 4096 that does nothing
        (case(5.98e-6, read=64 * MIB, written=64 * MIB),
         ("cold 5.98 \u00b5s, below the 14.8 \u00b5s that physics allows: 71.3 MB must cross the memory bus (62.9 MB",
          "at 4,810 GB/s, the memory's 3,201 MHz x 6016 bits x 2 / 8.", "give bytes= in its spec")),
        # eager PyTorch, by a spec that divides the events' time by 100
        (case(0.56e-6, read=600000, written=600000), ("an empty kernel took at least 2.66 \u00b5s here, in steps of",)),
        (case(0.56e-6, read=600000, written=600000, status=record.CEILING), ("an empty kernel",)),
        (case(200e-6, read=128 * MIB, written=64 * MIB, flops=2 * 4096**3),
         ("cold 200 \u00b5s, below the 257 \u00b5s that physics allows: 137 GFLOP (flops= of the spec) at 535 TFLOP/s",
          "TF32 tensor cores of 132 multiprocessors x 2,048 a cycle x 1,980 MHz")),
        (case(8e-6, read=2**30, written=4 * MIB), ("bytes=",)),
        (case(read=19 * MIB, written=19 * MIB, times=HOT_OF_L2),
         ("hot 0.600 \u00b5s, below the 1.19 \u00b5s that physics allows: 19.9 MB must pass betw",)),
        *((case(read=MIB, written=MIB, flops=10**9, times={"cold": [[1.0]], kind: [[0.5e-6]]}),
           (f"{kind.replace('_', ' ')} 0.500 \u00b5s, below",)) for kind in limit.KINDS),
    ],
    ids=lambda value: value[0][:50] if isinstance(value, tuple) else "",
)  # fmt: skip
def test_a_time_below_the_least_is_impossible_and_the_reason_says_what_it_is(one, words):
    one.quantities = {"energy_w": 400.0, "sustained_sm_hz": 1.7e9, "peak_bytes": 8.0}
    assert (refused(one).status, one.times) == (record.IMPOSSIBLE, {})
    assert one.quantities == {"peak_bytes": 8.0}  # what was read of the card beside the times goes with them
    assert all(word in one.reason for word in words), one.reason


UNKNOWN = Machine("cuda", "NVIDIA Z1", {**H200.details, "compute_capability": "20.0", "memory_clock_hz": 0})


@pytest.mark.parametrize(
    ("one", "machine", "notes"),
    [
        pytest.param(case(8e-6, read=4 * MIB, written=4 * MIB), H200, [], id="a gather of few bytes"),
        pytest.param(case(2.656e-6 - 0.031e-6), H200, [], id="within a step of the empty kernel"),
        pytest.param(case(1e-9, read=256 * MIB), Machine("cpu", "a CPU"), [], id="of a CPU"),
        pytest.param(case(times={"cold": [[3e-6, 3e-6, 1e-6]] * 4}, read=1200000, written=1200000), H200,
                     ["4 of 12 cold samples are below the 2.62 \u00b5s that physics allows; their median is not"],
                     id="single samples"),
        pytest.param(case(3e-6, read=256 * MIB, flops=10**15), UNKNOWN,
                     ["no limit by bytes: the driver does not report the memory's clock and bus width",
                      "no limit by operations: compute capability 20.0 is not known here"], id="of an unknown card"),
        pytest.param(case(3e-6, flops=10**15, dtype="int32"), H200,
                     ["no limit by operations: no peak rate is known for int32"], id="of whole numbers"),
    ],
)  # fmt: skip
def test_other_times_stand(one, machine, notes):
    times = dict(one.times)
    assert (refused(one, machine).status, one.notes, one.times) == (record.OK, notes, times)


def test_the_share_is_the_limit_over_the_median_and_a_rough_time_refuses_nothing():
    """The median of a rough time alone would: half of the cold samples were disturbed."""
    one = case(20e-6, read=64 * MIB, written=64 * MIB)
    assert limit.share(one, "cold", H200, EMPTY) == pytest.approx((128 * MIB - L2) / BUS / 20e-6)
    assert limit.share(one, "hot", H200, EMPTY) is None  # no such time
    assert limit.share(one, "cold", Machine("cuda", "?"), {}) is None
    one = case(900e-6, read=8 * MIB, written=8 * MIB)
    one.times = {
        "cold": [[300e-6] * 3, [900e-6] * 3, [900e-6] * 3, [300e-6] * 3, [900e-6] * 3],
        "hot": [[150e-6] * 3] * 5,
    }
    limit.refuse(one, H200, EMPTY)
    assert one.status == record.OK, one.reason


OUTPUTS = {  # elements of the output, where they are not as many as of the first input
    "sum": lambda shape: 1, "matmul": lambda shape: shape[0] * shape[-1],
}  # fmt: skip


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_time_that_was_measured_on_the_h200_is_impossible(path):
    run = load(path)
    run.machine.details.setdefault("sm_clock_hz", 1980000000)
    timed = [one for one in run.cases if one.times]
    assert timed
    for one in timed:
        if one.status != record.CEILING:  # as a run of today records it
            elements = OUTPUTS.get(one.kernel, math.prod)(one.shape)
            one.written = elements * dtype(one.dtype).itemsize
            one.flops = 2 * math.prod(one.shape) if one.kernel == "matmul" else 0
            assert 0 < one.written < one.nbytes
        else:
            one.written = one.nbytes // 2
        before = list(one.notes)
        limit.refuse(one, run.machine, run.calibration)
        assert one.status in (record.OK, record.CEILING), one.reason
        assert one.notes == before
        for kind in limit.KINDS:
            assert (limit.share(one, kind, run.machine, run.calibration) or 0) < 0.97


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_tenth_of_what_was_measured_at_xlarge_is_impossible(path):
    run = load(path)
    large = [one for one in run.cases if one.status == record.CEILING and one.size == "xlarge" and one.nbytes > 2e8]
    assert large
    for one in large:
        one.written = one.nbytes // 2
        one.times = {"cold": [[s / 10 for s in samples] for samples in one.times["cold"]]}
        limit.refuse(one, run.machine, run.calibration)
        assert one.status == record.IMPOSSIBLE


@pytest.mark.parametrize(("times", "said"), table("limit", "batches", literal_eval, str))
def test_what_runs_of_a_batch_can_save_by_finding_results_is_bounded(times, said):
    one = case(900e-6, read=8 * MIB, written=8 * MIB)
    times = {"cold": 900e-6, **times}
    one.times = {kind: [[seconds] * 8] * 9 for kind, seconds in times.items()}
    one.processes = {kind: [3, 3, 3] for kind in one.times}
    limit.refuse(one, H200, EMPTY)
    assert one.status == (record.IMPOSSIBLE if said else record.OK), one.reason
    assert one.reason.startswith(said)
    assert bool(one.times) == (not said)
    assert not (said and one.processes)


def test_what_limits_a_task_is_its_operations_or_its_bytes():
    """The H200 moves a byte in the time of 14 operations in float32, of about 100 on its tensor cores."""
    nbytes = 10**9
    assert not limit.computes(case(1e-3, nbytes, flops=0), H200)
    assert not limit.computes(case(1e-3, nbytes, flops=10 * nbytes), H200)
    assert limit.computes(case(1e-3, nbytes, flops=1000 * nbytes), H200)
    cpu = record.Machine("cpu", "a CPU")
    assert not limit.computes(case(1e-3, nbytes, flops=10 * nbytes), cpu)
    assert limit.computes(case(1e-3, nbytes, flops=100 * nbytes), cpu)
    assert not limit.computes(case(1e-3, 0, flops=100), cpu)
