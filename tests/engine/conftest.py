"""Fixtures of the tests of a run's processes."""

from __future__ import annotations

import pytest

from cudalab.engine import process


@pytest.fixture
def workers(monkeypatch):
    """Every worker process that is started from here on."""
    started = []

    class Recorded(process.Process):
        def __init__(self):
            super().__init__()
            started.append(self)

    monkeypatch.setattr(process, "Process", Recorded)
    return started
