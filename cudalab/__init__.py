"""cudalab: the lab bench for people who write CUDA kernels from Python.

import cudalab
results = cudalab.bench("gelu", sizes="small,large")
from cudalab.kernels.gelu import gelu
y = gelu(x)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import os

    from cudalab.results.record import Results

__all__ = ["bench", "check", "load", "run_study"]
__version__ = "0.1.0"


def bench(*names: str, **options: Any) -> Results:
    """Check and time kernels; the arguments are those of `cudalab.engine.session.bench`."""
    from cudalab.engine import session  # here, so that `import cudalab` is quick

    return session.bench(*names, **options)


def check(*names: str, **options: Any) -> Results:
    """Check kernels without timing; the arguments are those of `cudalab.engine.session.check`."""
    from cudalab.engine import session

    return session.check(*names, **options)


def run_study(name: str | os.PathLike[str], **options: Any) -> Results:
    """Run a study by its name or path; the arguments are those of `cudalab.study.run.study`."""
    from cudalab.study import run

    return run.study(name, **options)


def load(path: str | os.PathLike[str]) -> Results:
    """Read a results file; see `cudalab.results.record.load`."""
    from cudalab.results import record

    return record.load(path)
