"""The parent's end of `cudalab.tools.sanitize.child`: ask it for a launch, and keep what it said of its arrays."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cudalab.base.child import Child, Ended
from cudalab.tools.sanitize.child import Answer, Buffers, Request

NOT_LOOKED_AT = "sanitizer: not checked: "
NOT_SANITIZED = "not sanitized: "  # no verdict: the sanitizer's process ended before it had one


@dataclass
class Launch:
    """`error`: what went wrong, "" if nothing; `named`: whether it says what it is (see `Answer`); `missing`: why it
    cannot run under the tool; `buffers`: where the arrays were; `ended`: the process ended in it.
    """

    error: str = ""
    named: bool = False
    missing: str = ""
    buffers: Buffers = field(default_factory=dict)
    ended: Ended | None = None


def start(environment: Mapping[str, str], prefix: Sequence[str] = ()) -> Child[Answer]:
    """A process that launches one entry at a time, under the tool whose command is `prefix`."""
    return Child("cudalab.tools.sanitize.child.main", answers=Answer, prefix=prefix, env={**os.environ, **environment})


def launch(process: Child[Answer], request: Request, timeout: float) -> Launch:
    """Launch one entry once. It is killed if it gives no answer for `timeout` seconds."""
    process.send(request)
    done = Launch()
    try:
        while not (answer := process.receive(timeout)).done:
            done.buffers = answer.buffers
        done.error, done.named, done.missing = answer.error, answer.named, answer.missing
    except Ended as ended:
        done.ended = ended
    return done
