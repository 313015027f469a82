"""The checks on a GPU: kernels whose length, bytes and stream are known, through the clocks that `bench` uses."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from cudalab import timing
from cudalab.base import scratch
from cudalab.base.errors import LaunchError, Unavailable
from cudalab.base.stats import FASTER, SLOWER, Ratio
from cudalab.device import cuda
from cudalab.device.arrays import DeviceArray
from cudalab.device.copy import pattern
from cudalab.device.operands import Bound
from cudalab.engine.runs import bench
from cudalab.results.record import Results
from cudalab.spec import find
from cudalab.tools.selftest import twins
from cudalab.tools.selftest.check import Check, Outcome
from cudalab.tools.selftest.comparison import Comparison, Medians, clocks, medians
from cudalab.tools.selftest.other_stream import outstanding

if TYPE_CHECKING:
    from cudalab.device.gpu import Gpu

SOURCE = Path(__file__).with_name("selftest.cu")
SPIN = 500e-6  # seconds that the spinning kernel lasts, about: 100 times what a launch adds
TOLERANCE = 0.03
HOST_TOLERANCE = 0.01  # of a span of LONG launches, which the host's own delays hardly lengthen
LONG = 200
LEAST_BANDWIDTH = 0.5  # of the memory bus; a copy reaches 0.8 to 0.95
TWINS, TWINS_BUDGET = "add2d", 0.6  # the kernel of the A/A run in processes, and seconds of sampling for each entry
PROCESSES = 3
BURST = 5  # launches of the canary
SERIOUS = ("hardware slowdown", "thermal slowdown", "hardware thermal slowdown", "hardware power brake")


class Spin:
    """A kernel that lasts `cycles` cycles of its SM. It adds up its duration by two clocks of the GPU."""

    def __init__(self, device: Gpu, cycles: int, stream: Any = None) -> None:
        import pycuda.driver as driver

        self.cycles, self._device, self._driver = cycles, device, driver
        self._function = cuda.compiled(SOURCE.read_text(), SOURCE.name).get_function("spin").prepare("qP")
        memory = driver.mem_alloc(24)
        self.spent = DeviceArray((3,), np.dtype(np.int64), int(memory), memory)
        self._stream = stream or device.stream
        self.bound = Bound(self.run, lambda: self.spent)
        self.reset()

    def run(self) -> None:
        self._function.prepared_async_call((1, 1), (1, 1, 1), self._stream, self.cycles, self.spent.ptr)

    def reset(self) -> None:
        self._driver.Context.synchronize()
        self._driver.memset_d8_async(self.spent.ptr, 0, self.spent.nbytes, self._stream)  # before the next launch

    def rate(self) -> float:
        """Cycles a second of the SM in all launches since the last reset, by the GPU's own timer."""
        self._driver.Context.synchronize()
        cycles, nanoseconds, _ = map(int, self._device.fetch(self.spent))
        return 1e9 * cycles / nanoseconds

    @property
    def seconds(self) -> float:
        """Seconds of a launch, as the kernel measures itself."""
        return self.cycles / self.rate()


def checks(device: Gpu, compared: Comparison) -> Iterator[Check]:
    """All checks of a GPU, the cheapest first. They share two kernels of known length."""
    import pycuda.driver as driver

    khz = driver.Device(device.index).get_attribute(driver.device_attribute.CLOCK_RATE)
    spins = [Spin(device, n * round(1000 * khz * SPIN)) for n in (1, 2)]
    warm(spins[0], device)
    yield Check(
        "known cycles",
        f"doubling the cycles adds their duration at the SM's own clock, within {100 * TOLERANCE:g} %",
        "every GPU time is a difference of two events: an error in the events is in every time",
        lambda: known_cycles(spins, medians(_timed(device, spins))),
    )
    yield Check(
        "host's clock",
        f"events and the host agree on a long span within {100 * HOST_TOLERANCE:g} %",
        "two clocks of the GPU could share an error; the host's clock is independent",
        lambda: agree(*long_span(device, spins[0])),
    )
    yield Check(
        "known bytes",
        f"more than {100 * LEAST_BANDWIDTH:g} % of the memory bus, and not more than all of it",
        "a bandwidth that the bus cannot carry was not measured from memory",
        lambda: known_bytes(device),
    )
    yield Check(
        "wrong stream",
        "events show no time for work on another stream, and the lab detects it: the device is busy while the "
        "stream is idle",
        "a library that launches elsewhere would look infinitely fast",
        lambda: wrong_stream(device, spins[0]),
    )
    yield Check(
        "empty capture",
        "refused when nothing, or work on another stream, is captured; accepted when a kernel is",
        "a replay that does nothing is the fastest of all, and its output may still look right",
        lambda: empty_capture(device, spins[0]),
    )
    yield Check(
        "naive timing",
        "time.time() around a launch shows less than half of the kernel's duration",
        "if it shows the whole time, launches wait here (CUDA_LAUNCH_BLOCKING?), and times of queued work are not "
        "valid",
        lambda: naive(device, spins[0]),
    )
    yield Check(
        "throttling",
        "under load, no hardware protection lowers the clocks",
        "times of a throttled card depend on its cooling and power supply",
        lambda: throttling(device),
    )
    footprints = {"small": 1 << 18, "large": large(device)}
    for name, nbytes in footprints.items():
        yield compared.check(name, partial(copying, device, nbytes), 1 / len(footprints))
    yield compared.verdict()
    yield Check(
        "A/A processes",
        "no FASTER or SLOWER between an entry and its twin, in a run of several processes",
        "a verdict between equal work is false, and the tables give verdicts from such runs",
        lambda: in_processes(device, compared.seconds),
    )


