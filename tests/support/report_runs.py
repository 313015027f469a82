"""Runs made by hand for the tests of the report: a GPU's run, failures, and hostile files."""

from __future__ import annotations

import random

from cudalab.report.results import Results
from cudalab.results.record import Case, ErrorCurve, Machine, Parity

SIZES = {"small": 10_000, "large": 1_000_000, "xlarge": 100_000_000}
VARIANTS = {  # overhead in µs, bytes a second, error in ULP
    ("pycuda", "gelu_vec"): (2.0, 4.0e12, 1.5),
    ("pycuda", "gelu_scalar"): (1.8, 2.2e12, 1.5),
    ("torch_native", ""): (3.0, 3.0e12, 2.0),
    ("torch_eager", ""): (12.0, 0.7e12, 300.0),
}
CARD = {
    "compute_capability": "9.0", "multiprocessors": 100, "sm_clock_hz": 2_000_000_000, "memory_clock_hz": 3_000_000_000,
    "memory_bus_bits": 6144,
}  # fmt: skip
HOSTILE = "<script>hacked()</script>"
NASTY = "']]> \"--><img src=x onerror=hacked()>\u202eRTL\x1b[31m</script></style>{{7*7}}\ufffe NaN"


def timed(kernel: str = "gelu", dtype: str = "float32", seed: int = 0) -> Results:
    """Three sizes of four variants, a wrong one, a failed one and one that is skipped."""
    rng = random.Random(seed)
    cases = []
    for size, n in SIZES.items():
        for (backend, variant), (overhead, rate, ulp) in VARIANTS.items():
            times = _times(rng, 1e-6 * overhead + 8 * n / rate)
            parity = Parity(ok=True, n=n, max_ulp=ulp)
            cases.append(Case(kernel, size, (n,), dtype, backend, variant, parity=parity, nbytes=8 * n, times=times))
        copy = _times(rng, 1.5e-6 + 8 * n / 4.2e12)
        state = {"sm_hz": 1.98e9, "memory_hz": 3.2e9, "power_w": 500.0}
        cases += [
            Case(kernel, size, (n,), dtype, "copy", status="ceiling", nbytes=8 * n, times=copy, condition=state),
            Case(kernel, size, (n,), dtype, "triton", status="WRONG", reason="3 of 9 differ", parity=Parity(ok=False)),
            Case(kernel, size, (n,), dtype, "cupy_raw", "gelu_vec", status="error", reason="line 1: no such thing"),
            Case(kernel, size, (n,), dtype, "torch_script", status="skipped", reason="pip install it"),
        ]
    machine = Machine("cuda", "Test GPU", {"l2_bytes": 60 * 2**20, "driver": "1.2"}, {"torch": "2.0"})
    options = {"modes": "launch,graph", "seed": 0}
    floor = {"empty event pair": [1e-7]}
    return Results("cudalab-results", 2, "2026-01-02T03:04:05+00:00", options, machine, calibration=floor, cases=cases)


def counted(each: int = 10, **details: object) -> Results:
    """A run whose tasks take `each` operations an element."""
    run = timed()
    for case in run.cases:
        case.flops, case.written = each * case.nbytes // 8, case.nbytes // 2
    run.machine.details = {**CARD, **details}
    return run


def checked(kernel: str = "gelu", dtype: str = "bfloat16") -> Results:
    """A run that only checked, with errors over the input."""
    x = [sign * 1.1**k for sign in (-1, 1) for k in range(-60, 60)]
    x.sort()
    curves = {
        "pycuda": [0.5 for _ in x],
        "cupy_raw": [0.5 for _ in x],
        "torch_eager": [200.0 if -20 < a < -3 else 0.5 for a in x],
        "torch_native": [None if a > 250 else 0.5 for a in x],
    }
    cases = [
        Case(kernel, "all values", (65536,), dtype, backend, "gelu_vec" if backend in ("pycuda", "cupy_raw") else "",
             parity=Parity(ok=True, n=65536, max_ulp=None if None in ulp else max(ulp), curve=ErrorCurve(x, ulp)))
        for backend, ulp in curves.items()
    ]  # fmt: skip
    machine = Machine("cuda", "Test GPU")
    return Results("cudalab-results", 2, "2026-01-02T03:04:05+00:00", {"exhaustive": False}, machine, cases=cases)


def hostile() -> Results:
    """A file in which every text is an attempt to inject a script."""
    run = timed(HOSTILE, NASTY)
    run.cases = [case for case in run.cases if case.size == "small"]
    for case in run.cases:
        case.variant, case.size = NASTY, NASTY
        case.reason = case.reason and NASTY + "A" * 10_000
        case.notes = [NASTY]
    run.machine.name = HOSTILE
    run.machine.details = {NASTY: NASTY, "driver": HOSTILE}
    run.machine.versions = {NASTY: HOSTILE}
    run.options |= {NASTY: [NASTY, HOSTILE]}
    run.sources = {HOSTILE: NASTY}
    run.created = NASTY
    return run


def group(run: Results, size: str = "xlarge") -> list[Case]:
    """The cases of a size."""
    return [case for case in run.cases if case.size == size]


def _times(rng: random.Random, seconds: float) -> dict[str, list[list[float]]]:
    """Ten rounds of each kind, with noise of half a per cent."""
    kinds = {"cold": 1.0, "hot": 0.98, "graph": 0.95, "call": 0.5}
    return {
        kind: [[factor * seconds * (1 + 0.005 * rng.random()) for _ in range(4)] for _ in range(10)]
        for kind, factor in kinds.items()
    }
