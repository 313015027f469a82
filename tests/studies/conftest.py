"""The studies of the lab at their tiny sizes on the CPU, each measured when it is first asked for."""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from types import SimpleNamespace

import pytest
from studying import measured, tiny


@pytest.fixture(scope="session")
def studied(tmp_path_factory):
    """`run` of a name; the `steps` that were told meanwhile, by name; the `trace` of the study of the profiler."""
    steps, trace = defaultdict(list), tmp_path_factory.mktemp("trace") / "trace.json"

    @cache
    def run(name):
        return measured(name, tiny(name), steps[name].append, **({"trace": str(trace)} if name == "profile" else {}))

    return SimpleNamespace(run=run, steps=steps, trace=trace)
