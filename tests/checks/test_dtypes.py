"""Every dtype through a check: kernels as users write them (tests/data/kernels) are right, and their bugs are WRONG."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

import ml_dtypes
import numpy as np
import pytest

from cudalab import host
from cudalab.checks import hard_inputs, parity
from cudalab.device.cpu import Cpu
from cudalab.engine.check_plan import checks
from cudalab.engine.job import Job
from cudalab.engine.kernel_round import cases as cases_of
from cudalab.engine.selection import Selection
from cudalab.spec import find
from cudalab.spec.dtype import DTYPES, dtype
from cudalab.spec.inputs import draw
from cudalab.spec.kernel import Budget

KERNELS = Path(__file__).parents[1] / "data" / "kernels"

with_compiler = pytest.mark.skipif(host.compiler_missing() is not None, reason="no C++ compiler")


class Bug(NamedTuple):
    """Text that occurs once in the kernel's `.cu`, and its replacement."""

    kernel: str
    old: str
    new: str


BARRIER = "__syncthreads();  // temp is used again, and shared_max is there"
BUGS = {
    "the storage of CUB used again without a barrier": Bug("cub_row_sum", BARRIER, ""),
    "CUB's result taken from every thread": Bug(
        "cub_row_sum", "if (threadIdx.x == 0) shared_max = largest;", "shared_max = largest;"
    ),
    "the wrong number of threads in CUB's type": Bug(
        "cub_row_sum", "BlockReduce<float, THREADS>", "BlockReduce<float, 64>"
    ),
    "a scan that forgets its prefix": Bug("cub_compact", "items, items, running", "items, items"),
    "a store of too many": Bug("cub_compact", "items, n - first);", "items);"),
    "one stream of random numbers for all threads": Bug("philox_dropout", "seed, i, 0,", "seed, 0, 0,"),
    "kept and dropped exchanged": Bug("philox_dropout", "draws[k] > p", "draws[k] < p"),
    "bytes without a sign": Bug(
        "dp4a_matmul", "__dp4a(x4[i], w4[i], sum)", "__dp4a((unsigned)x4[i], (unsigned)w4[i], (unsigned)sum)",
    ),
    "a maximum without a sign": Bug("int8_relu", "__vmaxs4", "__vmaxu4"),
    "the least byte turned": Bug("int8_relu", "x[k] > 0", "scalar_t(-x[k]) < 0"),
    "always the same format": Bug("fp8_cast", "y[i] = scalar_t(x[i] * 2.0f)",
                                  "y[i].__x = __nv_cvt_float_to_fp8(x[i] * 2.0f, __NV_SATFINITE, __NV_E4M3)"),
    "truncation": Bug("fp8_cast", "x[i] * 2.0f", "x[i] * 1.9f"),
    "NaN lost": Bug("fp8_relu", "v < 0.0f ? 0.0f : v", "v > 0.0f ? v : 0.0f"),
    "the conjugate": Bug("complex_multiply", "cuCmulf(a, b)", "cuCmulf(a, cuConjf(b))"),
    "parts multiplied": Bug("complex_multiply", "cuCmulf(a, b)", "make_cuFloatComplex(a.x * b.x, a.y * b.y)"),
    "only True is written": Bug("bool_mask", "y[i] = x[i] > 0.0f", "if (x[i] > 0.0f) y[i] = true"),
    "a byte that is no bool": Bug("bool_mask", "y[i] = x[i] > 0.0f",
                                  "reinterpret_cast<unsigned char*>(y)[i] = x[i] > 0.0f ? 255 : 0"),
    "an equal one counts": Bug("bool_mask", "> 0.0f", ">= 0.0f"),
    "bits turned": Bug("bool_not", "y[i] = !x[i]",
                       "reinterpret_cast<unsigned char*>(y)[i] = ~reinterpret_cast<const unsigned char*>(x)[i]"),
    "a sum in single precision": Bug("float64_norm", "sum += x[(size_t)blockIdx.x * cols + c] *",
                                     "sum += (float)x[(size_t)blockIdx.x * cols + c] *"),
}  # fmt: skip
BUILT = sorted(path.stem for path in KERNELS.glob("*.py"))
# Kept small: what a check tries beside these is tried by other tests.
SAMPLE = 1 << 12


def checked(spec: Path):
    """Status and reason of every row of a check, for all dtypes of the kernel."""
    groups = checks([str(spec)], ",".join(find.kernel(str(spec)).dtypes), sample=SAMPLE)
    job = Job(Cpu(), Selection(only=("host",)), (), 0, 0.01, lambda step: None)
    return [(case.status, case.reason) for group in groups for case in cases_of(job, group)]


@with_compiler
@pytest.mark.slow
@pytest.mark.parametrize("name", BUILT)
def test_kernels_as_users_write_them_are_right(name):
    found = checked(KERNELS / f"{name}.py")
    assert found and set(found) == {("ok", "")}


@with_compiler
@pytest.mark.slow
@pytest.mark.parametrize("what", BUGS)
def test_a_bug_is_found(tmp_path, what):
    bug = BUGS[what]
    text = (KERNELS / f"{bug.kernel}.cu").read_text()
    assert text.count(bug.old) == 1
    shutil.copy(KERNELS / f"{bug.kernel}.py", tmp_path)
    (tmp_path / f"{bug.kernel}.cu").write_text(text.replace(bug.old, bug.new))
    found = checked(tmp_path / f"{bug.kernel}.py")
    assert {status for status, _ in found} & {"WRONG", "error"}
    assert not any("compile" in reason for _, reason in found)


