"""A GPU's clocks, power, energy and temperature, read through NVML (the package nvidia-ml-py)."""

from __future__ import annotations

from typing import Any

from cudalab.base import advice

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
        """Return sm_hz, memory_hz, power_w, power_limit_w, temperature_c and throttled (reasons); {} without NVML."""
        if self.missing:
            return {}
        nvml, handle = self._nvml, self._handle
        return {
            "sm_hz": 1e6 * nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
            "memory_hz": 1e6 * nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM),
            "power_w": 1e-3 * nvml.nvmlDeviceGetPowerUsage(handle),
            "power_limit_w": 1e-3 * nvml.nvmlDeviceGetEnforcedPowerLimit(handle),
            "temperature_c": nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
            "throttled": ", ".join(self.reasons()),
        }

    def reasons(self) -> list[str]:
        """What holds the clocks down at this moment."""
        if self.missing:
            return []
        reasons = self._nvml.nvmlDeviceGetCurrentClocksThrottleReasons(self._handle)
        return [name for bit, name in REASONS.items() if reasons & bit]

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
        """sm_hz, power_w (of this moment where the driver tells it) and temperature_c; {} where one is not told."""
        try:
            found = self.condition()
        except Exception:  # NVML's own: not every card has all values
            return {}
        if now := self.power_now() if found else None:
            found["power_w"] = now
        return {name: float(found[name]) for name in ("sm_hz", "power_w", "temperature_c") if name in found}

    def energy(self) -> float:
        """Joules that the card has drawn since its driver was loaded. `no_energy` says whether it can be asked."""
        return 1e-3 * float(self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle))

    def no_energy(self) -> str:
        """Why the energy cannot be read, and what to type; "" if it can."""
        if self.missing:
            return self.missing
        try:
            self.energy()
        except Exception as error:  # NVML's own: a card before Volta, a part of a card (MIG)
            return f"NVML has no energy counter of this GPU: {error}"
        return ""

    def power_now(self) -> float | None:
        """Watts at this moment; None where the driver has only the mean of the last second, which is `power_w`."""
        try:
            field = self._nvml.nvmlDeviceGetFieldValues(self._handle, [self._nvml.NVML_FI_DEV_POWER_INSTANT])[0]
        except Exception:  # NVML's own, or bindings that do not know the field
            return None
        return 1e-3 * field.value.uiVal if field.nvmlReturn == self._nvml.NVML_SUCCESS else None
