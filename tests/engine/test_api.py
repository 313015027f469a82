"""The mode `api`: host time of a call as a user makes it, compared only with times of the same kind."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from commands import invoke, ran, refused

import cudalab
from cudalab.call import fast_path
from cudalab.device.operands import Operands, returning, writing
from cudalab.engine import plan
from cudalab.engine.job import Job
from cudalab.engine.kernel_round import cases as cases_of
from cudalab.engine.selection import Selection
from cudalab.report import below_tables, columns
from cudalab.report.results import Results
from cudalab.results import comparable, record
from cudalab.results.record import Case, Machine


def run(modes="launch,api"):
    """Ours, faster in a call and slower in a call that allocates, beside eager PyTorch."""
    seconds = {"pycuda": (1e-6, 3e-6), "torch_eager": (2e-6, 12e-6), "host": (4e-6, 0), "copy": (0, 0)}
    cases = []
    for backend, each in seconds.items():
        kinds = zip(("launch", "api"), ("cold", "api"), each, strict=True)
        times = {
            kind: [[time * (1 + i / 1000)] for i in range(12)] for mode, kind, time in kinds if time and mode in modes
        }
        status = record.CEILING if backend == "copy" else record.OK
        cases.append(Case("gelu", "small", (1000,), "float32", backend, status=status, nbytes=8000, times=times))
    machine = Machine("cuda", "NVIDIA H200")
    return Results(record.FORMAT, record.VERSION, "2026-01-01", {"modes": modes}, machine, cases=cases)


def test_the_table_has_a_column_and_ratios_keep_to_one_kind():
    found = run()
    headers, rows = columns.table(found, found.cases)
    assert "api µs" in headers
    assert [row[headers.index("api µs")] for row in rows] == ["3.0?", "12", "-", "-"]
    assert found.main_kind == "cold"
    assert found.speedup(found.cases[0], "cold").value == pytest.approx(2)
    assert found.speedup(found.cases[0], "api").value == pytest.approx(4)
    assert found.speedup(found.cases[2], "api") is None
    assert "api: host time of a call as a user makes it" in "\n".join(below_tables.footer(found))
    assert comparable.of_host("api")


def test_a_run_of_api_alone_has_no_bandwidth():
    found = run("api")
    headers, rows = columns.table(found, found.cases)
    assert found.main_kind == "api"
    assert "GB/s" not in headers  # a column without a value is left out
    ours, eager, *others = (row[headers.index("x eager")] for row in rows)
    assert float(ours) == 4 and eager == "1" and others == ["-", "-"]
    assert "x eager is from the api time." in below_tables.footer(found)


@pytest.mark.process
def test_beside_launch_on_the_cpu_what_needs_a_gpu_adds_nothing(tmp_path):
    kept = tmp_path / "r.json"
    done = ran("bench", "plus_one", "--modes", "launch,api", "--energy", "--sustained", "--device", "cpu", "--sizes",
               "1000", "--only", "numpy", "--budget", "0.01", "-o", kept)  # fmt: skip
    for mode in ("api", "energy", "sustained"):
        assert f"{mode}: not measured; " in done.output
    assert "energy: not measured; it needs a GPU, and the CPU was asked for (" in " ".join(done.output.split())
    run = cudalab.load(kept)
    assert {kind for case in run.cases for kind in case.times} == {"wall"}
    assert run.options["modes"] == "launch,api,energy,sustained"
    again = invoke("bench", "--baseline", kept, "--energy")
    assert "not comparable" not in again.output, again.output  # --energy alone counts as --modes
    said = " ".join(refused("bench", "gelu", "--modes", "api", "--device", "cpu").split())
    assert "--modes api needs a GPU, and the CPU was asked for" in said
    assert "--modes launch takes the wall time of a call" in said


def test_what_a_user_calls_is_made_ready_only_when_it_is_asked_for():
    made, operands = [], Operands({}, None)

    def ready(on):
        made.append(on)
        return lambda: "result"

    assert writing(lambda on: lambda: None, operands).api is None
    bound = writing(lambda on: lambda: None, operands, ready)
    assert not made
    assert bound.api()() == "result"
    assert made == [operands]
    returned = returning(lambda x: x + 1, lambda on: [1], operands)
    assert returned.api()() == 2
    assert returned.output() is None  # a call of the user's is no run


def test_calls_allocate_as_compiled_programs_do_where_there_is_one_device():
    def found(devices, **guards):
        c = SimpleNamespace(_dynamo=SimpleNamespace(guards=SimpleNamespace(**guards))) if devices else None
        return fast_path._allocator(SimpleNamespace(_C=c, cuda=SimpleNamespace(device_count=lambda: devices or 1)))

    assert found(1, _empty_strided_cuda=max) is max
    assert [found(2, _empty_strided_cuda=max), found(1), found(0)] == [None] * 3


@pytest.mark.wall
@pytest.mark.gpu
def test_a_call_costs_no_more_than_half_as_much_again_as_pytorchs_and_less_than_that_of_compilers(gpu):
    (group,) = plan.groups(["gelu"], "2^10", "float32")
    only = ("pycuda", "torch_native", "torch_compile", "triton", "cupy_raw", "cupy_elementwise", "cupy_eager")
    job = Job(gpu, Selection(only=only), ("api",), 0, 0.4, lambda text: None)
    cases = {case.label: case for case in cases_of(job, group)}
    for label, case in cases.items():
        assert case.status in (record.OK, record.CEILING), f"{label}: {case.reason}"
        called = label != "copy" and case.variant in ("", "gelu_scalar", "max_autotune")
        assert set(case.times) == ({"api"} if called else set()), label
    times = {label: 1e6 * case.median("api") for label, case in cases.items() if case.times}
    ours = times["pycuda:gelu_scalar"]
    assert ours <= 1.5 * times["torch_native"], times
    assert ours < times["triton"], times
    assert ours < times["torch_compile"], times
