"""A GPU's clocks, power, energy and temperature, read through NVML (the package nvidia-ml-py)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from cudalab.base import advice
from cudalab.base.errors import CudalabError

Condition = dict[str, float | str]

# NVML's bits for why a clock is below its maximum. The bit for an idle GPU is left out.
REASONS = {
    0x0000000000000002: "applications clocks setting",
    0x0000000000000004: "power cap",
    0x0000000000000008: "hardware slowdown",
    0x0000000000000010: "sync boost",
    0x0000000000000020: "thermal slowdown",
    0x0000000000000040: "hardware thermal slowdown",
    0x0000000000000080: "hardware power brake",
    0x0000000000000100: "display clock setting",
}

# NVML's counters of the time for which a limit held the clocks down. A reading takes 80 us on an H200.
POLICIES = {"POWER": "power cap", "THERMAL": "thermal slowdown"}

PARTED = "the GPU is a part of a card (MIG), and NVML tells energy and power of the whole card"


def missing() -> str | None:
    """Why NVML cannot be asked, and what to type; None if it can."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except ImportError:
        hint = advice.packages("nvidia-ml-py")
        return f"nvidia-ml-py is not installed: clocks, power and throttling are not read; {hint}"
    except Exception as error:  # NVML's own errors: no permission, no library
        return f"NVML does not answer: {error}"
    return None


class Nvml:
    """Readings of one GPU, found by its PCI bus id; `missing` says why there are none."""

    def __init__(self, pci_bus_id: str) -> None:
        self.missing = missing() or ""
        self.untold: dict[str, str] = {}  # what the last reading could not tell, by name, and why
        self._counted: dict[str, int] = {}
        if self.missing:
            return
        import pynvml

        self._nvml: Any = pynvml
        try:
            self._handle = pynvml.nvmlDeviceGetHandleByPciBusId(pci_bus_id.encode())
        except Exception as error:  # NVML's own errors: no permission, no such device
            self.missing = f"NVML does not answer: {error}"

    def condition(self) -> Condition:
        """Return sm_hz, memory_hz, power_w, power_limit_w, temperature_c and throttled (reasons); {} without NVML.

        A value that this card does not tell is left out. Raises CudalabError where it tells none.
        """
        if self.missing:
            return {}
        nvml, handle = self._nvml, self._handle
        found = self._told(
            sm_hz=self._sm_clock,
            memory_hz=lambda: 1e6 * nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM),
            power_w=self._power,
            power_limit_w=lambda: 1e-3 * nvml.nvmlDeviceGetEnforcedPowerLimit(handle),
            temperature_c=self._temperature,
            throttled=lambda: ", ".join(self._reasons()),
        )
        if not found:
            raise CudalabError(f"NVML tells nothing: {self.why_untold()}")
        return found

    def _told(self, **ways: Callable[[], Any]) -> dict[str, Any]:
        """What these return, by name, without those that fail: `untold` says why."""
        found, self.untold = dict[str, Any](), dict[str, str]()
        for name, way in ways.items():
            try:
                found[name] = way()
            except Exception as error:  # NVML's own: not every card has all values
                self.untold[name] = str(error)
        return found

    def why_untold(self, *names: str) -> str:
        """Why the last reading lacks these values, or any without names: each reason once."""
        reasons = [why for name, why in self.untold.items() if name in names or not names]
        return self.missing or "; ".join(dict.fromkeys(reasons))

    def _sm_clock(self) -> float:
        return 1e6 * float(self._nvml.nvmlDeviceGetClockInfo(self._handle, self._nvml.NVML_CLOCK_SM))

    def _power(self) -> float:
        return 1e-3 * float(self._nvml.nvmlDeviceGetPowerUsage(self._handle))

    def _temperature(self) -> float:
        return float(self._nvml.nvmlDeviceGetTemperature(self._handle, self._nvml.NVML_TEMPERATURE_GPU))

    def _reasons(self) -> list[str]:
        reasons = self._nvml.nvmlDeviceGetCurrentClocksThrottleReasons(self._handle)
        return [name for bit, name in REASONS.items() if reasons & bit]

    def reasons(self) -> list[str]:
        """What holds the clocks down at this moment; [] where this is not told."""
        if self.missing:
            return []
        try:
            return self._reasons()
        except Exception:  # NVML's own: this card does not tell
            return []

    def held_down(self) -> list[str]:
        """What has held the clocks down since the last call: by the driver's counters, and at this moment."""
        before, self._counted = self._counted, self._counters()
        counted = [reason for reason, spent in self._counted.items() if spent > before.get(reason, spent)]
        return list(dict.fromkeys([*counted, *self.reasons()]))

    def _counters(self) -> dict[str, int]:
        """Nanoseconds for which each limit has held the clocks down so far; {} where it is not counted."""
        if self.missing:
            return {}
        nvml, found = self._nvml, {}
        for policy, reason in POLICIES.items():
            try:
                status = nvml.nvmlDeviceGetViolationStatus(self._handle, getattr(nvml, f"NVML_PERF_POLICY_{policy}"))
            except Exception:  # NVML's own: this card does not count it
                continue
            found[reason] = int(status.violationTime)
        return found

    def highest_sm_clock(self) -> int:
        """Hz that the SMs may reach; 0 without NVML. On a GeForce it is above the driver's attribute CLOCK_RATE."""
        if self.missing:
            return 0
        try:
            return 1_000_000 * int(self._nvml.nvmlDeviceGetMaxClockInfo(self._handle, self._nvml.NVML_CLOCK_SM))
        except Exception:  # NVML's own: not known for this GPU
            return 0

    def under_load(self) -> dict[str, float]:
        """sm_hz, power_w (of this moment where the driver tells it) and temperature_c, as far as they are told."""
        if self.missing:
            return {}
        return self._told(
            sm_hz=self._sm_clock,
            power_w=self._power_of_load,
            temperature_c=self._temperature,
        )

    def _power_of_load(self) -> float:
        if self.parted:
            raise CudalabError(PARTED)
        return self.power_now() or self._power()

    def energy(self) -> float:
        """Joules that the card has drawn since its driver was loaded. `no_energy` says whether it can be asked."""
        return 1e-3 * float(self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle))

    def no_energy(self) -> str:
        """Why the energy cannot be read, and what to type; "" if it can."""
        if self.missing:
            return self.missing
        if self.parted:
            return PARTED
        try:
            self.energy()
        except Exception as error:  # NVML's own: a card before Volta
            return f"NVML has no energy counter of this GPU: {error}"
        return ""

    @cached_property
    def parted(self) -> bool:
        """Whether the card is divided (MIG): what NVML reads of its handle is of all parts together."""
        try:
            current, _ = self._nvml.nvmlDeviceGetMigMode(self._handle)
        except Exception:  # NVML's own, or bindings that do not know it: a card that cannot be divided
            return False
        return bool(current == self._nvml.NVML_DEVICE_MIG_ENABLE)

    def power_now(self) -> float | None:
        """Watts at this moment; None where the driver has only the mean of the last second, which is `power_w`."""
        try:
            field = self._nvml.nvmlDeviceGetFieldValues(self._handle, [self._nvml.NVML_FI_DEV_POWER_INSTANT])[0]
        except Exception:  # NVML's own, or bindings that do not know the field
            return None
        return 1e-3 * field.value.uiVal if field.nvmlReturn == self._nvml.NVML_SUCCESS else None
