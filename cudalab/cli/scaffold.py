"""`cudalab new`: write the files of a new kernel and say what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

import click

from cudalab.base.errors import InputError, SpecError, why
from cudalab.cli import terminal
from cudalab.spec import cuda_source, find, python_source, scaffold


def write(name: str, like: str) -> None:
    """Write the spec of a `.cu`, or a copy of the kernel `like`. Raises InputError, before anything is written."""
    path = Path(name)
    if path.suffix == ".py" and path.is_file() and not like and not path.with_suffix(".cu").exists():
        _from_python(path)
        return
    if path.name and path.suffix in (".py", ""):
        path = path.with_suffix(".cu")
    if path.suffix != ".cu" or not path.stem.isidentifier():
        raise InputError(f"{name!r} cannot name a kernel; give a name of letters, digits and _, such as ./softmax.cu")
    files = _copied(path, like) if like else _scaffolded(path)
    _refuse_to_replace(files)
    _written(files, path)
    _next(path.with_suffix(".py"), files[path.with_suffix(".py")])


def _from_python(path: Path) -> None:
    """Write the CUDA code in the strings of a Python file to a `.cu` each, with its spec. Never runs the file."""
    found = [(path.with_name(f"{one.name}.cu"), one) for one in python_source.taken(path)]
    _refuse_to_replace([file for cu, _ in found for file in (cu, cu.with_suffix(".py"))])
    for cu, one in found:
        _written({cu: f"{one.code.strip(chr(10))}\n"}, cu, f": {one.said}")
        try:
            files = _scaffolded(cu)
        except (InputError, SpecError):
            cu.unlink()
            raise
        _written(files, cu)
        _next(cu.with_suffix(".py"), files[cu.with_suffix(".py")])


def _refuse_to_replace(files: Iterable[Path]) -> None:
    for file in files:
        if file.exists():
            raise InputError(f"{file} exists, and is not replaced; remove it, or give another name")


def _written(files: Mapping[Path, str], path: Path, said: str = "") -> None:
    try:
        for file, text in files.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("x", encoding="utf-8") as out:
                out.write(text)
            terminal.wrote(file, said)
    except OSError as error:
        raise InputError(f"cannot write {error.filename or path}: {why(error)}; choose another folder") from None


def _next(spec: Path, text: str) -> None:
    if said := cuda_source.left_out(spec.with_suffix(".cu")):
        click.echo(said, err=True)
    holes = text.count(scaffold.HOLE)
    command = f"cudalab check {shlex.quote(str(spec) if '/' in str(spec) else f'./{spec}')}"
    places = "place" if holes == 1 else f"{holes} places"
    click.echo(f"fill in the {places} marked {scaffold.HOLE}, then: {command}" if holes else f"now: {command}")


def _copied(path: Path, like: str) -> dict[Path, str]:
    kernel = find.kernel(like)
    if not find.of_lab(kernel):
        raise InputError(f"--like copies kernels of the lab, and {like} is a file; see: cudalab list")
    files = scaffold.like(kernel, path)
    same = [file for file, text in files.items() if file.is_file() and file.read_text(encoding="utf-8") == text]
    return {file: text for file, text in files.items() if file not in same}  # headers that an earlier copy left


def _scaffolded(path: Path) -> dict[Path, str]:
    if path.exists() and not path.is_file():
        what = "a folder" if path.is_dir() else "not a regular file"
        raise InputError(f"{path} is {what}; name a .cu file")
    if not path.is_file():
        beside = f"write it first, or copy one of the lab's: cudalab new {shlex.quote(str(path))} --like softmax"
        raise InputError(f"no file {path}; {beside}")
    return {path.with_suffix(".py"): scaffold.of_file(path)}
