"""Threads that work while others are timed."""

from __future__ import annotations

import sys
import threading
from ast import literal_eval
from time import perf_counter, sleep

import pytest
from tables import table

from cudalab.base.beside import Watch

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux alone tells what threads do")


class Worker:
    """A thread that works while `on` is set."""

    def __init__(self, name):
        self.on, self.end, self.busy = threading.Event(), False, False
        self.thread = threading.Thread(target=self._work, name=name, daemon=True)
        self.thread.start()

    def _work(self):
        while not self.end:
            self.busy = False
            self.on.wait()
            self.busy = True
            sum(range(2000))


@pytest.fixture
def started():
    workers = []

    def start(name):
        workers.append(Worker(name))
        return workers[-1]

    yield start
    for one in workers:
        one.end = True
        one.on.set()
        one.thread.join()


def turn(watch, label, worker):
    """A turn of 20 ms, in which a worker works."""
    if worker:
        worker.on.set()
    end = perf_counter() + 0.02
    while perf_counter() < end:
        sleep(0.001)
    if worker:
        worker.on.clear()
        while worker.busy:  # else its last work would fall into the next turn on a busy machine
            sleep(0.001)
    watch.turn(label)


LABELS = ("torch_eager", "torch_native", "rival:a", "rival:b")


@pytest.mark.parametrize(("first", "works", "named"), table("beside", "turns", str, str, literal_eval))
def test_a_thread_that_works_in_the_turns_of_others_is_named(started, first, works, named):
    """It works in the turns of `works`, and is started before the first turn of `first`, or before all."""
    worker = None if first else started("hog")
    watch = Watch(lambda label: label.startswith("rival"))
    watch.turn("torch_eager", timed=False)
    worker = worker or started("hog")
    if first:
        watch.turn(first, timed=False)
    for _ in range(6):
        for label in LABELS:
            turn(watch, label, worker if label in works.split() else None)
    found = watch.found()
    said = "a thread that the spec has started (hog) works while other variants are timed"
    assert found.startswith(said) if named else found == ""
