"""`cudalab new`: write the files of a new kernel and say what to do next."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from cudalab.base.errors import InputError, why
from cudalab.cli import terminal
from cudalab.spec import find, scaffold


def write(name: str, like: str) -> None:
    """Write the spec of a `.cu`, or a copy of the kernel `like`. Raises InputError, before anything is written."""
    path = Path(name)
    if path.name and path.suffix in (".py", ""):
        path = path.with_suffix(".cu")
    if path.suffix != ".cu" or not path.stem.isidentifier():
        raise InputError(f"{name!r} cannot name a kernel; give a name of letters, digits and _, such as ./softmax.cu")
    files = _copied(path, like) if like else _scaffolded(path)
    for file in files:
        if file.exists():
            raise InputError(f"{file} exists, and is not replaced; remove it, or give another name")
    try:
        for file, text in files.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("x", encoding="utf-8") as out:
                out.write(text)
            terminal.wrote(file)
    except OSError as error:
        raise InputError(f"cannot write {error.filename or path}: {why(error)}; choose another folder") from None
    spec = path.with_suffix(".py")
    holes = files[spec].count(scaffold.HOLE)
    command = f"cudalab check {shlex.quote(str(spec) if '/' in str(spec) else f'./{spec}')}"
    click.echo(f"fill in the {holes} places marked {scaffold.HOLE}, then: {command}" if holes else f"now: {command}")


def _copied(path: Path, like: str) -> dict[Path, str]:
    kernel = find.kernel(like)
    if not find.of_lab(kernel):
        raise InputError(f"--like copies kernels of the lab, and {like} is a file; see: cudalab list")
    files = scaffold.like(kernel, path)
    same = [file for file, text in files.items() if file.is_file() and file.read_text(encoding="utf-8") == text]
    return {file: text for file, text in files.items() if file not in same}  # headers that an earlier copy left


def _scaffolded(path: Path) -> dict[Path, str]:
    if not path.is_file():
        beside = f"write it first, or copy one of the lab's: cudalab new {shlex.quote(str(path))} --like softmax"
        raise InputError(f"no file {path}; {beside}")
    return {path.with_suffix(".py"): scaffold.of_file(path)}
