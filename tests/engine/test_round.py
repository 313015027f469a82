"""What a round does to the process that it runs in."""

from __future__ import annotations

from types import SimpleNamespace

from cudalab.base.errors import LaunchError
from cudalab.engine import round as rounds
from cudalab.engine.job import RELEASE, Job
from cudalab.engine.selection import Selection
from cudalab.results.record import Case
from cudalab.timing.clock import Clock


def test_clocks_that_load_the_device_come_after_the_others_and_cost_no_time():
    order, device = [], SimpleNamespace(alive=lambda: True)

    def clock(name, mode="", fails=False):
        def sample():
            order.append((name, one.loaded))
            if fails:
                raise LaunchError("the counter stands still")
            return [1e-3]

        return Clock(sample, mode=mode, budget=0.1 if mode else 0.0, quantities=lambda: {f"{name}_w": 4.0})

    made = {
        "a": {"cold": clock("cold"), "energy": clock("energy", "energy"), "sustained": clock("hot", "sustained")},
        "b": {"cold": clock("cold"), "energy": clock("energy", "energy", fails=True)},
    }
    job = Job(device, Selection(), ("launch", "energy"), 0, 1e-9, lambda step: None)
    one = rounds.Round(job, SimpleNamespace(name="k", size="s", shape=(1,), dtype=SimpleNamespace(name="float32")))
    one.prepare = lambda variant, case: one.works.update({variant.label: None})
    one.clocks = lambda label, case: made[label]
    a, b = one.rows([SimpleNamespace(label=label) for label in made])
    kinds = [name for name, _ in order]
    assert set(kinds[:20]) == {"cold"} and "cold" not in kinds[20:]
    assert all(loaded is (name != "cold") for name, loaded in order) and not one.loaded
    assert {kind: len(taken) for kind, taken in a.times.items()} == {"cold": 10, "energy": 3, "sustained": 3}
    assert a.quantities == {"energy_w": 4.0, "hot_w": 4.0} and a.notes == []
    assert list(b.times) == ["cold"]
    assert b.notes == ["no energy: failed while it was timed: the counter stands still"]
    assert isinstance(b, Case) and b.status == "ok"


def test_the_release_of_arrays_is_told_before_it_begins():
    told = []
    device = SimpleNamespace(kind="cpu", alive=lambda: True, release=lambda: told.append("released"))
    Job(device, Selection(), (), 0, 0.0, lambda step: told.append(step.phase)).release("k s float32")
    assert told == [RELEASE, "released"]
