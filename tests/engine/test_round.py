"""What a round does to the process that it runs in."""

from __future__ import annotations

import gc

import pytest

from cudalab.engine import round as rounds


@pytest.mark.parametrize("frozen", [True, False])
def test_garbage_is_collected_and_a_freeze_of_the_program_stays(frozen):
    gc.freeze() if frozen else gc.unfreeze()
    try:
        with rounds._little_garbage():
            assert len(gc.get_objects()) < gc.get_freeze_count()
        assert (len(gc.get_objects()) < gc.get_freeze_count()) is frozen
    finally:
        gc.freeze()
