"""What runs beside one GPU: the lab's session, as on a machine with one GPU, which does the groups that it is given.

It is a plain class, and Ray makes an actor of it. The session's worker processes start once, and end with the thread
that started them: also where the actor is killed.
"""

from __future__ import annotations

import os
import socket
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from math import inf
from time import perf_counter

import msgspec

from cudalab.base import cache, memory
from cudalab.base.bounded import guarded
from cudalab.base.errors import CudalabError, Unavailable, message_of
from cudalab.base.text import encodable
from cudalab.device import driver
from cudalab.device.machine import commit
from cudalab.engine.deaths import Death
from cudalab.engine.job import Job
from cudalab.engine.messages import WORKER, Sent, Step, Task, named
from cudalab.engine.selection import Selection
from cudalab.engine.session import Session
from cudalab.tools.gpus.messages import Answer, Gone, Identity, Opened, Order, Report

THREADS = "OMP_NUM_THREADS"


class Actor:
    """Does groups on the GPU that CUDA_VISIBLE_DEVICES leaves it. Every method takes and returns JSON."""

    def __init__(self, order: bytes) -> None:
        self._order = msgspec.json.decode(order, type=Order)
        os.environ.pop(THREADS, None)  # Ray sets it to 1
        os.environ |= {THREADS: self._order.threads} if self._order.threads else {}
        self._stack = ExitStack()

    def open(self) -> bytes:
        """Open the session: `Opened`, or `Gone` with what opening the device raised."""
        return msgspec.json.encode(self._tried(self._opened))

    def rows(self, work: bytes) -> bytes:
        """Do a group: `Answer`, or `Gone` where no group can be done any more."""
        return msgspec.json.encode(self._tried(lambda: self._answer(work)))

    def close(self) -> None:
        """End the session's workers."""
        self._stack.close()

    def _tried(self, act: Callable[[], Report]) -> Report:
        try:
            return act()
        except CudalabError as error:
            return Gone(encodable(str(error)))
        except Exception as error:
            return Gone(encodable(message_of(error)))

    def _opened(self) -> Opened:
        order = self._order
        if order.fresh:
            self._stack.enter_context(cache.fresh())
        selection = Selection(order.only, order.skip)
        timeout = inf if order.timeout is None else order.timeout
        options = {"processes": order.setup.processes}
        self._session = Session(order.kind, options, order.setup, selection, timeout, hard=order.hard)
        self._stack.enter_context(self._session)
        count = int(options["processes"])
        found = self._session.ask(
            Task.of("cudalab.tools.gpus.actor:identity", Identity(), {}), Step(WORKER, "start"), Identity
        )
        if isinstance(found, Death):
            raise Unavailable(found.reason)
        most = int(options.get("up_to", count))
        return Opened(self._session.ready, found.gpu, socket.gethostname(), commit(), count, most, memory.free())

    def _answer(self, work: bytes) -> Answer:
        start = perf_counter()
        with warnings.catch_warnings(record=True) as said, guarded():
            warnings.simplefilter("always", UserWarning)
            sent = msgspec.json.decode(work, type=Sent)
            cases = self._session.judged(named(sent.maker)(sent.payload))
        texts = dict.fromkeys(encodable(str(one.message)) for one in said if one.category is UserWarning)
        return Answer(cases, perf_counter() - start, self._session.spent(), list(texts))


def identity(job: Job, payload: msgspec.Raw) -> Identity:
    """Handle `Identity`, in the worker: which GPU is this?"""
    index: int | None = getattr(job.device, "index", None)
    return Identity("" if index is None else driver.card_uuid(index))
