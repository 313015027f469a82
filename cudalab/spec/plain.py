"""Whether the records of a spec are the lab's own: a class of the spec's could judge and launch in its own way."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import cached_property
from inspect import getattr_static
from typing import Any

from cudalab.base.errors import short
from cudalab.spec.array import In, Out, Scalar, Work
from cudalab.spec.budget import Budget
from cudalab.spec.kernel import Kernel

NESTED = (Budget, In, Out, Scalar, Work)


def wrong(kernel: Kernel) -> str:
    """What is not as the lab made it of a kernel and of the records in its fields, and what to write; "" if all is."""
    for where, record in _records(kernel):
        if not isinstance(record, (Kernel, *NESTED)):
            return f"{where}{short(record)} is no Budget; give one such as Budget(4, why='...')"
        of = type(record)
        home = sys.modules.get(of.__module__)
        if not of.__module__.startswith("cudalab.") or getattr(home, of.__name__, None) is not of:
            base = next(one.__name__ for one in (Kernel, *NESTED) if isinstance(record, one))
            return f"{where}{of.__name__} is a subclass of {base}; give a plain {base}"
        if hidden := next(_hidden(record), ""):
            return f"{where}{of.__name__}.{hidden} was replaced; give a plain {of.__name__}"
    return ""


def _records(kernel: Kernel) -> Iterator[tuple[str, Any]]:
    """The kernel and the records in its fields, each with where it stands."""
    yield "", kernel
    for name in ("budgets", "peers", "composed"):
        yield from ((f"{name}: ", budget) for budget in getattr(kernel, name).values())
    for name in ("inputs", "outputs", "scalars", "workspace"):
        value = getattr(kernel, name)
        for record in value.values() if isinstance(value, Mapping) else ():
            yield f"{name}: ", record
            if isinstance(record, Out) and record.budgets is not None:
                own = record.budgets.values() if isinstance(record.budgets, Mapping) else [record.budgets]
                yield from ((f"{name}: budgets: ", budget) for budget in own)


def _hidden(record: Any) -> Iterator[str]:
    """The attributes of a record that hide a method or a property of its class."""
    known = {one.name for one in fields(record)}
    for name in vars(record).keys() - known:
        value = getattr_static(type(record), name, None)
        if value is not None and not isinstance(value, cached_property):
            yield name
