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
    from cudalab.call.kernel import Kernel
    from cudalab.device.cuda import compute_capability
    from cudalab.report.results import Results
    from cudalab.results import record
    from cudalab.spec.array import In, Out, Scalar, Work
    from cudalab.spec.inputs import draw
    from cudalab.spec.kernel import Budget
    from cudalab.spec.launch import Launch, blocks, counted, counted_sides, deep_grid
    from cudalab.spec.unfilled import todo

__version__ = "0.2.0"

# Where each public name is defined.
_PUBLIC = {
    "Kernel": "cudalab.call.kernel",
    "Budget": "cudalab.spec.kernel",
    **dict.fromkeys(("Launch", "blocks", "counted", "counted_sides", "deep_grid"), "cudalab.spec.launch"),
    **dict.fromkeys(("In", "Out", "Scalar", "Work"), "cudalab.spec.array"),
    "compute_capability": "cudalab.device.cuda",
    "draw": "cudalab.spec.inputs",
    "todo": "cudalab.spec.unfilled",
    **dict.fromkeys(
        ("CompileError", "CudalabError", "InputError", "LaunchError", "NotFound", "SpecError", "Unavailable"),
        "cudalab.base.errors",
    ),
    "Results": "cudalab.report.results",
}

_SINGULAR = {"size": "sizes", "dtype": "dtypes"}  # options, and as functions name them

__all__ = [
    "Budget",
    "CompileError",
    "CudalabError",
    "In",
    "InputError",
    "Kernel",
    "Launch",
    "LaunchError",
    "NotFound",
    "Out",
    "Results",
    "Scalar",
    "SpecError",
    "Unavailable",
    "Work",
    "bench",
    "blocks",
    "check",
    "compute_capability",
    "counted",
    "counted_sides",
    "deep_grid",
    "draw",
    "load",
    "run_study",
    "todo",
]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'cudalab' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_PUBLIC[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})


def bench(*kernels: Any, **options: Any) -> Results:
    """Check and time kernels; the options are those of `cudalab.engine.runs.bench`.

    `kernels` are names, paths of specs or folders, `Kernel`s, or lists of these; none: all of the lab's. `size`,
    `dtype` and `kernel` are the options `sizes` and `dtypes`, and more kernels, as on the command line. `gpus`,
    `ray` and `every_gpu` are those of the command line too: several GPUs, and the address of a Ray cluster.
    """
    from cudalab.engine import runs

    options |= _on_gpus(options, options.pop("every_gpu", False))
    return _for_users(runs.bench(*_kernels(kernels, options), **_options(runs.bench, options)))


def check(*kernels: Any, sanitize: bool = False, **options: Any) -> Results:
    """Check kernels without timing; the other options are those of `cudalab.engine.runs.check`.

    `kernels`, `size`, `dtype`, `kernel`, `gpus` and `ray` are as in `bench`. With `sanitize`, every entry is also
    launched under the sanitizers of `cudalab.tools.sanitize`.
    """
    from cudalab.engine import runs

    if sanitize:
        from cudalab.tools.sanitize import Sanitizer

        options["sanitizer"] = Sanitizer
    options |= _on_gpus(options)
    return _for_users(runs.check(*_kernels(kernels, options), **_options(runs.check, options)))


def run_study(name: str | os.PathLike[str], **options: Any) -> Results:
    """Run a study by its name or path; the arguments are those of `cudalab.study.run.study`."""
    from cudalab.study import run

    return _for_users(run.study(name, **options))


def load(path: str | os.PathLike[str]) -> Results:
    """Read a results file; see `cudalab.results.file.load`."""
    from cudalab.results import file

    return _for_users(file.load(path))


def load_ipython_extension(shell: Any) -> None:
    """Add the magics `%cudalab` and `%%cudalab`: IPython calls this for `%load_ext cudalab`."""
    import_module("cudalab.cli.notebook.magic").load(shell)


def _kernels(given: tuple[Any, ...], options: dict[str, Any]) -> list[str]:
    """Kernels as the command line names them, with those of the options `kernel` and `kernels`."""
    from cudalab.base.errors import InputError
    from cudalab.spec import find

    every = (*given, *(options.pop(word) for word in ("kernel", "kernels") if word in options))
    names = find.words(every)
    if every and not names:
        raise InputError(
            "got an empty list of kernels; give a name such as 'gelu', or leave the list out for all kernels of the lab"
        )
    return names


def _on_gpus(options: dict[str, Any], every: bool = False) -> dict[str, Any]:
    """The `session` of a run on several GPUs, if `options`, which lose `gpus` and `ray`, ask for it."""
    gpus, ray = options.pop("gpus", ""), options.pop("ray", "")
    if not (gpus or ray or every):
        return {}
    from cudalab.tools.gpus import asked

    return dict(asked(gpus, ray, every))


def _options(function: Any, options: dict[str, Any]) -> dict[str, Any]:
    """The options of a function by its own names. Raises NotFound for an unknown one."""
    import inspect

    from cudalab.base.errors import InputError, unknown

    known = [name for name, p in inspect.signature(function).parameters.items() if p.kind is p.KEYWORD_ONLY]
    found: dict[str, Any] = {}
    for word, value in options.items():
        name = _SINGULAR.get(word, word)
        if name not in known:
            raise unknown("option", word, [*_SINGULAR, *known])
        if name in found:
            raise InputError(f"{name} is given twice, as {name} and as {name[:-1]}; give one of them")
        found[name] = value
    return found


def _for_users(run: record.Results) -> Results:
    """The same record with the methods that print, save and convert it."""
    from cudalab.report.results import Results

    return Results.of(run)
