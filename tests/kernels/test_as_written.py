"""Kernels as their authors write them (tests/data/kernels) are right on the CPU executor; their faults are WRONG."""

from __future__ import annotations

import numpy as np
import pytest
from as_written import FOLDER, broken, groups, load, names, rows, wrong

from cudalab import check
from cudalab.tools.pytest.cases import need_gpu

# One kernel for each part of a spec, in its first dtype, and a fault of each. The sweep has all, in all dtypes.
QUICK = ("adamw", "constants", "dropout", "fp8_scaled", "spectra_multiply")
# What this CPU executor refuses, by the words of its reason. Nothing else may be skipped.
REFUSED: dict[str, str] = {}  # by kernel, what the CPU executor lacks
FORMS = ("numpy", "torch_eager", "torch_native")
FLUSHED = ("bool_mask", "complex_multiply")  # CuPy always compiles with -ftz=true: a subnormal number becomes 0


def right_or_refused(name, dtypes="all"):
    kernel = load(name).kernel
    for group in groups(kernel, dtypes):
        for label, case in rows(group).items():
            if case.status == "skipped" and REFUSED.get(name, "\0") in case.reason:
                continue
            assert case.status == "ok", f"{group}: {label}: {case.reason}"


@pytest.mark.sweep
@pytest.mark.parametrize("name", QUICK)
def test_right_on_the_cpu_executor(name):
    right_or_refused(name, load(name).kernel.dtypes[0])


@pytest.mark.sweep
@pytest.mark.parametrize("name", names())
def test_all_are_right_in_all_dtypes_or_refused_by_name(name):
    right_or_refused(name)


@pytest.mark.sweep
@pytest.mark.parametrize("name", names())
def test_the_forms_of_libraries_are_right_too(name):
    pytest.importorskip("torch")
    kernel = load(name).kernel
    for group in groups(kernel):
        if group.awkward or group.values:
            continue
        for label, case in rows(group, FORMS).items():
            random = any(out.check for out in kernel.outs.values())
            due = "skipped" if random and label == "numpy" else "ok"
            assert case.status == due, f"{group}: {label}: {case.reason}"


def first_fault(name):
    return next(iter(load(name).faults))


@pytest.mark.parametrize("name", QUICK)
def test_a_fault_is_found(tmp_path, name):
    assert wrong(broken(name, first_fault(name), tmp_path), load(name).kernel.dtypes[0])


OTHERS = [
    pytest.param(name, fault, id=f"{name}: {fault}")
    for name in names()
    for fault in load(name).faults
    if name not in REFUSED and (name, fault) not in [(quick, first_fault(quick)) for quick in QUICK]
]


@pytest.mark.sweep
@pytest.mark.parametrize(("name", "fault"), OTHERS)
def test_all_faults_are_found(tmp_path, name, fault):
    kernel = broken(name, fault, tmp_path)
    assert wrong(kernel, kernel.dtypes[0]) or wrong(kernel)  # "always the same format" is right in its own


def test_each_kernel_has_faults():
    assert len(names()) >= 35
    assert all(load(name).faults for name in names())


@pytest.mark.gpu
@pytest.mark.parametrize("name", names())
def test_right_on_a_gpu(name):
    """The `.cu` by PyCUDA and by CuPy; the test of the libraries' forms on the CPU tries those."""
    need_gpu()
    only = "pycuda" if name in FLUSHED else "pycuda,cupy_raw"
    found = check(str(FOLDER / f"{name}.py"), dtype="all", only=only, device="cuda")
    bad = [f"{c.label} {c.size} {c.dtype}: {c.reason}" for c in found.cases if c.status not in ("ok", "skipped")]
    assert not bad
    assert any(c.label.startswith("pycuda:") and c.status == "ok" for c in found.cases)


# ---- called from Python ----------------------------------------------------------------------------------------------


@pytest.fixture(params=["numpy", "torch"])
def array(request):
    if request.param == "numpy":
        return lambda values: values
    return pytest.importorskip("torch").from_numpy


def test_a_call_takes_scalars_and_arrays_in_place(array):
    p, m, v, g = (np.full(1000, x, np.float32) for x in (1, 0, 0, 2))
    params = array(p)
    load("adamw").kernel(params, array(m), array(v), array(g), lr=0.5, step=1)
    np.testing.assert_allclose(np.asarray(params), 1 - 0.5 * (1 + 0.01), rtol=1e-5)


def test_a_call_gives_several_outputs_and_the_same_for_a_seed(array):
    dropout = load("dropout").kernel
    x = array(np.ones(4000, np.float32))
    first, again, other = (dropout(x, p=0.5, seed=seed) for seed in (1, 1, 2))
    mask, y = (np.asarray(one) for one in first)
    assert mask.dtype == bool and 1700 < mask.sum() < 2300
    np.testing.assert_array_equal(y, np.where(mask, 2, 0))
    np.testing.assert_array_equal(mask, np.asarray(again[0]))
    assert (mask != np.asarray(other[0])).any()


def test_a_call_takes_indices_of_another_dtype(array):
    table = np.arange(12, dtype=np.float32).reshape(4, 3)
    y = load("embedding").kernel(array(table), array(np.array([3, 0, 3])))
    np.testing.assert_array_equal(np.asarray(y), table[[3, 0, 3]])


def test_a_call_takes_booleans(array):
    x, mask = np.ones((2, 3), np.float32), np.array([[True, False, False], [True, True, False]])
    y, kept = load("masked_fill").kernel(array(x), array(mask), value=-1)
    np.testing.assert_array_equal(np.asarray(y), np.where(mask, -1, 1))
    assert np.asarray(kept).tolist() == [2, 1]


def test_a_call_sets_constants(array):
    image = np.zeros((3, 3), np.float32)
    image[1, 1] = 8
    out = load("constants").kernel(array(image))
    np.testing.assert_array_equal(np.asarray(out).ravel(), [-9, 8, 7, -6, 5, -4, 3, 2, 1])
