"""Kernels with a twin: each entry of a kernel a second time, under another name, compiled and bound on its own.

A run of such a kernel has two labels for equal work (A/A): every FASTER or SLOWER between them is false.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from cudalab.base.stats import Ratio
from cudalab.results.record import Case, Results
from cudalab.spec import cuda_source
from cudalab.spec.kernel import Kernel

AGAIN = "_again"
COMMON = "common"  # the folder of the headers that the lab's kernels include
SPEC = '''"""{name} with twins, which are to be equally fast."""

from dataclasses import replace

from cudalab.spec import find

kernel = find.kernels()[{name!r}]
again = {{f"{{name}}{again}": launch for name, launch in kernel.entries.items()}}
twins = replace(kernel, file=__file__, entries={{**kernel.entries, **again}}, called=None, triton=None)
del kernel
'''


def written(kernel: Kernel, folder: Path) -> Path:
    """Write a kernel of the lab with twins into a folder, and return the path of its spec."""
    text = kernel.cu.read_text()
    folder.mkdir(parents=True, exist_ok=True)
    again = "\n\n".join(_twin(text, entry) for entry in kernel.entries)
    (folder / f"{kernel.name}.cu").write_text(f"{text}\n{again}\n")
    if (headers := kernel.cu.parent / COMMON).is_dir():
        shutil.copytree(headers, folder / COMMON, dirs_exist_ok=True)
    spec = folder / f"{kernel.name}.py"
    spec.write_text(SPEC.format(name=kernel.name, again=AGAIN))
    return spec


def _twin(text: str, entry: str) -> str:
    """The text of an entry under another name. The device functions that it calls are shared."""
    code = cuda_source.blank_comments(text)
    head = re.search(rf'extern\s+"C"\s+__global__[^{{}};]*?\b({re.escape(entry)})\s*\(', code)
    assert head, f'{entry} is not defined as extern "C" __global__'
    end, depth = code.index("{", head.end()) + 1, 1
    while depth:
        depth += {"{": 1, "}": -1}.get(code[end], 0)
        end += 1
    return text[head.start() : head.start(1)] + f"{entry}{AGAIN}" + text[head.end(1) : end]


def pairs(cases: list[Case]) -> Iterator[tuple[Case, Case]]:
    """Each timed row of these with its twin."""
    rows = {(case.group, case.label): case for case in cases if case.times}
    for (group, label), case in rows.items():
        if twin := rows.get((group, f"{label}{AGAIN}")):
            yield case, twin


def ratios(run: Results, kind: str) -> list[Ratio]:
    """How many times faster each twin seems to be, as the run's tables say it."""
    both = ((case, twin) for case, twin in pairs(run.cases) if kind in case.times and kind in twin.times)
    return [run.ratio(case, twin, kind) for case, twin in both]


def shares(found: list[Ratio]) -> str:
    """How many verdicts of each kind, the most frequent first."""
    counts = Counter(ratio.verdict() for ratio in found)
    return ", ".join(f"{n} {verdict} ({100 * n / len(found):.0f} %)" for verdict, n in counts.most_common())
