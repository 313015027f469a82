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


@pytest.mark.parametrize(
    ("name", "library", "install"),
    [
        ("cuda_compute", "cuda.compute", "install cuda-cccl[cu13], or [cu12]"),
        ("liger", "Liger-Kernel", "install "),
        ("numba_cuda", "numba-cuda", "install numba-cuda"),
        ("quack", "QuACK", "install "),
    ],
)
def test_the_absence_of_a_library_is_said_with_what_to_type(monkeypatch, name, library, install):
    backend = backends.by_name()[name]
    monkeypatch.setattr(backend, "installed", lambda module: False)
    said = backend.missing.__wrapped__("cuda")  # without its cache
    assert said.startswith(f"{library} is not installed; ") and install in said
