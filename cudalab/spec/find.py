"""Find kernels by their files. Nothing registers itself."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import shlex
import sys
from functools import cache
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from cudalab.base import genuine
from cudalab.base.errors import CudalabError, SpecError, named, short, unknown, why
from cudalab.base.text import visible
from cudalab.spec import cuda_source
from cudalab.spec.kernel import Kernel

LAB = "cudalab.kernels"  # the package with the lab's own kernels


@cache
def kernels() -> dict[str, Kernel]:
    """The lab's own kernels, by name."""
    package = importlib.import_module(LAB)
    names = [info.name for info in pkgutil.iter_modules(package.__path__) if not info.name.startswith("_")]
    return {name: _spec_of(importlib.import_module(f"{LAB}.{name}")) for name in names}


def of_lab(kernel: Kernel) -> bool:
    """Whether a kernel is one of the lab's own."""
    folders = importlib.import_module(LAB).__path__
    return Path(kernel.file).resolve().parent in (Path(folder).resolve() for folder in folders)


def kernel(name: str) -> Kernel:
    """A kernel by its name in the lab, or by the path of its spec (`./mine/softmax.py`) or `.cu`."""
    if is_path(name):
        return _load(_path(name))
    if name not in kernels():
        hint = unknown("kernel", name, kernels())
        hint.args = (f"{hint}; a kernel of your own is named by its path, such as ./{Path(name).stem}.py",)
        raise hint
    return kernels()[name]


def is_path(name: str) -> bool:
    """Whether a name is the path of a file, not the name of one of the lab's kernels."""
    return "/" in name or name.endswith((".py", ".cu")) or name in (".", "..")


def _path(name: str) -> Path:
    """The path of a spec. It must be UTF-8, as the results file that will hold it is."""
    try:
        path = Path(name).resolve()
        if not path.is_dir() or path.with_suffix(".py").is_file():
            path = Path(name).with_suffix(".py").resolve()
        str(path).encode()
        path.is_file()  # raises for a name that is too long
    except (OSError, ValueError, RuntimeError) as error:  # a zero byte, no name, undecodable bytes, a loop of links
        message = f"{short(name)} cannot be the path of a spec: {why(error)}; give one such as ./softmax.py"
        raise SpecError(message) from None
    return path


def _load(path: Path) -> Kernel:
    if path.is_dir():
        specs = sorted(f.with_suffix(".py") for f in path.glob("*.cu") if f.with_suffix(".py").is_file())
        if not specs:
            raise SpecError(f"{path} is a folder without a pair of .cu and .py; give a spec, such as ./softmax.py")
        raise SpecError(f"{path} is a folder; give its specs: {' '.join(shlex.quote(str(s)) for s in specs)}")
    if not path.is_file():
        code = path.with_suffix(".cu")
        advice = f"; write one: cudalab new {shlex.quote(str(code))}" if code.is_file() else ""
        raise SpecError(f"no spec at {path}; a kernel is a pair of files, name.cu and name.py{advice}")
    return _spec_of(loaded(path))


def loaded(path: Path) -> ModuleType:
    """The module in a user's file. Raises SpecError if it cannot be imported, or replaces what others use."""
    # A file that has changed since it was loaded becomes another module, so that no stale kernel is measured.
    module_name = f"cudalab_user_{path.stem}_{cuda_source.digest(path)[:16]}_{abs(hash(path)):x}"
    if module_name not in sys.modules:
        found = importlib.util.spec_from_file_location(module_name, path, loader=_Fresh(module_name, str(path)))
        assert found is not None and found.loader is not None
        genuine.watch()
        before = genuine.replaced()
        module = sys.modules[module_name] = importlib.util.module_from_spec(found)
        try:
            found.loader.exec_module(module)
        except BaseException as error:  # also SystemExit, from a file that calls exit()
            del sys.modules[module_name]
            if isinstance(error, KeyboardInterrupt) or (isinstance(error, CudalabError) and str(path) in str(error)):
                raise
            raise SpecError(f"{path}: {_said(error)}") from error
        if names := sorted(set(genuine.replaced()) - set(before)):
            del sys.modules[module_name]
            raise SpecError(f"{path}: {genuine.refusal(names)}")
    return sys.modules[module_name]


class _Fresh(SourceFileLoader):
    """Compiles the file as it is now. Python's cache compares length and seconds, which an edit may keep."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def _said(error: BaseException) -> str:
    try:
        return visible(named(error).rstrip(": "), keep="\n")
    except Exception:  # from a __str__ of the spec's author
        return type(error).__name__


def _spec_of(module: ModuleType) -> Kernel:
    specs = [v for v in vars(module).values() if isinstance(v, Kernel) and v.file == module.__file__]
    if len(specs) != 1:
        name = Path(str(module.__file__)).stem
        raise SpecError(f"{module.__file__} must define one `{name} = Kernel(file=__file__, ...)`, found {len(specs)}")
    present = cuda_source.entries(cuda_source.read(specs[0].cu))
    for entry in specs[0].entries:
        if entry not in present:
            raise SpecError(f"{specs[0].cu}: {unknown('__global__ function', entry, present)}")
    return specs[0]
