"""Planted bugs: kernels of tests/data/planted, each with small edits that make it wrong.

NAME.bugs has edits: `== class: what is wrong`, the text to replace, a line `=>`, the text in its place. All edited
copies of a kernel are entries of one `.cu`, beside the right one, so that a check compiles once.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

PLANTED = Path(__file__).parents[1] / "data" / "planted"
KERNELS = tuple(sorted(file.stem for file in PLANTED.glob("*.bugs")))
_NAMES = re.compile(r"__(?:global|device)__[^;{}()=]*?\b(\w+)\s*[(\[=;]")
_TITLE = re.compile(r"^== (?=[a-z ]+: )", re.MULTILINE)


class Bug(NamedTuple):
    kernel: str
    number: int  # from 1
    kind: str
    what: str
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.kernel}: {self.kind}: {self.what}"


def bugs(kernel: str) -> list[Bug]:
    found = []
    parts = _TITLE.split((PLANTED / f"{kernel}.bugs").read_text())[1:]
    for number, text in enumerate(parts, 1):
        title, _, edit = text.partition("\n")
        kind, _, what = title.partition(": ")
        old, arrow, new = edit.rstrip("\n").partition("\n=>\n")
        assert arrow, title
        found.append(Bug(kernel, number, kind, what, old, new))
    return found


def write(kernel: str, folder: Path, chosen: list[Bug]) -> Path:
    """Write the kernel and its chosen bugs as entries of one `.cu`, and a spec for them; return the spec's path."""
    text = (PLANTED / f"{kernel}.cu").read_text()
    copies = [_renamed(text, "right")]
    for bug in chosen:
        assert text.count(bug.old) >= 1, f"{bug}: the text to replace is not there"
        copies.append(_renamed(text.replace(bug.old, bug.new, 1), f"bug{bug.number}"))
    (folder / f"{kernel}_planted.cu").write_text("\n".join(copies))
    entries = ", ".join(f"'{kernel}_{suffix}'" for suffix in ("right", *(f"bug{bug.number}" for bug in chosen)))
    spec = folder / f"{kernel}_planted.py"
    spec.write_text(
        f"import sys\nfrom dataclasses import replace\n\nsys.path.insert(0, {str(PLANTED)!r})\n"
        f"from {kernel} import {kernel} as plain\n\n(launch,) = plain.entries.values()\n"
        f"{kernel}_planted = replace(plain, file=__file__, entries=dict.fromkeys(({entries},), launch))\n"
    )
    return spec


def _renamed(text: str, suffix: str) -> str:
    for name in set(_NAMES.findall(text)):
        text = re.sub(rf"\b{name}\b", f"{name}_{suffix}", text)
    for name in set(re.findall(r"^#define (\w+)", text, re.M)):
        text = re.sub(rf"\b{name}\b", f"{name}_{suffix}", text)
    return text


def check(spec: Path, seed: int = 1) -> dict[str, str]:
    """By entry, the first fault that `cudalab check --huge` finds; "" for none."""
    kept = spec.with_suffix(".json")
    command = [sys.executable, "-m", "cudalab", "check", str(spec), "--huge", "--only", "host", "--device", "cpu"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, "--seed", str(seed), "--timeout", "30", "-o", str(kept)],
        capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    assert kept.exists(), done.stderr + done.stdout
    found: dict[str, str] = {}
    for case in json.loads(kept.read_text())["cases"]:
        found.setdefault(case["entry"] if "entry" in case else case["variant"].rpartition(":")[2], "")
        if case["status"] in ("WRONG", "error"):
            name = case["variant"].rpartition(":")[2]
            found[name] = found[name] or f"{case['size']}: {case['reason']}"
    return found


def finds_races() -> bool:
    """Whether this machine's compiler makes modules that look at each access."""
    from cudalab import host
    from cudalab.base.errors import CudalabError

    try:
        host.load("__global__ void k(float* y) { y[threadIdx.x] = 1; }", races=True)
    except CudalabError:
        return False
    return True
