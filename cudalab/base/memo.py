"""Results of methods that are computed once while nothing changes.

A run is a plain record that may be changed at any time, so its methods compute everything anew. What reads a whole run,
such as a table, says for how long the run stays as it is: `with unchanged(): ...`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, TypeVar

T = TypeVar("T", bound=Callable[..., Any])

_found: ContextVar[dict[Any, tuple[object, Any]] | None] = ContextVar("found", default=None)


@contextmanager
def unchanged() -> Iterator[None]:
    """While the block runs, a method marked `kept` is computed once for each object and arguments.

    Only for this thread, and only for blocks that change no object with such methods.
    """
    if _found.get() is not None:
        yield
        return
    token = _found.set({})
    try:
        yield
    finally:
        _found.reset(token)


def kept(method: T) -> T:
    """Mark a method whose result depends on its object and arguments alone; arguments are hashable or kept objects."""

    @wraps(method)
    def call(self: object, *given: Any) -> Any:
        found = _found.get()
        if found is None:
            return method(self, *given)
        key = (method, id(self), *(value if isinstance(value, (str, float, tuple)) else id(value) for value in given))
        if key not in found:  # the objects are kept too, so that no other one gets their id
            found[key] = ((self, given), method(self, *given))
        return found[key][1]

    return call  # type: ignore[return-value]


def unchanging(function: T) -> T:
    """Mark a function that runs as a block of `unchanged`."""

    @wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        with unchanged():
            return function(*given, **named)

    return call  # type: ignore[return-value]