def in_processes(device: Gpu, seconds: float) -> Outcome:
    """Run a kernel with twins as `bench` does; at small alone if there are few seconds for A/A runs."""
    sizes = "small,large" if seconds >= 1 else "small"
    with scratch.folder() as folder:
        spec = twins.written(find.kernels()[TWINS], folder)
        budget = min(TWINS_BUDGET, seconds)
        run = bench(
            spec, sizes=sizes, only="pycuda", modes="launch", device=device.index, budget=budget, processes=PROCESSES
        )  # fmt: skip
    return no_claim(twins.ratios(run, "cold"), run)


def no_claim(found: list[Ratio], run: Results) -> Outcome:
    """Judge a run of equal work: right if no row is FASTER or SLOWER."""
    if not found:
        reasons = dict.fromkeys(case.reason for case in run.cases if case.reason)
        raise LaunchError(f"nothing could be compared: {'; '.join(reasons) or 'no times'}")
    claims = sum(ratio.verdict() in (FASTER, SLOWER) for ratio in found)
    return Outcome(not claims, f"{twins.shares(found)} in {run.options['processes']} processes")


def warm(spin: Spin, device: Gpu) -> None:
    """Keep the GPU busy for 0.2 s: clocks rise under load."""
    for _ in range(round(0.2 / SPIN)):
        spin.run()
    device.stream.synchronize()
    spin.reset()


def _timed(device: Gpu, spins: list[Spin]) -> Mapping[str, Mapping[str, Any]]:
    found = {str(i): clocks(device, spin.bound) for i, spin in enumerate(spins)}
    for spin in spins:
        spin.reset()  # making a graph's clock poisons its output
    return found


def known_cycles(spins: list[Spin], found: Medians) -> Outcome:
    """Compare the difference of two kernels' times with the difference of their cycles at their clock rate."""
    once, twice = (spin.seconds for spin in spins)
    off = {kind: (found["1"][kind] - t) / (twice - once) - 1 for kind, t in found["0"].items()}
    said = ", ".join(f"{kind} {100 * o:+.2f} %" for kind, o in off.items())
    rate = spins[1].rate()
    text = f"{spins[0].cycles} cycles at {rate / 1e9:.3f} GHz are {1e6 * (twice - once):.1f} \u00b5s; off by {said}"
    return Outcome(bool(off) and all(abs(o) <= TOLERANCE for o in off.values()), text)


def long_span(device: Gpu, spin: Spin) -> tuple[float, float]:
    """Seconds of LONG launches, by events and by the host."""
    import pycuda.driver as driver

    first, last = driver.Event(), driver.Event()
    device.stream.synchronize()
    start = perf_counter()
    first.record(device.stream)
    for _ in range(LONG):
        spin.run()
    last.record(device.stream)
    device.stream.synchronize()
    return 1e-3 * first.time_till(last), perf_counter() - start


def agree(events: float, host: float) -> Outcome:
    off = events / host - 1
    text = f"{1e3 * events:.3f} ms by events, {1e3 * host:.3f} ms by the host, off by {100 * off:+.2f} %"
    return Outcome(abs(off) <= HOST_TOLERANCE, text)


def large(device: Gpu) -> int:
    """A number of bytes larger than every cache of the device."""
    return max(8 * int(device.details()["l2_bytes"]), 1 << 26)


def copying(device: Gpu, nbytes: int) -> Bound:
    """A copy of `nbytes`, half read and half written, that cannot move to other buffers."""
    bound = device.copy(nbytes)
    if bound is None:
        raise Unavailable("this device has no copy")
    return replace(bound, again=None)


def known_bytes(device: Gpu) -> Outcome:
    details, nbytes = device.details(), large(device)
    peak = 2 * float(details["memory_clock_hz"]) * float(details["memory_bus_bits"]) / 8
    if not peak:
        raise Unavailable("the driver does not report the memory's clock and bus width")
    bound = copying(device, nbytes)
    seconds = medians({"copy": clocks(device, bound)})["copy"]["cold"]
    device.poison(bound.output())
    bound.run()
    wrong = int((device.fetch(bound.output()) != pattern(bound.output().size)).sum())
    return possible(nbytes, seconds, peak, wrong)


