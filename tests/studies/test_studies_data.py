"""Results and counts of the studies cpu-vs-gpu, dataloader, data-values and clocks."""

from __future__ import annotations

import multiprocessing
import re
import statistics
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from types import SimpleNamespace

import numpy as np
import pytest
from findings import run_of
from studying import a_lab, measured, rows, tiny

from cudalab.base.errors import CudalabError
from cudalab.device.nvml import Nvml
from cudalab.report import study as study_report
from cudalab.results import record
from cudalab.results.record import Case
from cudalab.studies import clocks, cpu_vs_gpu, data_values, dataloader, energy
from cudalab.study import Variant, found, truth
from cudalab.study.load import SAMPLES, Load

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("quick_studies")


def test_the_first_calls_stand_apart_and_an_extrapolation_is_called_one(studied, monkeypatch):
    cpu = rows(studied.run("cpu-vs-gpu"))["cpu"]
    assert all(cpu.quantities[name] > 0 for name in cpu_vs_gpu.CALLS)
    assert 0 < cpu.quantities["error_ppm"] < 1e6 * cpu_vs_gpu.FP32
    assert cpu_vs_gpu.EXTRAPOLATED not in cpu.quantities  # 64 x 64 says nothing about the article's size
    monkeypatch.setattr(cpu_vs_gpu, "LEAST", 64)
    cpu = rows(measured(cpu_vs_gpu.study, ["tiny"]))["cpu"]
    assert cpu.quantities[cpu_vs_gpu.EXTRAPOLATED] == pytest.approx(240**3 * cpu.quantities["third_call_s"])
    assert any("not measured" in note for note in cpu.notes)


def test_transfers_and_tf32_have_their_place():
    """Run the GPU's variants on the CPU's memory: their results are right, and a copy that does nothing is WRONG."""
    everywhere = [replace(v, devices=("cuda", "cpu")) for v in cpu_vs_gpu.study.variants if "pin" not in v.label]
    nowhere = Variant("no copy", lambda lab: replace(cpu_vs_gpu.back(False)(lab), run=lambda: None))
    study = replace(cpu_vs_gpu.study, variants=(*(v for v in everywhere if "gpu-with" not in v.label), nowhere))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu_vs_gpu, "on_host", with_own_product)
        found_rows = rows(measured(study, ["tiny"]))
    assert found_rows.pop("no copy").status == record.WRONG
    due = dict.fromkeys(("gpu-fp32", "gpu-tf32", "cpu", "h2d-pageable", "d2h-pageable"), (record.OK, ""))
    assert {label: (case.status, case.reason) for label, case in found_rows.items()} == due
    assert found_rows["h2d-pageable"].quantities["moved_bytes"] == 2 * 4 * 64 * 64
    assert found_rows["d2h-pageable"].quantities["moved_bytes"] == 4 * 64 * 64


def with_own_product(lab, pinned=False):
    here = cpu_vs_gpu.make_inputs(lab)
    return lab.once("host", lambda: here._replace(c=torch.empty_like(here.a)))


def test_all_loaders_give_the_same_batches_of_the_same_images(studied, monkeypatch):
    found_rows = rows(studied.run("dataloader"))
    assert {"2-workers", "4-workers"} < set(found_rows)
    for label, case in found_rows.items():
        assert case.parity.ok, label
        assert case.parity.max_ulp == 0
        assert case.quantities["items"] == 6
        assert 0 < case.quantities["waited_s"] < 60
    assert not multiprocessing.active_children()

    def reversed_loader(lab, workers, pinned):
        images = dataloader.Images(lab["images"], lab["side"], lab.seed + (workers == 2))
        order = range(lab["images"]) if workers == 4 else dataloader.order(lab)
        return torch.utils.data.DataLoader(images, lab["batch"], sampler=order)

    monkeypatch.setattr(dataloader, "loader", reversed_loader)
    found_rows = rows(measured(dataloader.study, ["tiny"]))
    assert {label: case.status for label, case in found_rows.items()} == {
        "0-workers": record.OK, "2-workers": record.WRONG, "4-workers": record.WRONG,
    }  # fmt: skip


def test_an_image_is_what_its_coefficients_say():
    images = dataloader.Images(20, 16, 0)
    image, label = images[19]  # file 3, shown at 1 + 1/7 of its contrast
    assert (image.shape, image.dtype, label) == ((3, 16, 16), np.uint8, 9)
    dc = images.coefficients[3][0, 1, 0, 0, 0] / dataloader.BLOCK * (1 + 1 / 7)  # a block's mean, if nothing is clipped
    block = image[0, 8:, :8].astype(float)
    assert block.min() > 0 and block.max() < 255, "choose a block that is not clipped"
    assert abs(block.mean() - 128 - dc) < 1  # the fraction is cut off


def test_each_input_is_right_by_float64_and_what_it_is_called(studied):
    for size in tiny("data-values"):
        found_rows = rows(studied.run("data-values"), size)
        assert set(found_rows) == {"random", "zeros", "ones", "tails", "subnormals"}
        assert all(case.quantities["error_ppm"] < 10 for case in found_rows.values())
    assert rows(studied.run("data-values"), "tiny-gelu")["random"].quantities["error_ppm"] > 0
    tails = data_values.tails(torch, (100, 100), "cpu")
    assert float(tails.abs().min()) >= 6
    assert float((tails > 0).float().mean()) == pytest.approx(0.5, abs=0.05)
    for dtype in (torch.float32, torch.bfloat16):
        small = data_values.subnormals(torch, (100, 100), "cpu").to(dtype)
        assert 0 < float(small.double().min()) <= float(small.double().max()) < torch.finfo(dtype).tiny


