"""Adds results files to a store."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import sqlite3
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from cudalab.base.errors import InputError
from cudalab.base.text import encodable
from cudalab.results import bounds, formats, record
from cudalab.results.comparable import ASKED, CLOCKS
from cudalab.results.record import Case, Results
from cudalab.spec.kernel import assigned
from cudalab.tools.history import store as stores

# What becomes of a file.
ADDED, KNOWN, NOTHING, BAD = "recorded", "recorded before", "without times", "not recorded"
STEP = 15e6  # Hz: clocks are kept in these steps, in which GPUs set them; runs then share their conditions
WAITING = 0.5  # seconds for which runs are collected before they are written


@dataclass(frozen=True)
class Outcome:
    """What became of a file: one of the words above, and the reason of what a user may not expect."""

    path: str
    what: str
    reason: str = ""


def record_files(paths: Sequence[str], path: str | os.PathLike[str]) -> Iterator[Outcome]:
    """Add the runs in the files to the store at `path`; say of each what became of it, once that is on the disk.

    A run whose bytes are in the store already adds nothing. Raises InputError for a store that cannot be written.
    """
    with stores.writing(path) as store:
        waiting: list[tuple[str, str, Results]] = []
        begun = time.monotonic()
        for file in paths:
            found = _read(file, store)
            if isinstance(found, Outcome):
                yield found
                continue
            waiting.append((file, *found))
            if time.monotonic() - begun > WAITING:
                yield from _write(store, waiting, Path(path))
                waiting, begun = [], time.monotonic()
        yield from _write(store, waiting, Path(path))


def _read(path: str, store: sqlite3.Connection) -> Outcome | tuple[str, Results]:
    """The digest of a file's content and the run in it, or why it is not recorded."""
    try:
        data = bounds.read(path)
        digest = hashlib.sha256(data).hexdigest()
        if _known(store, digest):
            return Outcome(path, KNOWN)
        run = formats.decoded(data, path)
    except InputError as error:
        return Outcome(path, BAD, str(error))
    if not run.complete:
        again = f"cudalab {run.kind} --resume {shlex.quote(path)}"
        return Outcome(path, BAD, f"{path} is of an interrupted run; finish it first: {again}")
    return (digest, run) if any(case.times for case in run.cases) else Outcome(path, NOTHING, path)


def _known(store: sqlite3.Connection, digest: str) -> bool:
    return store.execute("SELECT 1 FROM runs WHERE digest = ?", (digest,)).fetchone() is not None


def _write(store: sqlite3.Connection, runs: Sequence[tuple[str, str, Results]], path: Path) -> list[Outcome]:
    """Add runs in one transaction."""
    if not runs:
        return []
    with stores.transaction(store):
        return [Outcome(run[0], ADDED if _insert(store, *run, path) else KNOWN) for run in runs]


def _insert(store: sqlite3.Connection, file: str, digest: str, run: Results, path: Path) -> bool:
    """Add one run; False for one that another writer has added since."""
    if _known(store, digest):
        return False
    raw = os.path.relpath(os.path.abspath(file), path.absolute().parent)
    values = [digest, _utf8(raw), run.created, _moment(run.created), run.commit, run.main_kind, _machine(store, run)]
    values.append(_row(store, "sources", digests=_text(dict(sorted(run.sources.items())))))
    store.execute("UPDATE runs SET file = '' WHERE file = ?", (_utf8(raw),))  # it holds another run now
    marks = ", ".join("?" * len(values))
    columns = "digest, file, created, moment, revision, main, machine, sources"
    number = store.execute(f"INSERT INTO runs ({columns}) VALUES ({marks})", values).lastrowid
    rows: dict[tuple[int, str, int | None], tuple[float | None, str, int]] = {}
    conditions = {
        group: _row(store, "conditions", text=_text(_condition(run, cases))) for group, cases in run.groups().items()
    }
    for case in reversed(run.cases):  # of two with one name the first is kept
        if case.times and case.status in (record.OK, record.CEILING):
            which, parameters = _case(store, case, run.of_study), assigned(case.parameters)
            rows |= {
                (which, kind, number): (case.median(kind), parameters, conditions[case.group])
                for kind in case.times
                if kind != record.ENERGY
            }
    store.executemany("INSERT INTO times VALUES (?, ?, ?, ?, ?, ?)", [(*key, *value) for key, value in rows.items()])
    return True


def _condition(run: Results, cases: Sequence[Case]) -> dict[str, Any]:
    """Whether other programs kept the machine busy; clocks and what slowed a group down, where its copy says it."""
    found: dict[str, Any] = {"busy": bool(run.busy)}
    if copy := next((case for case in cases if case.status == record.CEILING and case.times), None):
        found["throttled"] = copy.condition.get("throttled", "")
        for name in CLOCKS:
            if isinstance(value := copy.condition.get(name), (int, float)):
                found[name] = STEP * round(value / STEP)
    return found


def _machine(store: sqlite3.Connection, run: Results) -> int:
    machine = run.machine
    return _row(
        store, "machines", device=machine.device, name=machine.name, details=_text(machine.details),
        versions=_text(machine.versions), options=_text({n: run.options[n] for n in ASKED if n in run.options}),
        also={"card": str(machine.details.get("card", "")), "driver": str(machine.details.get("driver", ""))},
    )  # fmt: skip


def _case(store: sqlite3.Connection, case: Case, of_study: bool) -> int:
    return _row(
        store, "cases", kernel=case.kernel, size=case.size, shape=_text(case.shape), dtype=case.dtype,
        backend=case.backend, variant=case.variant, of_study=int(of_study),
    )  # fmt: skip


def _row(store: sqlite3.Connection, table: str, also: dict[str, str] | None = None, **values: str | int) -> int:
    """The id of the row that has these values; a new one, with what it has `also`, where there is none."""
    where = " AND ".join(f"{name} = ?" for name in values)
    given = [_utf8(value) for value in values.values()]
    if found := store.execute(f"SELECT id FROM {table} WHERE {where}", given).fetchone():
        return int(found[0])
    every = values | (also or {})
    marks = ", ".join("?" * len(every))
    made = store.execute(
        f"INSERT INTO {table} ({', '.join(every)}) VALUES ({marks})", [_utf8(value) for value in every.values()]
    )
    return int(made.lastrowid or 0)


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _utf8(value: str | int) -> str | int:
    """A text that SQLite can hold."""
    return str(encodable(value)) if isinstance(value, str) else value


def _moment(created: str) -> float:
    """Seconds since 1970 at which a run began; now for one whose file says no time."""
    try:
        found = datetime.fromisoformat(created.replace("Z", "+00:00"))
    except ValueError:
        return time.time()
    return (found if found.tzinfo else found.replace(tzinfo=timezone.utc)).timestamp()
