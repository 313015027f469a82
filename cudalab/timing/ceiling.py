"""The ceiling: the fastest copy of a case's bytes, chosen by a short trial.

Every form of `cudalab.device.copy` runs a few times, cold and in turns, and the one with the lowest median is taken.
Its time in the table comes from the rounds, as every other time: the trial's own samples are not used, so the choice
does not make the printed time too small. A form that raises, or whose copy is not the original, is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast
from weakref import WeakKeyDictionary

from cudalab.base import stats
from cudalab.device.copy import FORMS, USUAL
from cudalab.device.operands import Bound
from cudalab.device.protocol import Device

if TYPE_CHECKING:
    from cudalab.device.gpu import Gpu

TRIALS = 7  # samples of each form
MARGIN = 0.005  # the usual form is taken unless another one is faster by more: nearly equal forms do not alternate

_chosen: WeakKeyDictionary[Device, dict[int, tuple[str, int]]] = WeakKeyDictionary()  # by device and bytes


def ceiling(device: Device, nbytes: int) -> tuple[Bound, str] | None:
    """The fastest copy of `nbytes`, half read and half written, and a note on its form; None where none is measured.

    The trial is made once for a number of bytes, and kept as long as the device.
    """
    found = device.copies(nbytes)
    known = _chosen.setdefault(device, {})
    if nbytes not in known:
        right = {form: bound for form, bound in found.items() if copies(device, bound)}
        if not right:
            return None
        known[nbytes] = fastest(trial(cast("Gpu", device), right)), len(right)
    form, tried = known[nbytes]
    return found[form], f"the fastest of {tried} copies in a trial: {form} ({FORMS[form].says})"


def copies(device: Device, bound: Bound) -> bool:
    """Whether a run leaves what was to be copied. Raises what is raised by a device that is lost."""
    assert bound.on
    (origin,) = bound.on.inputs.values()
    want = device.fingerprint(origin)
    device.poison(bound.output())
    try:
        bound.run()
        return device.fingerprint(bound.output()) == want
    except Exception:  # the driver's, of a form that this GPU does not have
        if not device.alive():
            raise
        return False


def trial(device: Gpu, bounds: Mapping[str, Bound]) -> dict[str, list[float]]:
    """Seconds of TRIALS cold runs of each form. The forms take turns, so that a drift affects all of them alike."""
    from cudalab.timing.gpu import timer_of
    from cudalab.timing.work import Unproven

    timer = timer_of(device)
    taken: dict[str, list[float]] = {form: [] for form in bounds}
    for _ in range(TRIALS):
        for form, bound in bounds.items():
            taken[form] += timer.cold(Unproven(bound.run), 1, timer.blocking)
    return taken


def fastest(taken: Mapping[str, Sequence[float]]) -> str:
    """The form with the lowest median; the usual one if no other is faster by more than MARGIN."""
    medians = {form: stats.median([list(samples)]) for form, samples in taken.items()}
    best = min(medians, key=lambda form: medians[form])
    return USUAL if USUAL in medians and medians[USUAL] * (1 - MARGIN) <= medians[best] else best
