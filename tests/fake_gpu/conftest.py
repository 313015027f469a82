"""The device that the tests of this folder share."""

from __future__ import annotations

import pytest

from cudalab.device import cuda
from cudalab.device.open import open_gpu
from cudalab.engine.round import Round


@pytest.fixture(scope="module")
def fake():
    """The stand-in's device, on which runs take few rounds: what a round does is tested, not what many add."""
    device = open_gpu(0, cuda.missing())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Round, "least_rounds", 3)
        yield device
    device.close()
