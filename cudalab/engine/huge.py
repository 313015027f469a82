"""The rows of a group of arrays beyond 2^31 elements, whose indices are looked at and whose results are not."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from cudalab.backends import host as backend
from cudalab.base.errors import Unavailable
from cudalab.checks import huge
from cudalab.engine.groups import Group, Variant
from cudalab.engine.job import Job
from cudalab.engine.messages import Step
from cudalab.engine.rows import failed, row, said, skipped
from cudalab.results import record
from cudalab.results.record import Case, Parity
from cudalab.spec.kernel import Shape

if TYPE_CHECKING:
    from cudalab.host.isolated import Isolated

Beyond = dict[int, dict[str, Shape]]  # by limit, the shape of each array


def rows(job: Job, group: Group, variants: Iterable[Variant]) -> list[Case]:
    beyond, refused = list[Beyond](), list[str]()
    for axis in huge.dimensions(group.kernel):
        try:
            beyond.append({limit: huge.shapes(group.kernel, group.dtype, limit, axis) for limit in huge.LIMITS})
        except huge.Refused as reason:
            refused.append(str(reason))
    return [_row(job, group, variant, beyond, refused) for variant in variants]


def _row(job: Job, group: Group, variant: Variant, beyond: list[Beyond], refused: list[str]) -> Case:
    """The row of a variant on arrays that each dimension in turn makes long; one that takes none of them says why."""
    job.at(Step(str(group), "first and last blocks", variant.label))
    if variant.backend_name != "host":
        return skipped(group, variant.label, "huge arrays are checked only on the CPU: add --device cpu")
    case = row(group, variant.label)
    case.status, case.parity = record.OK, Parity(ok=True)
    reasons, tried = list(refused), False
    try:
        for shapes in beyond:
            try:
                for wrong in huge.fault(partial(_module, group), group.kernel, variant.name, group.dtype, shapes):
                    tried = True
                    if wrong and case.status == record.OK:
                        case.status, case.reason, case.parity = record.WRONG, wrong, Parity(ok=False, message=wrong)
            except huge.Refused as reason:
                reasons.append(str(reason))
            if case.status != record.OK:
                break
    except Unavailable as reason:
        return skipped(group, variant.label, str(reason))
    except Exception as error:  # the spec's own
        return failed(group, variant.label, said(error, group))
    if not tried:
        return skipped(group, variant.label, f"no huge arrays: {'; '.join(dict.fromkeys(reasons))}")
    last = {name for shapes in beyond for found in shapes.values() for name in huge.last_indices(group.kernel, found)}
    kinds = group.kernel.input_kinds(group.dtype)
    whole = [name for name, kind in kinds.items() if kind.kind in "iu" and name not in last]
    if whole and case.status == record.OK:
        case.notes.append(
            f"huge arrays hold zeros, so every index in {' and '.join(whole)} is 0; "
            f"inputs={{'{whole[0]}': In('{kinds[whole[0]].name}', 0, 'rows')}} says what the last one is"
        )
    return case


def _module(group: Group, launched: tuple[str, ...]) -> Isolated:
    """The module that looks at each access; Unavailable where there is none."""
    if (found := backend.watched_module(group.kernel, group.dtype, launched)) is None:
        raise Unavailable("huge arrays need g++ and a .cu that it compiles with -fsanitize=thread")
    return found