def test_a_wrong_answer_is_an_error_relative_to_the_largest_value(monkeypatch):
    want = torch.tensor([100.0, 1.0], dtype=torch.float64)
    assert truth.error(torch.tensor([100.0, 1.1]), want) == pytest.approx(1e-3, rel=1e-4)
    assert truth.error(torch.zeros(1), torch.tensor([1e-39], dtype=torch.float64)) == 0
    assert truth.error(torch.zeros(1), torch.tensor([1e-37], dtype=torch.float64)) == 1
    with pytest.raises(CudalabError, match="differs from float64 by nan"):
        truth.judged(truth.error(torch.tensor([torch.nan, 1.0]), want), 1.0)
    monkeypatch.setattr(data_values, "operation", lambda lab, x, out: lambda: x + 1e-3 * x.abs().max().clamp(min=1))
    found_rows = rows(measured(data_values.study, ["tiny-copy"]), "tiny-copy")
    assert {c.status for c in found_rows.values()} == {record.ERROR}
    assert all("differs from float64" in c.reason and not c.times for c in found_rows.values())


def test_a_sample_comes_after_a_rest_and_its_load():
    at = []

    def run():
        at.append(perf_counter())
        while perf_counter() < at[-1] + 1e-3:
            pass

    load = Load(a_lab("clocks"), run)
    load.sample(0.0)  # which also finds out how many runs make a chunk
    at.clear()
    start = perf_counter()
    taken = load.sample(0.05, rest=0.03)
    assert at[0] - start >= 0.03
    timed = SAMPLES * load._runs
    assert at[-timed] - at[0] >= 0.05  # the load lasts as long as it should before the first timed run
    assert len(taken) == SAMPLES
    assert statistics.median(taken) >= 1e-3
    assert load.condition() == {}  # a CPU's is not known


def test_what_was_read_is_told_as_medians():
    hertz = iter([1e9, 3e9, 2e9, None])
    nvml = Nvml.__new__(Nvml)
    nvml.missing, nvml._handle = "", None
    nvml._nvml = SimpleNamespace(
        NVML_CLOCK_SM=1, NVML_TEMPERATURE_GPU=0, nvmlDeviceGetClockInfo=lambda handle, which: 1e-6 * next(hertz),
        nvmlDeviceGetTemperature=lambda handle, which: 40,
    )  # fmt: skip
    nvml.power_now = lambda: 300.0
    load = Load(SimpleNamespace(device=SimpleNamespace(nvml=nvml)), lambda: None)
    for _ in range(4):  # the last is an error of NVML, which does not affect the times
        load._read()
    assert load.condition() == {"sm_hz": 2e9, "power_w": 300.0, "temperature_c": 40.0}


@pytest.mark.parametrize(("returned", "watts"), [(0, 312.5), (3, None)])
def test_power_is_that_of_this_moment_or_not_told(returned, watts):
    field = SimpleNamespace(nvmlReturn=returned, value=SimpleNamespace(uiVal=312500))
    nvml = Nvml.__new__(Nvml)
    nvml._handle, nvml._nvml = None, SimpleNamespace(
        NVML_SUCCESS=0, NVML_FI_DEV_POWER_INSTANT=186, nvmlDeviceGetFieldValues=lambda handle, fields: [field]
    )  # fmt: skip
    assert nvml.power_now() == watts
    del nvml._nvml.NVML_FI_DEV_POWER_INSTANT  # bindings that do not know it
    assert nvml.power_now() is None


def test_the_finding_has_energy_beside_time_and_its_table_a_unit():
    rows = [("gelu_full", 1.0, 1.0), ("F.gelu", 1.02, 1.1), ("eager", 5.5, 4.4)]
    cases = [
        Case("energy", "xlarge", (8,), "float32", label,
             times={"busy": [[287e-6 * time]] * 9, "energy": [[0.12 * joules * (1 + 1e-4 * i)] for i in range(9)]})
        for label, time, joules in rows
    ]  # fmt: skip
    run = run_of("energy", cases)
    said = energy.finding(run)
    assert said.startswith("at xlarge gelu_full, the fastest, takes 120 mJ a call; F.gelu 1.0")
    assert re.search(r"eager 5.5\d* times \(.*, SLOWER\) as long with MORE energy: x 4.4", said)
    headers = {column.name: column.cells for column in study_report.table(run, cases)}
    assert headers["energy mJ"][0].startswith("120") and headers["busy \u00b5s"][0].startswith("287")


def test_only_short_loads_are_tiny_and_every_file_says_what_it_asks(studied):
    assert set(rows(studied.run("clocks"))) == {"idle", "10 ms", "0.1 s"}
    labels = {v.label: clocks.SPANS[v.label] for v in found.Workload(clocks.study, "small").variants()}
    assert list(labels.values()) == sorted(labels.values())
    assert max(labels.values()) == 3
    assert [v.label for v in found.Workload(clocks.study, "long").variants()][-1] == "10 s"
    for module in (clocks, cpu_vs_gpu, data_values, dataloader):
        assert "?" in module.__doc__.splitlines()[0], Path(module.__file__).name
