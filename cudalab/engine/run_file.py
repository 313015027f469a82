"""The results of a session: how they begin, and the file that they are written to after each group."""

from __future__ import annotations

import os
import warnings
from datetime import datetime, timezone
from typing import Any

from cudalab.base.errors import why
from cudalab.engine.messages import Ready
from cudalab.engine.options import File
from cudalab.results import record
from cudalab.results.file import rescue, save
from cudalab.results.record import Results


def begun(kind: str, options: dict[str, Any], sources: dict[str, str], commit: str, ready: Ready) -> Results:
    """A run without cases, of the device that is `ready`; `commit` is that of the lab's source."""
    return Results(
        format=record.FORMAT,
        version=record.VERSION,
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        options=options,
        machine=ready.machine,
        no_gpu=ready.no_gpu,
        commit=commit,
        sources=sources,
        calibration=ready.calibration,
        kind=kind,
    )


class RunFile:
    """The file of a run; "" for none. A failure to write it ends no run."""

    unwritten = ""  # why it could not be written the last time

    def write(self, run: Results, path: File) -> None:
        """Write the results so far, if there are any. Warn of a failure when it begins."""
        if not path or not run.cases:
            return
        before, self.unwritten = self.unwritten, ""
        try:
            save(run, path)
        except OSError as error:
            self.unwritten = why(error)
            if self.unwritten != before:
                more = "" if run.complete else "; the run goes on, and tries again after each group"
                warnings.warn(f"cannot write {path}: {self.unwritten}{more}", stacklevel=3)

    def place(self, run: Results, path: File) -> str:
        """Where the results are after the last `write`, which may have failed: then elsewhere; "" for nowhere."""
        if not path or not run.cases:
            return ""
        return rescue(run) if self.unwritten else os.fspath(path)
