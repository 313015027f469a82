"""How many examples: a few by default, thousands with `pytest tests/fuzz --hypothesis-profile=thorough`."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

# deadline: an example that compiles or imports is slow once; tests that must be quick have their own limit.
COMMON = {"deadline": None, "suppress_health_check": list(HealthCheck), "print_blob": False}
settings.register_profile("quick", max_examples=15, derandomize=True, database=None, **COMMON)
settings.register_profile("thorough", max_examples=1000, **COMMON)
if settings.get_current_profile_name() != "thorough":
    settings.load_profile("quick")


@pytest.hookimpl(tryfirst=True)  # before `-m` deselects tests
def pytest_collection_modifyitems(config, items):
    """Thorough runs have no limit."""
    if config.getoption("--hypothesis-profile") == "thorough":
        for item in items:
            item.add_marker(pytest.mark.timeout(0))
