"""Garbage while times are taken."""

from __future__ import annotations

import gc

import pytest

from cudalab.base import garbage


@pytest.mark.parametrize("frozen", [True, False])
def test_garbage_is_collected_and_a_freeze_of_the_program_stays(frozen):
    gc.freeze() if frozen else gc.unfreeze()
    before = gc.get_threshold()
    garbage.seldom()
    try:
        with garbage.little():
            assert len(gc.get_objects()) < gc.get_freeze_count()
            assert (gc.get_threshold() == before) is not frozen
        assert (len(gc.get_objects()) < gc.get_freeze_count()) is frozen
    finally:
        gc.set_threshold(*before)
        gc.freeze()
