"""Optional modules are imported on use only: tested in a fresh process, with a bound on modules, not on time."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tables import table

HEAVY = {"torch", "cupy", "pycuda", "triton", "scipy", "pandas", "cuda"}
SCRIPT = """
import sys
before = len(sys.modules)
try:
    {work}
except SystemExit:
    pass
print(len(sys.modules) - before, sorted({heavy} & {{m.partition('.')[0] for m in sys.modules}}), file=sys.stderr)
"""


@pytest.mark.process
@pytest.mark.parametrize(("work", "most"), table("imports", "modules", str, int))
def test_modules(work, most):
    script = SCRIPT.format(work=work, heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    count, _, heavy = done.stderr.strip().splitlines()[-1].partition(" ")
    assert heavy == "[]"
    assert int(count) < most