# ---- inputs and comparisons ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DTYPES)
def test_inputs_are_drawn_in_every_dtype(name):
    kind = dtype(name)
    x = draw((40, 50), kind.numpy, np.random.default_rng(0))
    assert (x.dtype, x.shape) == (kind.numpy, (40, 50))
    assert np.isfinite(x.astype(np.complex128)).all()
    values = set(x.ravel().tolist())
    assert values == {False, True} if name == "bool" else len(values) > 60
    assert (x == draw((40, 50), kind.numpy, np.random.default_rng(0))).all()
    if kind.complex:
        assert (
            0.8 < x.real.std() < 1.2
            and 0.8 < x.imag.std() < 1.2
            and abs(np.corrcoef(x.real.ravel(), x.imag.ravel())[0, 1]) < 0.1
        )


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_hard_values_of_8_bits_are_all_patterns(name):
    kind = dtype(name)
    assert hard_inputs.every(kind).view(np.uint8).tolist() == list(range(256))
    both = [hard_inputs.pairs(kind, index, 0).view(np.uint8) for index in (0, 1)]
    assert len(set(zip(*both, strict=True))) == hard_inputs.pairs_size(kind) == 1 << 16
    assert hard_inputs.each(kind, 1000, 2, 1, 0).shape == (2000,)


def test_hard_values_of_complex_numbers_pair_those_of_their_parts():
    kind = dtype("complex64")
    x = hard_inputs.sample(kind, 5000, 0)
    assert x.shape == (5000,) and x.dtype == np.complex64
    for part in (x.real, x.imag):
        assert np.isnan(part).any() and np.isposinf(part).any() and np.isneginf(part).any() and (part == 0).any()
    assert (np.isinf(x.real) & np.isnan(x.imag)).any()
    assert hard_inputs.pairs(kind, 0, 0).shape == (hard_inputs.pairs_size(kind),)


def judged(name, got, want, ulp=0.5):
    kind = dtype(name)
    return parity.compare(np.asarray(got, kind.numpy), np.asarray(want), kind, Budget(ulp))


def test_complex_numbers_are_judged_by_the_ulp_of_their_modulus():
    one, step = 1 + 1e-9j, 2.0**-23
    assert judged("complex64", [one + step * 1j], [one], 1.01).ok  # no number of ULP of the imaginary part allows this
    found = judged("complex64", [one + 3 * step * 1j], [one], 2)
    assert not found.ok and found.max_ulp == pytest.approx(3, rel=1e-3)
    assert "[0] got 1+3.5" in found.message and "want 1+1e-09j" in found.message


@pytest.mark.parametrize(
    ("got", "want", "ok"),
    [
        (complex(np.inf, np.nan), complex(np.inf, 3), True),
        (complex(np.nan, 1), complex(2, np.nan), True),
        (complex(np.nan, 1), complex(2, 1), False),
        (complex(np.inf, 1), complex(2, 1), False),
        (complex(np.inf, 1), complex(np.nan, 1), False),
        (complex(np.inf, 0), complex(1e39, 0), True),
        (complex(np.inf, 1e38), complex(3.3e38, 3.3e38), True),  # its modulus overflows
        (complex(3.3e38, 0), complex(1e39, 0), False),
    ],
)
def test_complex_infinities_and_nan(got, want, ok):
    assert judged("complex64", [got], [want], 4).ok == ok


def test_a_complex_reference_of_a_real_output_is_refused():
    found = judged("float32", [1.0], [1 + 1j])
    assert not found.ok and "complex values for an output of float32" in found.message


def test_bool_is_exact_and_what_is_neither_0_nor_1_is_told():
    want = np.array([True, False, True])
    assert judged("bool", want, want).ok
    assert not judged("bool", ~want, want).ok
    found = parity.compare(np.array([1, 0, 255], np.uint8).view(np.bool_), want, dtype("bool"), Budget(0))
    assert not found.ok and "[2] got 255, want 1" in found.message and "was every element written?" in found.message


@pytest.mark.parametrize(
    ("name", "got", "want", "ok"),
    [
        ("float8_e4m3fn", 448, 1000.0, True), ("float8_e4m3fn", np.nan, 1000.0, True),
        ("float8_e4m3fn", -448, 1000.0, False),
        ("float8_e4m3fn", 448, np.inf, True), ("float8_e4m3fn", np.nan, 448.0, False),
        ("float8_e4m3fn", 416, 1000.0, False),
        ("float8_e4m3fn", 448, np.nan, False), ("float8_e5m2", np.inf, 1e6, True), ("float8_e5m2", 57344, 1e6, True),
        ("float8_e5m2", np.inf, 57344.0, False), ("float8_e5m2", np.nan, np.nan, True),
    ],
)  # fmt: skip
def test_both_ways_of_an_8_bit_float_to_overflow_are_right(name, got, want, ok):
    with np.errstate(all="ignore"):
        found = judged(name, [got], [want])
    assert found.ok == ok
    assert not ok or found.max_ulp == 0


def test_64_bit_integers_of_different_signs_are_compared_exactly():
    top = np.uint64(2**64 - 1)
    assert judged("uint64", [top], np.array([2**64 - 1], np.uint64)).ok
    for want in (np.array([-1]), np.array([2**63 - 1]), np.array([2**64 - 2], np.uint64)):
        assert not judged("uint64", [top], want).ok
    assert not judged("int64", [2**53], np.array([2**53 + 1], np.uint64)).ok


def test_ulp_of_the_small_formats():
    for name in ("float8_e4m3fn", "float8_e5m2"):
        x = np.sort(hard_inputs.every(dtype(name))[:128].astype(np.float64))
        x = x[np.isfinite(x)]
        np.testing.assert_array_equal(np.diff(x), dtype(name).ulp(x[:-1]))
        assert float(ml_dtypes.finfo(dtype(name).numpy).max) == x[-1]
