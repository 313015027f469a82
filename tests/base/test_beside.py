"""Threads that work while others are timed."""

from __future__ import annotations

import sys
import threading
from time import perf_counter, sleep

import pytest

from cudalab.base.beside import Watch

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux alone tells what threads do")


class Worker:
    """A thread that works while `on` is set."""

    def __init__(self, name):
        self.on, self.end = threading.Event(), False
        self.thread = threading.Thread(target=self._work, name=name, daemon=True)
        self.thread.start()

    def _work(self):
        while not self.end:
            self.on.wait()
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


def turns(watch, works, rounds=6):
    """Takes turns of 20 ms; `works` says by variant which worker works in its turn."""
    for _ in range(rounds):
        for label, worker in works.items():
            if worker:
                worker.on.set()
            end = perf_counter() + 0.02
            while perf_counter() < end:
                sleep(0.001)
            if worker:
                worker.on.clear()
            watch.turn(label)


def watched(shared=("rival:a", "rival:b")):
    return Watch(lambda label: label in shared)


def test_a_thread_that_works_in_the_turns_of_others_is_named(started):
    watch = watched()
    watch.turn("torch_eager", timed=False)
    hog = started("hog")
    watch.turn("torch_native", timed=False)
    turns(watch, {"torch_eager": hog, "torch_native": None})
    assert watch.found().startswith("a thread that the spec has started (hog) works while other variants are timed")


def test_a_thread_that_works_for_its_own_variant_is_none(started):
    watch = watched()
    pool = started("pool")
    watch.turn("torch_native", timed=False)
    turns(watch, {"torch_eager": None, "torch_native": pool})
    assert watch.found() == ""


def test_a_thread_that_is_as_old_as_the_spec_may_work_for_one_variant(started):
    pool = started("pool")
    watch = watched()
    turns(watch, {"torch_eager": None, "torch_native": pool})
    assert watch.found() == ""
    turns(watch, {"torch_eager": pool, "torch_native": pool})
    assert "(pool)" in watch.found()


def test_rivals_may_share_threads(started):
    watch = watched()
    pool = started("pool")
    watch.turn("rival:a", timed=False)
    turns(watch, {"torch_eager": None, "rival:a": pool, "rival:b": pool})
    assert watch.found() == ""
