"""No cheat gets a better time than honest work: on the CPU checks and forms, on a GPU all that is timed there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from cheating import ABSENT, CHEATS, CHECK, CPU, FASTER, GPU, KINDS, LOADED, NOT_TRIED, SPECS, checked, runs, timed

BY_NAME = {cheat.name: cheat for cheat in CHEATS}
TOGETHER = [cheat for cheat in CHEATS if cheat.name.startswith("form_")]
SUPPORT = Path(__file__).parents[1] / "support"


def test_every_kind_of_cheat_has_a_row_or_a_reason():
    tried = {number for cheat in CHEATS for number in cheat.numbers}
    assert tried | set(NOT_TRIED) == set(KINDS)
    assert not tried & set(NOT_TRIED)
    assert len(tried) >= 20


def test_every_file_is_in_the_table():
    assert {path.stem for path in (*SPECS.glob("*.py"), *SPECS.glob("*.cu"))} == set(BY_NAME)
    assert len(BY_NAME) == len(CHEATS)


@pytest.mark.process
@pytest.mark.sweep
@pytest.mark.parametrize("cheat", [pytest.param(c, id=c.name) for c in CHEATS if CHECK in c.where])
def test_a_check_finds_it(cheat):
    found = checked(cheat)
    assert found.verdict in cheat.expected, found
    assert found.said


@pytest.fixture(scope="module")
def by_the_wall_clock(one_torch_thread):
    pytest.importorskip("torch")
    return timed([cheat for cheat in TOGETHER if CPU in cheat.where], "cpu", "small", budget=0.05)


def _tried(cheat):
    """A cheat whose kind has a limit may win: the program that it is can adapt."""
    marks = [pytest.mark.xfail(strict=False, reason=cheat.limit)] if cheat.limit else []
    return pytest.param(cheat, id=cheat.name, marks=marks)


@pytest.mark.process
@pytest.mark.wall
@pytest.mark.parametrize("cheat", [_tried(c) for c in TOGETHER if CPU in c.where])
def test_a_form_is_not_faster_by_the_wall_clock(by_the_wall_clock, cheat):
    found = by_the_wall_clock[cheat.name]
    assert found.verdict in cheat.expected, found


REPLACING = [pytest.param(c, id=c.name) for c in CHEATS if c.name.startswith("patch_") and {CPU, LOADED} & set(c.where)]


@pytest.mark.process
@pytest.mark.sweep
@pytest.mark.parametrize("cheat", REPLACING)
def test_a_replaced_function_is_noticed(cheat):
    """In a process of its own, which the cheat may spoil."""
    pytest.importorskip("torch")
    code = (
        f"import sys; sys.path.insert(0, {str(SUPPORT)!r}); from cheating import *; "
        f"found = timed([c for c in CHEATS if c.name == {cheat.name!r}], 'cpu', 'small'); "
        f"print(found[{cheat.name!r}].verdict, found[{cheat.name!r}].said)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(cheat.expected), done.stdout
    assert (cheat.said or "the spec replaced") in done.stdout


@pytest.fixture(scope="module")
def by_the_gpu():
    found = {}
    for together in runs([cheat for cheat in CHEATS if GPU in cheat.where]):
        found |= timed(together, "cuda", "timed")
    return found


@pytest.mark.wall
@pytest.mark.sweep
@pytest.mark.gpu
@pytest.mark.parametrize("cheat", [pytest.param(c, id=c.name) for c in CHEATS if GPU in c.where])
def test_nothing_is_faster_than_honest_work_on_the_gpu(by_the_gpu, cheat):
    found = by_the_gpu[cheat.name]
    if cheat.limit and found.verdict == FASTER:
        pytest.xfail(cheat.limit)
    if found.verdict == ABSENT:
        pytest.skip(found.said)
    assert found.verdict in cheat.expected, found
