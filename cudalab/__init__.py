"""cudalab: the lab bench for people who write CUDA kernels from Python.

    import cudalab
    results = cudalab.bench("gelu", sizes="small,large")
    from cudalab.kernels.gelu import gelu
    y = gelu(x)

A spec takes what it needs from here: `from cudalab import Budget, Kernel, Launch`. Names are imported on first use, so
that `import cudalab` is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import os

    from cudalab.base.errors import (
        CompileError,
        CudalabError,
        InputError,
        LaunchError,
        NotFound,
        SpecError,
        Unavailable,
    )
    from cudalab.report.results import Results
    from cudalab.results import record
    from cudalab.spec.kernel import Budget, Kernel, Launch, blocks

__version__ = "0.2.0"

# Where each public name is defined.
_PUBLIC = {
    **dict.fromkeys(("Budget", "Kernel", "Launch", "blocks"), "cudalab.spec.kernel"),
    **dict.fromkeys(
        ("CompileError", "CudalabError", "InputError", "LaunchError", "NotFound", "SpecError", "Unavailable"),
        "cudalab.base.errors",
    ),
    "Results": "cudalab.report.results",
}

__all__ = [
    "Budget",
    "CompileError",
    "CudalabError",
    "InputError",
    "Kernel",
    "Launch",
    "LaunchError",
    "NotFound",
    "Results",
    "SpecError",
    "Unavailable",
    "bench",
    "blocks",
    "check",
    "load",
    "run_study",
]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'cudalab' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_PUBLIC[name]), name)
    return value


def bench(*names: str, **options: Any) -> Results:
    """Check and time kernels; the arguments are those of `cudalab.engine.session.bench`."""
    from cudalab.engine import session

    return _for_users(session.bench(*names, **options))


def check(*names: str, **options: Any) -> Results:
    """Check kernels without timing; the arguments are those of `cudalab.engine.session.check`."""
    from cudalab.engine import session

    return _for_users(session.check(*names, **options))


def run_study(name: str | os.PathLike[str], **options: Any) -> Results:
    """Run a study by its name or path; the arguments are those of `cudalab.study.run.study`."""
    from cudalab.study import run

    return _for_users(run.study(name, **options))


def load(path: str | os.PathLike[str]) -> Results:
    """Read a results file; see `cudalab.results.file.load`."""
    from cudalab.results import file

    return _for_users(file.load(path))


def _for_users(run: record.Results) -> Results:
    """The same record with the methods that print, save and convert it."""
    from cudalab.report.results import Results

    return Results.of(run)
