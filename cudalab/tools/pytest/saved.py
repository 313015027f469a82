"""The folder that keeps runs of `cudalab_time`: 0001_DATE_COMMIT.json, 0002_... A file in it is never replaced."""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from pathlib import Path

from cudalab.base import files, program
from cudalab.base.errors import InputError, Unavailable

FOLDER = ".cudalab"  # in pytest's root folder
LAST = "last"  # the newest run of the folder, as a baseline
NUMBERED = re.compile(r"(\d{4,})_.*")


class Saved:
    """The runs in `folder`, which need not exist; `root` is the folder whose commit names new ones."""

    def __init__(self, folder: Path, root: Path) -> None:
        self.folder, self.root = Path(os.path.abspath(folder)), root  # a test may change the current folder
        self._here = os.getcwd()

    def baseline(self, asked: str) -> str:
        """The path of the run that `asked` names: a file, a number of this folder, or `last`.

        Raises InputError for a run that this folder lacks.
        """
        if os.path.exists(asked) or not (asked == LAST or asked.isdecimal()):
            return asked
        runs = self._by_number()
        if not runs:
            raise InputError(f"no run is saved in {self.shown(self.folder)}/; save one with: pytest --cudalab-autosave")
        number = max(runs) if asked == LAST else int(asked)
        if number not in runs:
            have = ", ".join(map(str, sorted(runs)))
            raise InputError(f"{self.shown(self.folder)}/ has no run {asked}; it has {have}")
        return self.shown(runs[number])

    def shown(self, path: str | Path) -> str:
        """A path of this folder as it is from where pytest was started; others as they are."""
        return os.path.relpath(path, self._here) if self.folder in (Path(path), Path(path).parent) else str(path)

    def holds(self, path: str) -> bool:
        """Whether the file is one of this folder."""
        return os.path.realpath(os.path.join(self._here, os.path.dirname(path))) == os.path.realpath(self.folder)

    def usable(self) -> None:
        """Raise InputError now if `new` would fail later."""
        there = next(path for path in (self.folder, *self.folder.parents) if path.exists())
        if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
            raise InputError(f"cannot save runs in {self.shown(self.folder)}: {there} is not a folder to write to; "
                             "give another with --cudalab-storage")  # fmt: skip

    def new(self, name: str = "") -> Path:
        """A new, empty file with the next number; `name` defaults to date and commit. Raises OSError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        name = name or f"{time.strftime('%Y%m%d_%H%M%S')}{self._commit()}.json"
        number = max(self._by_number(empty=True), default=0)
        while True:
            number += 1
            path = self.folder / f"{number:04}_{name}"
            taken = number in self._by_number(empty=True)
            with suppress(FileExistsError):  # another session has just made it
                if not taken:
                    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
                    return path

    def keep(self, path: str) -> str:
        """Copy a file that is about to be replaced into the folder; "" where there is nothing to keep."""
        data = Path(path).read_bytes() if os.path.exists(path) else b""
        if not data:
            return ""
        kept = self.new(os.path.basename(path))
        files.write(kept, data)
        return str(kept)

    def _by_number(self, empty: bool = False) -> dict[int, Path]:
        """The files by their number; those that are `empty`, which no run has filled yet, only if asked for."""
        found: dict[int, Path] = {}
        for path in sorted(self.folder.iterdir()) if self.folder.is_dir() else ():
            if (match := NUMBERED.fullmatch(path.name)) and (empty or path.stat().st_size):
                found[int(match[1])] = path
        return found

    def _commit(self) -> str:
        """The commit of the tests' repository, with a + where files of it have changed; "" without a repository."""

        def git(*words: str) -> str:
            done = program.run(["git", "-C", self.root, *words], text=True)
            return done.stdout.strip() if not done.returncode else ""

        try:
            commit = git("rev-parse", "--short", "HEAD")
            changed = commit and git("status", "--porcelain", "--untracked-files=no")
        except Unavailable:
            return ""
        return f"_{commit}{'+' if changed else ''}" if commit else ""
