"""Runs of tests/data/crash, whose entries fail in every way there is."""

from __future__ import annotations

from pathlib import Path

import cudalab

CRASH = Path(__file__).parents[1] / "data" / "crash"
QUICK = {"sizes": "small", "budget": 0.01, "timeout": 20.0}


def altered(folder, old="", new=""):
    """The path of a copy of the spec in `folder`, with some of its text replaced."""
    text = (CRASH / "crash.py").read_text()
    assert old in text
    (folder / "crash.py").write_text(text.replace(old, new, 1) if old else text)
    (folder / "crash.cu").write_text((CRASH / "crash.cu").read_text())
    return folder / "crash.py"


def rows(*only, spec=CRASH / "crash.py", device="cpu", **options):
    """Cases of a benchmark by their label, or by size and label if there are several groups."""
    run = cudalab.bench(str(spec), only=",".join(only), device=device, **{**QUICK, **options})
    assert run.complete
    return {(c.size, c.label) if len(run.groups()) > 1 else c.label: c for c in run.cases}
