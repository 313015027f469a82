"""The rows of a group of arrays beyond 2^31 elements, whose indices are looked at and whose results are not."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from cudalab import host
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


def rows(job: Job, group: Group, variants: Iterable[Variant]) -> list[Case]:
    beyond: dict[int, dict[str, Shape]] = {}
    why = ""
    try:
        for limit in huge.LIMITS:
            beyond[limit] = huge.shapes(group.kernel, group.dtype, limit)
    except huge.Refused as reason:
        why = str(reason)
    return [_row(job, group, variant, beyond, why) for variant in variants]


def _row(job: Job, group: Group, variant: Variant, beyond: dict[int, dict[str, Shape]], why: str) -> Case:
    job.at(Step(str(group), "first and last blocks", variant.label))
    if variant.backend_name != "host":
        return skipped(group, variant.label, "huge arrays are checked only on the CPU: add --device cpu")
    case = row(group, variant.label)
    case.status, case.parity = record.OK, Parity(ok=True)
    try:
        if why:
            raise huge.Refused(why)
        for wrong in huge.fault(partial(_module, group), group.kernel, variant.name, group.dtype, beyond):
            if wrong:
                case.status, case.reason, case.parity = record.WRONG, wrong, Parity(ok=False, message=wrong)
        whole = [name for name, kind in group.kernel.input_kinds(group.dtype).items() if kind.kind in "iu"]
        if whole and case.status == record.OK:
            case.notes.append(f"huge arrays hold zeros, so every index in {' and '.join(whole)} is 0")
    except huge.Refused as reason:
        case.notes.append(f"no huge arrays: {reason}")
    except Unavailable as reason:
        return skipped(group, variant.label, str(reason))
    except Exception as error:  # the spec's own
        return failed(group, variant.label, said(error, group))
    return case


def _module(group: Group, launched: tuple[str, ...]) -> host.Module:
    """The module that looks at each access; Unavailable where there is none."""
    if (found := backend.watched_module(group.kernel, group.dtype, launched)) is None:
        raise Unavailable("huge arrays need g++ and a .cu that it compiles with -fsanitize=thread")
    return found
