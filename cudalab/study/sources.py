"""What a study's times depend on in this repository: its file, the lab's modules that it measures with, its kernels.

A run keeps their digests in `sources`. So a page can tell whether a study has changed since it was measured.
"""

from __future__ import annotations

import ast
from pathlib import Path

from cudalab.base.errors import SpecError
from cudalab.results.record import Results
from cudalab.spec import cuda_source, find
from cudalab.study.record import Study

HERE = Path(__file__).parent
APART = ("found", "record", "says")  # modules that measure nothing: where they change, times stay valid


def files(study: Study) -> dict[str, Path]:
    """The study's file, the modules of `cudalab.study` that it imports, and its kernels' `.cu` and specs, by name."""
    named = {Path(study.file).name: Path(study.file)}
    waiting = list(named.values())
    while waiting:
        for module in _imported(waiting.pop()):
            if (name := f"study/{module.name}") not in named:
                named[name] = module
                waiting.append(module)
    for kernel in map(find.kernel, study.kernels):
        named |= {f"kernels/{path.name}": path for path in (kernel.cu, Path(kernel.file))}
    return named


def _imported(path: Path) -> list[Path]:
    """The modules of `cudalab.study` that a file imports, at its top or in a function."""
    names: list[str] = []
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):  # what imports it says why
        return []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "cudalab.study":
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("cudalab.study."):
            names.append(str(node.module).removeprefix("cudalab.study."))
        elif isinstance(node, ast.Import):
            names += [a.name.removeprefix("cudalab.study.") for a in node.names if a.name.startswith("cudalab.study.")]
    places = [HERE / f"{name}.py" for name in dict.fromkeys(names) if name not in APART]
    return [place for place in places if place.is_file()]  # others are names in the package


def changed(study: Study, run: Results) -> list[str]:
    """The sources of a study's run that are not those of this cudalab, by name. Empty if all are the same.

    A source that the run does not name counts as changed: older files name the study alone. Of a study that is not
    known here, of which `found.study_of` gives a stand-in without variants, nothing is known.
    """
    if not study.variants:
        return []
    return [name for name, path in files(study).items() if run.sources.get(name) != _digest(path)]


def _digest(path: Path) -> str:
    try:
        return cuda_source.digest(path)
    except SpecError:  # a user's study that is gone
        return ""


def outdated(study: Study, run: Results) -> str:
    """Why the study cannot say its finding of a run: its ratios are others than the run's. Empty if it can."""
    ours = study.baseline, study.kinds[0]
    theirs = str(run.options.get("baseline", ours[0])), str(run.options.get("kinds", ours[1])).split(",")[0]
    if ours == theirs or not study.variants:  # a stand-in, see `changed`
        return ""
    was, now = (f"{kind} times with those of {base}" for base, kind in (theirs, ours))
    return (
        f"this file is older than the study: its ratios compare {was}, but those of the study compare {now}; "
        f"measure it again with `cudalab study {study.name}`"
    )
