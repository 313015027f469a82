"""Selftest: are the lab's clocks right on this machine, and how small a difference can they show?

Each check measures something whose true value is known from elsewhere. `cpu.py` and `gpu.py` list the checks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, cast

from cudalab.base.errors import Unavailable, message_of, need_seconds
from cudalab.base.load import Watch, is_busy
from cudalab.base.stats import MIN_EFFECT
from cudalab.device.protocol import Device
from cudalab.results import marks
from cudalab.tools.selftest.check import Check

if TYPE_CHECKING:
    from cudalab.device.gpu import Gpu
    from cudalab.tools.selftest.comparison import Comparison

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
SECONDS = 10.0  # of A/A runs, about; the other checks take a few more


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    name: str
    state: str  # PASSED, FAILED or SKIPPED
    measured: str  # or why it was skipped, or its error
    expected: str
    why: str  # it matters

    def __str__(self) -> str:
        lines = [f"{self.state:8} {self.name}: {self.measured}"]
        if self.state == FAILED:
            lines += [f"         expected: {self.expected}", f"         why it matters: {self.why}"]
        return "\n".join(lines)


@dataclass(frozen=True)
class Report:
    """All findings, and the largest ratio between equal work."""

    device: str
    findings: list[Finding]
    smallest: float | None  # how far equal work came apart, as a fraction; None if nothing was compared
    load: tuple[float, float] = 0.0, 1.0  # of other programs meanwhile: the mean, and the number of cores

    @property
    def fit(self) -> bool:
        """Whether nothing failed, and something passed."""
        states = {f.state for f in self.findings}
        return FAILED not in states and PASSED in states

    @property
    def busy(self) -> str:
        """Return a warning where other programs kept the processors busy; else empty."""
        if not is_busy(*self.load):
            return ""
        return (
            f"Machine busy: load {marks.load_of(*self.load)}: the verdict is that of a busy machine; run "
            "`cudalab selftest` again when the machine is idle."
        )

    def sentence(self) -> str:
        """Return the verdict on this machine."""
        counts = Counter(f.state for f in self.findings)
        where = f"on {self.device} ({', '.join(f'{n} {state}' for state, n in counts.items())})"
        if not self.fit or self.smallest is None:
            failed = ", ".join(f.name for f in self.findings if f.state == FAILED)
            return f"NOT FIT to measure {where}: quote no times from it. Failed: {failed or 'nothing was tested'}."
        least = ceil(1000 * max(self.smallest, MIN_EFFECT)) / 10
        return (
            f"fit to measure {where}. The smallest difference that it can show is {least:.1f} %: equal work differed "
            f"by up to {100 * self.smallest:.2f} %, and the lab makes no claim below {100 * MIN_EFFECT:g} %."
        )


def selftest(
    device: str = "auto",
    seconds: float = SECONDS,
    show: Callable[[Finding], object] = lambda finding: None,
    begin: Callable[[str], object] = lambda name: None,
) -> Report:
    """Run every check on `device` (auto, cpu, cuda or cuda:N); `show` is called with each finding.

    `begin` is called with the name of each check before it starts, never during a measurement. `seconds`: about how
    long the A/A runs last. Raises CudalabError if the device cannot be used.
    """
    from cudalab.device.open import open_device

    need_seconds("seconds", seconds)
    opened, note = open_device(device)
    try:
        return examine(opened, seconds, show, note, begin)
    finally:
        opened.close()


def examine(
    device: Device, seconds: float, show: Callable[[Finding], object], no_gpu: str = "",
    begin: Callable[[str], object] = lambda name: None,
) -> Report:  # fmt: skip
    """`selftest` of an open device; `no_gpu` says why the GPU's checks are skipped."""
    from cudalab.tools.selftest.comparison import Comparison

    compared, watch = Comparison(device, seconds), Watch()
    findings = []
    for check in _checks(device, compared, no_gpu):
        begin(check.name)
        findings.append(_asked(check))
        show(findings[-1])
    return Report(device.name, findings, compared.smallest, watch.means())


def _checks(device: Device, compared: Comparison, no_gpu: str) -> Iterator[Check]:
    from cudalab.tools.selftest import cpu, gpu

    if device.kind == "cpu":
        yield from cpu.checks(device, compared, no_gpu)
    else:
        yield from gpu.checks(cast("Gpu", device), compared)


def _asked(check: Check) -> Finding:
    try:
        outcome = check.work()
        state, text = PASSED if outcome.ok else FAILED, outcome.measured
    except Unavailable as error:
        state, text = SKIPPED, str(error)
    except Exception as error:  # a check with an error fails
        state, text = FAILED, message_of(error)
    return Finding(check.name, state, text, check.expected, check.why)
