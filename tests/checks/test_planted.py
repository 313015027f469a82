"""Bugs planted in kernels as users write them: `cudalab check --huge` catches nearly all. `-s` prints the others."""

from __future__ import annotations

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
    assert set(KNOWN) <= set(map(str, every)) and len(KNOWN) <= (1 - LEAST) * len(every)
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
@pytest.mark.sweep
@pytest.mark.parametrize("kernel", planted.KERNELS)
@pytest.mark.skipif("not planted.finds_races()", reason="no g++ that finds races")
def test_planted_bugs_are_caught_and_the_right_kernel_is_not(kernel, tmp_path):
    every = planted.bugs(kernel)
    found = found_by(kernel, every, tmp_path)
    assert found[f"{kernel}_right"] == ""
    missed = {str(bug) for bug in every if not found.get(f"{kernel}_bug{bug.number}")}
    print(f"{kernel}: {len(every) - len(missed)}/{len(every)}", *(f"missed: {one}" for one in missed), sep="\n")
    assert missed <= set(KNOWN)
