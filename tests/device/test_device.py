"""Devices by name; messages, with what to type, where the driver or NVML is missing."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from cudalab.base.errors import CudalabError, InputError, LaunchError, Unavailable
from cudalab.device import cuda, driver, nvml
from cudalab.device.guard import offsets_by_name
from cudalab.device.open import open_device, open_gpu
from cudalab.spec import find


@pytest.mark.parametrize("choice", ["gpu", "cpu:0", "cuda:x", "cuda:-1", "cuda:9999999999"])
def test_a_word_that_names_no_device(choice):
    with pytest.raises(InputError, match="use auto, cpu, cuda or cuda:N"):
        open_device(choice)


def test_auto_falls_back_to_the_cpu_and_says_why(monkeypatch):
    monkeypatch.setattr(cuda, "missing", lambda: "no GPU in this test")
    device, note = open_device("auto")
    assert (device.kind, note) == ("cpu", "no GPU in this test")
    with pytest.raises(Unavailable, match="no GPU to use: no GPU in this test; `cudalab doctor` says more"):
        open_device("cuda")
    with pytest.raises(Unavailable, match="no GPU in this test"):
        open_gpu(0, "no GPU in this test")


class Libcuda:
    """A driver that answers as told."""

    def __init__(self, init=0, count=1, name=b"NVIDIA H200", refuses=()):
        self.init, self.count, self.name, self.refuses = init, count, name, refuses

    def cuInit(self, flags):
        return self.init

    def cuDeviceGetCount(self, count):
        count._obj.value = self.count
        return 0

    def cuDeviceGetName(self, name, size, device):
        name.value = self.name
        return 0

    def cuGetErrorName(self, code, name):
        name._obj.value = {900: b"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", 1: b"CUDA_ERROR_INVALID_VALUE"}.get(code)
        return 0

    def __getattr__(self, name):
        return lambda *arguments: dict(self.refuses).get(name, 0)


def absent():
    raise OSError("libcuda.so.1: cannot open shared object file")


@pytest.mark.parametrize(
    ("libcuda", "said"),
    [
        (lambda: Libcuda(init=999), "does not start (CUDA error 999)"),
        (lambda: Libcuda(count=0), "hidden by CUDA_VISIBLE_DEVICES"),
        (lambda: Libcuda(name=b"a stub (no GPU)"), "libcuda is a stand-in: a stub (no GPU)"),
        (absent, "no NVIDIA driver (libcuda.so.1 is not there)"),
        (Libcuda, "None"),
    ],
)
def test_why_the_driver_offers_no_gpu(monkeypatch, libcuda, said):
    monkeypatch.setattr(driver, "libcuda", libcuda)
    assert said in str(driver.missing())


def test_what_the_driver_refuses_is_named(monkeypatch):
    libcuda = Libcuda(refuses={"cuModuleLoadData": 900, "cuGraphLaunch": 1, "cuCtxGetCurrent": 12345})
    monkeypatch.setattr(driver, "libcuda", lambda: libcuda)
    with pytest.raises(LaunchError, match=r"cuModuleLoadData: .* CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; call it once"):
        driver.ask("cuModuleLoadData")
    with pytest.raises(LaunchError, match=r"^the driver said CUDA_ERROR_INVALID_VALUE$"):
        driver.replayer(1, 2)()
    with pytest.raises(LaunchError, match="cuCtxGetCurrent: the driver said 12345"):
        driver.ask("cuCtxGetCurrent")


def test_handles_keep_their_64_bits(monkeypatch):
    """ctypes passes a plain int as 32 bits."""
    seen = []

    class Watched(Libcuda):
        def __getattr__(self, name):
            return lambda *arguments: seen.extend(a for a in arguments if isinstance(a, int)) or 0

    monkeypatch.setattr(driver, "libcuda", Watched)
    high = 0x7FFF_0000_1000
    driver.begin_capture(high)
    driver.end_capture(high)
    driver.kernels_in(high)
    driver.replayer(high, high)()
    driver.destroy_graph(high, high)
    assert seen == [driver.CAPTURE_THREAD_LOCAL]


def refused(*arguments):
    raise RuntimeError("Not Supported")


@pytest.fixture
def nvidia(monkeypatch):
    """A function that puts a pynvml in its place, whose functions are `told`; None: it is not installed."""

    def installed(told):
        usual = {"nvmlInit": lambda: None, "nvmlDeviceGetHandleByPciBusId": lambda name: name}
        module = None if told is None else SimpleNamespace(**usual | told)
        monkeypatch.setitem(sys.modules, "pynvml", module)
        return module

    return installed


def test_nvml_says_what_to_install_or_what_it_answered(nvidia):
    nvidia(None)
    assert nvml.missing().endswith("pip install nvidia-ml-py") and nvml.Nvml("0").no_energy() == nvml.missing()
    assert nvml.Nvml("0000:00:00.0").condition() == {}
    nvidia({"nvmlInit": refused})
    assert nvml.missing() == "NVML does not answer: Not Supported"
    nvidia({"nvmlDeviceGetHandleByPciBusId": refused})
    assert nvml.missing() is None
    assert nvml.Nvml("0000:00:00.0").missing == "NVML does not answer: Not Supported"


def test_the_energy_counter_is_joules_or_says_why_there_is_none(nvidia):
    pynvml = nvidia({"nvmlDeviceGetTotalEnergyConsumption": lambda handle: 1234567})
    assert (nvml.Nvml("0").energy(), nvml.Nvml("0").no_energy()) == (1234.567, "")
    pynvml.NVML_DEVICE_MIG_ENABLE, mode = 1, [0, 1]  # asked for, and not in force yet
    pynvml.nvmlDeviceGetMigMode = lambda handle: mode
    assert nvml.Nvml("0").no_energy() == ""
    mode[:] = 1, 1
    card = nvml.Nvml("0")
    assert card.no_energy() == nvml.PARTED and card.under_load() == {}
    assert card.why_untold("power_w") == nvml.PARTED
    pynvml.nvmlDeviceGetMigMode = refused  # of a card that cannot be divided
    pynvml.nvmlDeviceGetTotalEnergyConsumption = refused
    assert nvml.Nvml("0").no_energy() == "NVML has no energy counter of this GPU: Not Supported"
    assert nvml.Nvml("0").under_load() == {}  # nothing else is told


def test_a_card_that_tells_a_part_of_its_condition_is_read_for_that_part(nvidia):
    pynvml = nvidia({
        "NVML_CLOCK_SM": 1, "NVML_CLOCK_MEM": 2, "NVML_TEMPERATURE_GPU": 0,
        "nvmlDeviceGetClockInfo": lambda handle, which: 1000 * which,
        "nvmlDeviceGetPowerUsage": lambda handle: 300_000, "nvmlDeviceGetEnforcedPowerLimit": refused,
        "nvmlDeviceGetTemperature": lambda handle, which: 50, "nvmlDeviceGetCurrentClocksThrottleReasons": refused,
    })  # fmt: skip
    card = nvml.Nvml("0")
    seen = {"sm_hz": 1e9, "power_w": 300.0, "temperature_c": 50.0}
    assert card.condition() == seen | {"memory_hz": 2e9}
    assert card.untold == {"power_limit_w": "Not Supported", "throttled": "Not Supported"}
    assert (card.under_load(), card.reasons(), card.why_untold()) == (seen, [], "")
    pynvml.nvmlDeviceGetClockInfo = refused
    assert card.under_load() == {name: seen[name] for name in ("power_w", "temperature_c")}
    assert card.why_untold("sm_hz") == "Not Supported"
    pynvml.nvmlDeviceGetPowerUsage = pynvml.nvmlDeviceGetTemperature = refused
    with pytest.raises(CudalabError, match="NVML tells nothing: Not Supported"):
        card.condition()


def test_offsets_are_by_array():
    kernel = find.kernel("add2d")
    names = (*kernel.input_names, kernel.output)
    assert offsets_by_name(kernel, ()) == dict.fromkeys(names, 0)
    assert offsets_by_name(kernel, range(len(names))) == {name: i for i, name in enumerate(names)}
    with pytest.raises(ValueError, match="zip"):
        offsets_by_name(kernel, (1,))
