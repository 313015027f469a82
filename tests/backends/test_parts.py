"""A file of backends/ is a whole backend: mypy does not compare modules with the protocol."""

from __future__ import annotations

import pytest

from cudalab import backends

PARTS = {*backends.Backend.__annotations__, *(n for n in vars(backends.Backend) if not n.startswith("_"))}


@pytest.mark.parametrize("name", backends.by_name())
def test_a_backend_has_every_part_of_the_protocol(name):
    backend = backends.by_name()[name]
    missing = sorted(PARTS - set(vars(backend)))
    assert not missing, f"cudalab/backends/{name}.py: add {', '.join(missing)}, as cudalab/backends/__init__.py says"
    assert set(backend.devices) <= {"cuda", "cpu"}
    assert backend.budget in ("budgets", "peers", "composed")
