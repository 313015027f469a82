"""Handlers of tasks, as a tool would have them: a worker imports this module by its name."""

from __future__ import annotations

import os
import signal

import msgspec

from cudalab.base.errors import Unavailable


class Number(msgspec.Struct):
    value: int


def doubled(job, payload):
    return Number(2 * msgspec.json.decode(payload, type=Number).value)


def modes(job, payload):
    return list(job.modes)


def refuses(job, payload):
    raise Unavailable("not today")


def dies(job, payload):
    os.kill(os.getpid(), signal.SIGSEGV)
