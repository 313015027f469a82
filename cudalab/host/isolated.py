"""A compiled `.cu` that runs in another process, so that it neither changes nor ends the one that judges it.

The launches of a variant run in one process, its executor, where what one leaves may spoil the next. It gets the inputs
and the poisoned outputs in shared memory, and never what the reference says. Its replies can make a variant fail, and
cannot make it right.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cudalab.base import errors
from cudalab.base.errors import CudalabError, LaunchError, OverrunError
from cudalab.host import processes
from cudalab.host.compiler import Built
from cudalab.host.executor import Order, Reply
from cudalab.host.gxx import place_of
from cudalab.host.launch_rules import Order as Turns
from cudalab.host.launch_rules import Triple
from cudalab.host.lent import Loans
from cudalab.host.module import CODE, FAR_ACCESSES, Ends, LastAccess


class Isolated:
    """Like `Module`, in an executor."""

    def __init__(self, built: Built, workers: int = 0, reach: int = 0) -> None:
        self._built, self._workers, self._reach = built, workers, reach
        self.remarks: dict[str, str] = {}
        self.undefined_reads: dict[int, str] = {}

    def launch(
        self, entry: str, grid: Triple, block: Triple, args: Sequence[object], shared: int = 0,
        order: Turns = "alternating", cooperative: bool = False, cluster: Sequence[int] | None = None, probe: int = 0,
        limit: float = math.inf,
    ) -> None:  # fmt: skip
        """Do what `Module.launch` does. Raises what it raises, and Crash where the executor ends meanwhile."""
        named = {
            "entry": entry, "grid": grid, "block": block, "shared": shared, "order": order, "cooperative": cooperative,
            "cluster": cluster, "probe": probe, "limit": limit,
        }  # fmt: skip
        try:
            reply = self._ask("launch", named, args)
        except processes.Crash as crash:
            if not self._reach or crash.last is None or not crash.last.code:
                raise
            raise OverrunError(self._stray(entry, block, crash.last)) from None
        self.remarks |= {name: said for name, said in reply.remarks.items() if name not in self.remarks}
        self.undefined_reads = reply.undefined_reads

    def _stray(self, entry: str, block: Triple, last: LastAccess) -> str:
        """What is wrong with the access that ended an executor."""
        (x, y, _), thread = block, last.thread
        at = thread % x, thread // x % y, thread // (x * y)
        what = f"{'writes' if last.writes else 'reads'} {last.bytes} bytes"
        where = f"at {self.place(last.code)}"
        if last.allowed:  # not every access to a struct is looked at
            what, where = "reads or writes", f"{where} or after it"
        whose = "at a null pointer" if last.address < mmap.PAGESIZE else "far outside all arrays"
        return (
            f"{entry}: {what} {whose} {where}: block ({','.join(map(str, last.block))}), "
            f"thread ({','.join(map(str, at))})"
        )

    def launch_ends(
        self, entry: str, grid: Triple, block: Triple, args: Sequence[object], shared: int, ends: int,
        accesses: int = FAR_ACCESSES,
    ) -> Ends | None:  # fmt: skip
        """Do what `Module.launch_ends` does. Raises what it raises, and Crash where the executor ends meanwhile."""
        named = {"entry": entry, "grid": grid, "block": block, "shared": shared, "ends": ends, "accesses": accesses}
        if (found := self._ask("launch_ends", named, args).ends) is None:
            return None
        at = {i: one.ctypes.data for i, one in enumerate(args) if isinstance(one, np.ndarray)}
        return Ends(
            {at[i]: end for i, end in found[0].items() if i in at},
            [(code, at[i], end) for code, i, end in found[1] if i in at],
        )

    def set_constant(self, name: str, value: np.ndarray) -> None:
        """Do what `Module.set_constant` does, for this executor. Raises what it raises."""
        self._ask("set_constant", {"name": name, "value": np.array(value)})

    def place(self, code: int) -> str:
        """Return file and line of an instruction, by its address in the module."""
        return place_of(self._built.library, code)

    def _ask(self, method: str, named: Mapping[str, Any], args: Sequence[object] | None = None) -> Reply:
        with processes.lock:
            loans = Loans()
            packed = None if args is None else [loans.packed(one) for one in args]
            order = Order(self._built, self._workers, self._reach, method, dict(named), packed)
            loans.fill()
            reply = processes.ask(order, loans.regions)
            loans.empty(reply.used)
        if reply.kind:
            kind = getattr(errors, reply.kind, LaunchError)
            text = CODE.sub(lambda code: self.place(int(code[1], 16)), reply.text)
            raise (kind if isinstance(kind, type) and issubclass(kind, CudalabError) else LaunchError)(text)
        return reply
