"""The store of a history: one SQLite file with the medians of every recorded run, and what they depend on.

A run is added in one transaction, or not at all: a process that is killed leaves the store as it was before. SQLite's
rollback journal is used, not its write-ahead log: the store is one file, which can be copied or committed while nobody
writes, and read where nothing can be written; and it works on a network file system whose locks work. Writers wait for
each other.
"""

from __future__ import annotations

import os
import shlex
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cudalab.base import advice
from cudalab.base.errors import InputError, why
from cudalab.base.text import visible

DEFAULT = "cudalab-history.db"
VERSION = 1  # of the tables below
OURS = 0x63756C62  # SQLite's application id of a store: "culb"
PATIENCE = 60.0  # seconds that a writer waits for the others
TABLES = """
CREATE TABLE machines (id INTEGER PRIMARY KEY, device TEXT NOT NULL, name TEXT NOT NULL, card TEXT NOT NULL,
    driver TEXT NOT NULL, details TEXT NOT NULL, versions TEXT NOT NULL, options TEXT NOT NULL,
    UNIQUE (device, name, details, versions, options));
CREATE TABLE sources (id INTEGER PRIMARY KEY, digests TEXT NOT NULL UNIQUE);
CREATE TABLE cases (id INTEGER PRIMARY KEY, kernel TEXT NOT NULL, size TEXT NOT NULL, shape TEXT NOT NULL,
    dtype TEXT NOT NULL, backend TEXT NOT NULL, variant TEXT NOT NULL, of_study INTEGER NOT NULL,
    UNIQUE (kernel, size, shape, dtype, backend, variant, of_study));
CREATE TABLE conditions (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);
CREATE TABLE runs (id INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE, file TEXT NOT NULL, created TEXT NOT NULL,
    moment REAL NOT NULL, revision TEXT NOT NULL, main TEXT NOT NULL, machine INTEGER NOT NULL REFERENCES machines (id),
    sources INTEGER NOT NULL REFERENCES sources (id));
CREATE INDEX runs_by_file ON runs (file);
CREATE TABLE times ("case" INTEGER NOT NULL REFERENCES cases (id), kind TEXT NOT NULL,
    run INTEGER NOT NULL REFERENCES runs (id), seconds REAL NOT NULL, parameters TEXT NOT NULL,
    condition INTEGER NOT NULL REFERENCES conditions (id),
    PRIMARY KEY ("case", kind, run)) WITHOUT ROWID;
"""


@contextmanager
def reading(path: str | os.PathLike[str]) -> Iterator[sqlite3.Connection]:
    """A store that is only read. Raises InputError if there is none at `path`, or if it cannot be read.

    It is opened for writing where that is allowed: what a writer that was killed has left is undone.
    """
    place = Path(path)
    if not place.exists():
        raise InputError(f"there is no history at {_named(path)}; make one: cudalab record results.json{_option(path)}")
    with _opened(path, "rw") as store:
        yield store


@contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[sqlite3.Connection]:
    """A store that is written; a new one where there is none. Raises InputError if it cannot be written."""
    folder = Path(path).parent
    if not folder.is_dir():
        raise InputError(f"no folder {_named(folder)}; make it first: mkdir -p {shlex.quote(str(folder))}")
    with _opened(path, "rwc") as store:
        yield store


@contextmanager
def transaction(store: sqlite3.Connection) -> Iterator[None]:
    """All that is written within, or nothing."""
    store.execute("BEGIN IMMEDIATE")
    try:
        yield
        store.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            store.execute("ROLLBACK")
        raise


@contextmanager
def _opened(path: str | os.PathLike[str], mode: str) -> Iterator[sqlite3.Connection]:
    """The store at `path`; what SQLite says of it becomes an InputError with what to type."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise InputError(f"{_named(path)} is not a regular file; give a file of the history, such as --store {DEFAULT}")
    try:
        name = Path(path).absolute().as_uri()
        store = sqlite3.connect(f"{name}?mode={mode}", uri=True, timeout=PATIENCE, isolation_level=None)
    except sqlite3.DatabaseError as error:
        raise _explained(error, path) from None
    except ValueError as error:  # a name with a null byte
        raise InputError(f"cannot open the history {_named(path)}: {why(error)}; give another with --store") from None
    try:
        _check(store, path, mode)
        yield store
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        raise _explained(error, path) from None
    finally:
        store.close()


def _check(store: sqlite3.Connection, path: str | os.PathLike[str], mode: str) -> None:
    """Make the tables of an empty file; raise InputError for a file that is no store, or one of a newer version."""
    if mode == "rwc" and not _has(store, "application_id"):
        with transaction(store):
            if not _has(store, "application_id") and not _has(store, "schema_version"):
                for statement in filter(str.strip, TABLES.split(";")):
                    store.execute(statement)
                store.execute(f"PRAGMA application_id = {OURS}")
                store.execute(f"PRAGMA user_version = {VERSION}")
    ours, version = _has(store, "application_id"), _has(store, "user_version")
    if ours == 0 and _has(store, "schema_version") == 0:
        raise InputError(
            f"the history {_named(path)} is empty; record runs: cudalab record results.json{_option(path)}"
        )
    if ours != OURS:
        raise InputError(f"{_named(path)} is a database, but no history of cudalab; give another file with --store")
    if version > VERSION:
        raise InputError(
            f"the history {_named(path)} has version {version}; this cudalab reads {VERSION}; upgrade it: "
            f"{advice.upgrade()}"
        )


def _has(store: sqlite3.Connection, pragma: str) -> int:
    return int(store.execute(f"PRAGMA {pragma}").fetchone()[0])


def _explained(error: Exception, path: str | os.PathLike[str]) -> InputError:
    """What SQLite says, or what is wrong with a text in the store, and what to do about it."""
    name, said = _named(path), str(error)
    if "locked" in said:
        return InputError(f"the history {name} was locked for {PATIENCE:.0f} s by another writer; try again")
    if "readonly" in said or "unable to open" in said:
        return InputError(
            f"cannot write the history {name}: {said}; give a place where you may write, such as "
            f"--store ~/{DEFAULT}" if _unwritable(path) else f"cannot open the history {name}: {said}; give another "
            "file with --store"
        )  # fmt: skip
    if "full" in said or "disk I/O" in said:
        return InputError(f"cannot write the history {name}: {said}; free some space, then record the same files again")
    broken = shlex.quote(f"{os.fspath(path)}.broken")
    return InputError(
        f"the history {name} is damaged or not a history ({said}); move it away and record the results files again: "
        f"mv {shlex.quote(os.fspath(path))} {broken}, then cudalab record RESULTS...{_option(path)}"
    )


def _unwritable(path: str | os.PathLike[str]) -> bool:
    place = Path(path)
    return not os.access(place.parent, os.W_OK) or (place.exists() and not os.access(place, os.W_OK))


def _named(path: str | os.PathLike[str]) -> str:
    return visible(os.fspath(path))


def _option(path: str | os.PathLike[str]) -> str:
    return "" if os.fspath(path) == DEFAULT else f" --store {shlex.quote(os.fspath(path))}"
