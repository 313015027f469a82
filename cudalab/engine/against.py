"""`bench --against`: the `.cu` as it was, under the same spec, as further variants of each group.

The old text and its headers are copied to a folder of the cache, so that neither an edit nor a checkout during the run
changes what is measured. A kernel at that place is the new one with another `.cu`: same launches, inputs, reference.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cudalab.base import cache, files, program
from cudalab.base.errors import InputError, SpecError, Unavailable, short
from cudalab.engine.groups import Group
from cudalab.engine.selection import Selection
from cudalab.spec import cuda_source, entry_names
from cudalab.spec.kernel import Kernel

GIT = "git:"
Reader = Callable[[Path], bytes | None]  # the contents that a path had; None where there was no file


def beside(groups: list[Group], against: str, selection: Selection) -> list[Group]:
    """The groups with their old `.cu`: a file, or git:REV.

    Raises InputError where there is none, and for one file beside several kernels.
    """
    if not against:
        return groups
    kernels = {group.kernel.file: group.kernel for group in groups}
    if not against.startswith(GIT) and len(kernels) > 1:
        names = ", ".join(dict.fromkeys(group.name for group in groups))
        raise InputError(f"--against {against} is one .cu, and the kernels are {names}; name one, or give git:REV")
    old = {file: _copied(kernel, against) for file, kernel in kernels.items()}
    found = [replace(group, old=str(old[group.kernel.file])) for group in groups]
    if not any(variant.old for group in found for variant in selection.variants(group)):
        raise InputError("--against compares entries of the .cu, and none is left to run; check --only and --skip")
    return found


def fits(old: Kernel, new: Kernel, entry: str, arrays: Mapping[str, Any]) -> None:
    """Raise Unavailable where the earlier `.cu` has no such entry, or other parameters than the spec gives it."""
    launched = [launch.entry for launch in new.launches(entry, arrays)]
    there, now = ({f.name for f in entry_names.of_text(cuda_source.read(kernel.cu))} for kernel in (old, new))
    for name in (entry_names.asked(one).base for one in launched):
        if name in now and name not in there:
            raise Unavailable(f"the old {old.cu.name} has no __global__ function {name}")
    try:
        old.launches(entry, arrays)
    except SpecError as error:
        reason = str(error).removeprefix(f"{old.file}: ")
        raise Unavailable(f"the old {old.cu.name} does not fit this spec: {reason}") from None


def _copied(kernel: Kernel, against: str) -> Path:
    """Return the old `.cu` of a kernel, copied with the headers that it includes by `#include "..."`."""
    here = kernel.cu.resolve()
    if against.startswith(GIT):
        place, read = here, _at_revision(here, against.removeprefix(GIT))
    else:
        path = Path(against).absolute()
        if not path.is_file():
            what = "is a folder; give a file" if path.is_dir() else "is not there; give the old .cu"
            raise InputError(f"--against {against} {what}, or git:REV, such as git:HEAD~1")
        place, read = path.with_name(here.name), _of_files(path, here)
    data = read(place)
    if data is None:
        raise InputError(
            f"{here.name} does not exist in {against.removeprefix(GIT)}; give an older file, or another REV"
        )
    contents = {place: data, **cuda_source.local_headers(data.decode(errors="replace"), place, read)}
    top = Path(os.path.commonpath([path.parent for path in contents]))
    named = {str(path.relative_to(top)): content for path, content in contents.items()}
    digest = hashlib.sha256(b"".join(b"%b\0%d\0%b" % (n.encode(), len(c), c) for n, c in sorted(named.items())))
    folder = cache.folder(f"against/{digest.hexdigest()[:32]}")
    for name, content in named.items():
        if not (target := folder / name).is_file() or target.read_bytes() != content:
            target.parent.mkdir(parents=True, exist_ok=True)
            files.write(target, content, mode=0o600)
    return folder / place.relative_to(top)


def _of_files(path: Path, here: Path) -> Reader:
    """Reads the old file in the new one's name, and headers: those beside it, or else those beside the new one."""

    def read(place: Path) -> bytes | None:
        if place == path.with_name(here.name):
            return path.read_bytes()
        beside_new = Path(os.path.normpath(here.parent / os.path.relpath(place, path.parent)))
        return next((one.read_bytes() for one in (place, beside_new) if one.is_file()), None)

    return read


def _at_revision(here: Path, revision: str) -> Reader:
    """Reads files of the repository that holds the `.cu` as they are in a revision; others as they are now."""

    if not shutil.which("git"):
        raise InputError(f"git is not on PATH; give the old {here.name} itself: --against OLD.cu")

    def git(*words: str) -> subprocess.CompletedProcess[bytes]:
        return program.run(["git", "-C", str(here.parent), *words])

    asked = git("rev-parse", "--show-toplevel")
    if asked.returncode:
        said = asked.stderr.decode(errors="replace").strip().splitlines()
        raise InputError(f"{here} is in no git repository ({said[0] if said else 'git fails'}); give --against OLD.cu")
    top = Path(os.fsdecode(asked.stdout).rstrip("\n"))
    found = git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}") if revision[:1] not in ("", "-") else None
    if found is None or found.returncode:
        raise InputError(f"no revision {short(revision)} in {top}; give one that `git log` lists, such as git:HEAD~1")
    commit = found.stdout.decode().strip()

    def read(place: Path) -> bytes | None:
        if not place.is_relative_to(top):
            return place.read_bytes() if place.is_file() else None
        shown = git("cat-file", "blob", f"{commit}:{place.relative_to(top).as_posix()}")
        return None if shown.returncode else shown.stdout

    return read
