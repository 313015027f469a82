"""Bugs planted in kernels as users write them: which does `cudalab check --huge` catch? `-s` prints the list."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import planted
import pytest

from cudalab import host

pytestmark = [  # each test compiles several files
    pytest.mark.skipif(host.compiler_missing() is not None, reason="no C++ compiler"),
]

LEAST = 0.95
# Bugs that the check does not catch, and why.
KNOWN = {
    "saxpy_stride: stride: of a block": "elements are computed several times, each time with the right result",
    "saxpy_stride: overflow: an unsigned index": "the loop never ends; a launch that takes long gets no verdict",
    "quantize_rows: arithmetic: cut instead of rounded": "off by one, which the budget of the spec allows",
    "softmax_online: initialisation: the sum has no first value": "the compiler's pattern is a finite number, which "
    "the first step multiplies by 0; on a GPU a register may hold NaN",
    "conv1d: barrier: a return before it": "all have written their part, and GPUs since Volta accept it; a note tells",
    "transpose_pad: bounds: the tile's rows overlap": "the memory past a static array is nobody's; --sanitize finds it",
}


def found_by(kernel: str, bugs: list[planted.Bug], folder: Path) -> dict[str, str]:
    return planted.check(planted.write(kernel, folder, bugs))


@pytest.mark.process
@pytest.mark.sweep
def test_there_are_enough():
    every = [bug for kernel in planted.KERNELS for bug in planted.bugs(kernel)]
    assert len(planted.KERNELS) >= 20 and len(every) >= 120
    assert set(KNOWN) <= set(map(str, every))
    for bug in every:
        text = (planted.PLANTED / f"{bug.kernel}.cu").read_text()
        assert bug.old in text and text.replace(bug.old, bug.new, 1) != text, bug


@pytest.mark.process
@pytest.mark.sweep
@pytest.mark.skipif("not planted.finds_races()", reason="no g++ that finds races")
def test_five_bugs_are_caught_beside_a_right_kernel(tmp_path):
    bugs = planted.bugs("histogram_rows")
    chosen = [bugs[0], bugs[1], bugs[4], bugs[6], bugs[7]]  # a race, a first value, a width, a bound, an overflow
    found = found_by("histogram_rows", chosen, tmp_path)
    assert found.pop("histogram_rows_right") == ""
    assert len(found) == 5 and all(found.values()), found


@pytest.mark.process
@pytest.mark.process
@pytest.mark.sweep
@pytest.mark.timeout(1200)
@pytest.mark.skipif("not planted.finds_races()", reason="no g++ that finds races")
def test_nearly_all_planted_bugs_are_caught_and_no_right_kernel_is(tmp_path):
    def one(kernel: str) -> dict[str, str]:
        (folder := tmp_path / kernel).mkdir()
        return found_by(kernel, planted.bugs(kernel), folder)

    with ThreadPoolExecutor(2) as two:
        found = dict(zip(planted.KERNELS, two.map(one, planted.KERNELS), strict=True))
    assert {kernel: by[f"{kernel}_right"] for kernel, by in found.items() if by[f"{kernel}_right"]} == {}
    every = [bug for kernel in planted.KERNELS for bug in planted.bugs(kernel)]
    caught = {bug: found[bug.kernel].get(f"{bug.kernel}_bug{bug.number}", "") for bug in every}
    planted_in, caught_in = Counter(b.kind for b in every), Counter(b.kind for b, how in caught.items() if how)
    for kind, count in sorted(planted_in.items()):
        print(f"{kind}: {caught_in[kind]}/{count}")
    missed = [str(bug) for bug, how in caught.items() if not how]
    print(f"all: {sum(caught_in.values())}/{len(every)}", *(f"missed: {one}" for one in missed), sep="\n")
    assert set(missed) <= set(KNOWN), set(missed) - set(KNOWN)
    assert sum(caught_in.values()) >= LEAST * len(every)
