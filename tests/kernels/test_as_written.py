"""Kernels as their authors write them (tests/data/kernels) are right; tests/checks/test_planted.py has their bugs."""

from __future__ import annotations

import numpy as np
import planted
import pytest

from cudalab import check
from cudalab.engine.check_plan import checks
from cudalab.engine.kernel_round import cases
from cudalab.spec import find
from cudalab.tools.pytest.cases import need_gpu

SPECS = {file.stem: str(file) for file in sorted((planted.DATA / "kernels").glob("*.py"))}
FORMS = ("numpy", "torch_eager", "torch_native")


def load(name):
    return find.kernel(SPECS[name])


def test_each_kernel_has_bugs():
    assert len(SPECS) >= 35
    assert {f"kernels/{name}" for name in SPECS} <= set(planted.FILES)


@pytest.mark.sweep
@pytest.mark.parametrize("name", [name for name in SPECS if len(load(name).dtypes) > 1])
def test_all_are_right_in_their_other_dtypes(name):
    found = planted.check(SPECS[name], ",".join(load(name).dtypes[1:]))
    assert not any(found.values()), found


@pytest.mark.sweep
@pytest.mark.parametrize("name", SPECS)
def test_the_forms_of_libraries_are_right_too(name):
    pytest.importorskip("torch")
    random = any(out.check for out in load(name).outs.values())
    for group in checks([SPECS[name]], "all", sample=planted.SAMPLE):
        if group.awkward or group.values:
            continue
        for case in cases(planted.job(FORMS), group):
            due = "skipped" if random and case.label == "numpy" else "ok"
            assert case.status == due, f"{group}: {case.label}: {case.reason}"


@pytest.mark.gpu
@pytest.mark.parametrize("name", SPECS)
def test_right_on_a_gpu(name):
    """The `.cu` by PyCUDA and by CuPy; the test of the libraries' forms on the CPU tries those."""
    need_gpu()
    found = check(SPECS[name], dtype="all", only="pycuda,cupy_raw", device="cuda")
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
    load("adamw")(params, array(m), array(v), array(g), lr=0.5, step=1)
    np.testing.assert_allclose(np.asarray(params), 1 - 0.5 * (1 + 0.01), rtol=1e-5)


def test_a_call_gives_several_outputs_and_the_same_for_a_seed(array):
    dropout = load("dropout")
    x = array(np.ones(4000, np.float32))
    first, again, other = (dropout(x, p=0.5, seed=seed) for seed in (1, 1, 2))
    mask, y = (np.asarray(one) for one in first)
    assert mask.dtype == bool and 1700 < mask.sum() < 2300
    np.testing.assert_array_equal(y, np.where(mask, 2, 0))
    np.testing.assert_array_equal(mask, np.asarray(again[0]))
    assert (mask != np.asarray(other[0])).any()


def test_a_call_takes_indices_of_another_dtype(array):
    table = np.arange(12, dtype=np.float32).reshape(4, 3)
    y = load("embedding")(array(table), array(np.array([3, 0, 3])))
    np.testing.assert_array_equal(np.asarray(y), table[[3, 0, 3]])


def test_a_call_takes_booleans(array):
    x, mask = np.ones((2, 3), np.float32), np.array([[True, False, False], [True, True, False]])
    y, kept = load("masked_fill")(array(x), array(mask), value=-1)
    np.testing.assert_array_equal(np.asarray(y), np.where(mask, -1, 1))
    assert np.asarray(kept).tolist() == [2, 1]


def test_a_call_sets_constants(array):
    image = np.zeros((3, 3), np.float32)
    image[1, 1] = 8
    out = load("constants")(array(image))
    np.testing.assert_array_equal(np.asarray(out).ravel(), [-9, 8, 7, -6, 5, -4, 3, 2, 1])
