"""The forms of a copy: each copies all of its bytes and no more, whatever their number."""

from __future__ import annotations

import re

import numpy as np
import pytest

from cudalab import host
from cudalab.device import copy
from cudalab.spec.kernel import blocks

GUARD = np.float32(7)
KERNELS = [form for form in copy.FORMS.values() if form.name != "memcpy"]
ON_CPU = [form.name for form in KERNELS if not form.piece]  # TMA needs a GPU

needs_compiler = pytest.mark.skipif(host.compiler_missing() is not None, reason="no C++ compiler")


@pytest.fixture(scope="module")
def module():
    return host.load(copy.SOURCE.read_text(), name=copy.SOURCE.name)


def aligned(words):
    memory = np.full(words + 8, GUARD, np.float32)
    start = -memory.ctypes.data % copy.PACK // 4
    return memory[start : start + words + 4]  # the last pack is a guard


def launch(module, name, packs, *arrays, multiprocessors=2):
    count, threads = (
        copy.grid(copy.FORMS[name], packs, multiprocessors) if name in copy.FORMS else (blocks(packs, 256), 256)
    )
    module.launch(name, (count, 1, 1), (threads, 1, 1), (*arrays, np.int64(packs)))


@needs_compiler
@pytest.mark.parametrize("packs", [1, 2, 255, 256, 257, 511, 1023, 1025, 4096, 16384, 30001])
@pytest.mark.parametrize("name", ON_CPU)
def test_all_packs_are_copied_and_no_more(module, name, packs):
    origin, target = aligned(4 * packs), aligned(4 * packs)
    origin[:] = copy.pattern(origin.size)
    launch(module, name, packs, origin, target)
    np.testing.assert_array_equal(target[: 4 * packs], origin[: 4 * packs])
    assert (target[4 * packs :] == GUARD).all()


@needs_compiler
@pytest.mark.parametrize("packs", [1, 255, 30001])
def test_what_is_copied_is_the_pattern(module, packs):
    target = aligned(4 * packs)
    launch(module, "fill", packs, target)
    np.testing.assert_array_equal(target[: 4 * packs], copy.pattern(4 * packs))
    assert (target[4 * packs :] == GUARD).all()


def test_the_pattern_is_numbers_that_differ():
    words = copy.pattern(1 << 16)
    assert words.dtype == np.float32
    assert 1 <= words.min() < 1.001
    assert 1.999 < words.max() < 2
    assert len(np.unique(words)) == words.size
    assert not np.array_equal(words[:4096], words[4096:8192])  # pieces in another order would be noticed


def test_each_form_has_its_kernel_and_each_kernel_its_form():
    entries = re.findall(r"^ENTRY (\w+)\(", copy.SOURCE.read_text(), re.MULTILINE)
    assert sorted(entries) == sorted([form.name for form in KERNELS] + ["fill"])


def test_the_names_say_what_the_source_does():
    source = copy.SOURCE.read_text()
    for form in KERNELS:
        line = next(line for line in source.splitlines() if line.startswith(f"ENTRY {form.name}("))
        if not (found := re.search(r"\{ (once|bulk)<(\d+)", line)):
            assert form.name == "persistent"
            continue
        assert int(found[2]) == (form.piece or form.packs)
        size = f"{copy.PACK * form.piece >> 10} KB" if form.piece else f"{copy.PACK * form.packs} bytes per thread"
        assert size in form.says
        assert ("kept(from)" in line or ", true>" in line) == ("evict_last loads" in form.says)
        assert ("given_up(to)" in line) == ("evict_first stores" in form.says)


def test_a_grid_covers_the_packs_or_is_on_the_gpu_at_once():
    for form in KERNELS:
        for packs in (1, 1000, 10**8):
            count, threads = copy.grid(form, packs, 132)
            each = form.piece or threads * form.packs
            if form.a_sm:
                assert count == min(blocks(packs, each), 132 * form.a_sm)
            else:
                assert count * each >= packs > (count - 1) * each


def test_old_cards_have_fewer_forms():
    every = list(copy.FORMS)
    assert copy.available((9, 0)) == copy.available((10, 0)) == copy.available((12, 0)) == every
    assert copy.available((8, 9)) == [name for name in every if not name.startswith("bulk")]
    assert set(copy.available((8, 0))) - set(copy.available((7, 5))) == {"store_evict_first", "two_packs_evict_first"}
    assert copy.USUAL in copy.available((7, 0))