def possible(nbytes: int, seconds: float, peak: float, wrong: int) -> Outcome:
    share = nbytes / seconds / peak
    text = f"{nbytes >> 20} MiB at {nbytes / seconds / 1e9:.0f} GB/s, {100 * share:.1f} % of a bus of {peak / 1e9:.0f}"
    if wrong:
        text += f"; {wrong} words were not copied"
    return Outcome(LEAST_BANDWIDTH < share <= 1 and not wrong, text)


def wrong_stream(device: Gpu, spin: Spin) -> Outcome:
    import pycuda.driver as driver

    canary = Spin(device, spin.cycles, driver.Stream(1))
    found: dict[str, tuple[float, float]] = {}
    for where, work in (("own", spin), ("other", canary)):
        cold = {"cold": timing.clocks(device, work.bound, ("launch",), [])["cold"]}
        found[where] = medians({where: cold})[where]["cold"], outstanding(device, work.run, BURST)
    driver.Context.synchronize()
    return caught(spin.seconds, *found["own"], *found["other"])


def caught(length: float, own: float, own_left: float, other: float, other_left: float) -> Outcome:
    """Judge the times of a kernel on the lab's stream and on another, and how long the device is busy afterwards."""
    text = (
        f"a kernel of {1e6 * length:.0f} \u00b5s times as {1e6 * own:.0f} \u00b5s, on another stream as "
        f"{1e6 * other:.1f} \u00b5s; after {BURST} of them are launched, the device stays busy for "
        f"{1e6 * own_left:.0f} \u00b5s (own stream) and {1e6 * other_left:.0f} \u00b5s (other stream)"
    )
    right = abs(own / length - 1) < 0.15 and own_left < 0.1 * BURST * length
    return Outcome(right and other < 0.1 * length and other_left > 0.5 * BURST * length, text)


def empty_capture(device: Gpu, spin: Spin) -> Outcome:
    import pycuda.driver as driver

    from cudalab.timing.graph import Graph

    elsewhere = Spin(device, spin.cycles, driver.Stream(1))
    make = lambda bound: Graph([bound] * 4, device.stream)  # noqa: E731
    return refused(make, Bound(lambda: None, lambda: None), elsewhere.bound, spin.bound)


def refused(make: Callable[[Bound], Any], nothing: Bound, elsewhere: Bound, real: Bound) -> Outcome:
    """Check that `make` refuses an empty capture and work on another stream, and captures real work."""
    said, right = [], True
    for name, bound in (("nothing", nothing), ("work elsewhere", elsewhere)):
        try:
            make(bound).close()
            said.append(f"{name} was ACCEPTED")
            right = False
        except LaunchError:
            said.append(f"{name} was refused")
    graph = make(real)
    said.append(f"{graph.runs} runs were captured as {graph.kernels} kernels")
    right = right and graph.kernels == graph.runs
    graph.close()
    return Outcome(right, ", ".join(said))


def naive(device: Gpu, spin: Spin) -> Outcome:
    samples = []
    for _ in range(20):
        device.stream.synchronize()
        start = time.time()
        spin.run()
        samples.append(time.time() - start)
    device.stream.synchronize()
    return shown_wrong(float(np.median(samples)), spin.seconds)


def shown_wrong(seen: float, truth: float) -> Outcome:
    factor = truth / max(seen, 1e-9)
    return Outcome(
        factor > 2,
        f"{1e6 * seen:.1f} \u00b5s for a kernel of {1e6 * truth:.1f} \u00b5s: wrong by a factor of {factor:.0f}",
    )


def throttling(device: Gpu) -> Outcome:
    import pycuda.driver as driver

    from cudalab.device.nvml import Nvml

    if missing := Nvml(driver.Device(device.index).pci_bus_id()).missing:
        raise Unavailable(missing)
    try:
        condition = device.condition()
    except Exception as error:  # of NVML: not every card, and not every user, may read all values
        raise Unavailable(f"NVML does not report: {error}") from None
    return unhindered(condition)


def unhindered(condition: Mapping[str, float | str]) -> Outcome:
    reasons = [r for r in str(condition["throttled"]).split(", ") if r]
    text = (
        f"SM {float(condition['sm_hz']) / 1e6:.0f} MHz, memory {float(condition['memory_hz']) / 1e6:.0f} MHz, "
        f"{float(condition['power_w']):.0f} of {float(condition['power_limit_w']):.0f} W, "
        f"{condition['temperature_c']} C; slowed by {', '.join(reasons) or 'nothing'}"
    )
    return Outcome(not set(reasons) & set(SERIOUS), text)
