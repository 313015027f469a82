"""The choice of the ceiling: the fastest copy that copies, by a short trial whose times are not the ones that count."""

from __future__ import annotations

from types import SimpleNamespace

import copies
import pytest

from cudalab.device.copy import FORMS, USUAL
from cudalab.device.cpu import Cpu
from cudalab.device.operands import Bound, Operands
from cudalab.timing import ceiling as chosen
from cudalab.timing import gpu as on_gpu


class Device:
    """A GPU whose copies leave a digest and last as long as they are told."""

    kind = "cuda"

    def __init__(self, seconds, digests=(), raises=(), lost=False):
        self.seconds, self.digests, self.raises, self.lost = seconds, dict(digests), raises, lost
        self.left, self.ran, self.asked = 0, [], 0

    def copies(self, nbytes):
        self.asked += 1
        on = Operands({"from": "origin"}, "target")
        return {form: Bound(lambda f=form: self.run(f), lambda: "target", on=on) for form in self.seconds}

    def run(self, form):
        self.ran.append(form)
        if form in self.raises:
            raise RuntimeError("no such kernel")
        self.left = self.digests.get(form, 42)

    def poison(self, array):
        self.left = -1

    def fingerprint(self, array):
        return 42 if array == "origin" else self.left

    def alive(self):
        return not self.lost


@pytest.fixture(autouse=True)
def planted(monkeypatch):
    """A clock that shows what the device was told."""

    def timer_of(device):
        def cold(work, n, held):
            work.run()
            taken = device.seconds[device.ran[-1]]
            return [taken.pop(0) if isinstance(taken, list) else taken] * n

        return SimpleNamespace(cold=cold, blocking=True)

    monkeypatch.setattr(on_gpu, "timer_of", timer_of)


def test_the_fastest_form_is_the_ceiling_and_the_note_says_which():
    device = Device({"one_pack": 10e-6, "bulk_4k": 9e-6, "memcpy": 11e-6})
    bound, note = chosen.ceiling(device, 1000)
    assert note == "the fastest of 3 copies in a trial: bulk_4k (TMA, pieces of 4 KB)"
    bound.run()
    assert device.ran[-1] == "bulk_4k"
    ran = device.ran.copy()
    assert (chosen.ceiling(device, 1000)[1], device.asked, device.ran) == (note, 2, ran)  # one trial for these bytes
    chosen.ceiling(device, 2000)
    assert len(device.ran) == 2 * len(ran) - 1


@pytest.mark.parametrize(("faster", "form"), [(0.996, USUAL), (0.994, "plain")])
def test_a_difference_within_the_margin_leaves_the_usual_form(faster, form):
    device = Device({"plain": faster * 10e-6, USUAL: 10e-6})
    assert chosen.ceiling(device, 1000)[1].endswith(f"{form} ({FORMS[form].says})")


def test_the_median_decides_and_not_the_luckiest_sample():
    lucky = [1e-6, *[11e-6] * (chosen.TRIALS - 1)]
    assert chosen.fastest({USUAL: [10e-6] * chosen.TRIALS, "plain": lucky}) == USUAL


def test_the_forms_take_turns():
    device = Device({USUAL: 1e-5, "plain": 1e-5})
    taken = chosen.trial(device, device.copies(1000))
    assert device.ran == [USUAL, "plain"] * chosen.TRIALS
    assert {form: len(samples) for form, samples in taken.items()} == {USUAL: chosen.TRIALS, "plain": chosen.TRIALS}


def test_a_form_that_copies_nothing_or_wrongly_or_raises_is_left_out():
    seconds = {USUAL: 10e-6, "plain": 1e-6, "bulk_2k": 1e-6, "bulk_4k": 1e-6}
    device = Device(seconds, digests={"plain": 41, "bulk_2k": -1}, raises=("bulk_4k",))
    _, note = chosen.ceiling(device, 1000)
    assert note.startswith(f"the fastest of 1 copies in a trial: {USUAL} ")


def test_where_no_form_copies_there_is_no_ceiling():
    for device in (Device({USUAL: 1e-6}, digests={USUAL: 0}), Cpu()):
        assert chosen.ceiling(device, 1000) is None


def test_a_lost_device_is_not_taken_for_a_form_that_fails():
    with pytest.raises(RuntimeError, match="no such kernel"):
        chosen.ceiling(Device({USUAL: 1e-6}, raises=(USUAL,), lost=True), 1000)


def test_the_script_prints_each_form_beside_the_usual_one():
    taken = {form: [[s * (1 + i / 1000)] for i in range(20)] for form, s in ((USUAL, 2e-4), ("other", 1e-4))}
    heading, _, first, second = copies.table("large", 10**8, taken, 3.35e12)
    assert heading == "large: 100.0 MB"
    assert first.split()[0] == "other" and "2.0" in first.split("%")[-1]
    assert second.endswith("1.000)")
