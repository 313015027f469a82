"""What bounds the entries of a run on a GPU: predicted in a process beside the run.

The process has a low priority and works while the run loads libraries, compiles and checks; while times are taken it is
stopped. What fails there is a reason in place of a prediction, never an error of the run.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec

from cudalab.base import bounded, child
from cudalab.base.child import Child, Ended, Parent
from cudalab.base.errors import CompileError, CudalabError, Unavailable, message_of
from cudalab.engine import plan
from cudalab.engine.groups import Group
from cudalab.results.record import Case, Prediction
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Kernel
from cudalab.tools.inspect import cards, compilers
from cudalab.tools.inspect.compilers import Compiled, Compiler
from cudalab.tools.inspect.finding import Inspected, Whole, wholes
from cudalab.tools.inspect.steps import CARD, inspect

MAIN = "cudalab.tools.inspect.ahead.main"
NICE = 10  # added to the process's niceness: the run's own work goes first
WAIT = 20.0  # seconds that a finished run waits for all answers
LONGEST = 600  # characters of a reason: a compiler may say much


class Request(msgspec.Struct, frozen=True):
    """The kernels, sizes and dtypes of a run, as `bench` takes them; `seconds` that a function of a spec may take."""

    kernels: tuple[str, ...]
    sizes: str
    dtypes: str
    seconds: float


class Answer(msgspec.Struct, frozen=True):
    """A prediction for an entry of a kernel at a size and dtype; without `entry` it is that of all entries."""

    kernel: str
    size: str
    dtype: str
    prediction: Prediction
    entry: str = ""


class Ahead:
    """The process that predicts, and its answers. A context manager: at its end there is no process."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._started = False
        self._reason = ""  # why further predictions do not come
        self._child: Child[Answer] | None = None
        self._answers: list[Answer] = []

    def __enter__(self) -> Ahead:
        return self

    def __exit__(self, *_: object) -> None:
        if self._child:
            self._child.kill()

    def start(self, refused: str = "") -> None:
        """Start the process, where compiler and disassembler are installed. `refused`: why it is not to start."""
        self._started = True
        self._reason = refused or compilers.missing()
        if not self._reason:
            self._child = Child(MAIN, answers=Answer)
            self._child.send(self._request)

    def look(self) -> None:
        """Take the answers that are there, so that the process does not wait for room in its pipe."""
        if self._child and not self._child.ended:
            try:
                self._answers += self._child.poll()
            except Ended as ended:
                self._reason = _why(ended)

    def paused(self) -> AbstractContextManager[None]:
        """Let the process do nothing until the end of this context: times are taken there."""
        return self._child.paused() if self._child else contextlib.nullcontext()

    def add_to(self, cases: Iterable[Case]) -> None:
        """Give each entry its prediction, or the reason why it has none. Waits for the process, WAIT seconds in all.

        Without `start` nothing changes: a complete run that is resumed keeps its predictions. An entry that has one
        gets no reason in its place.
        """
        entries = [case for case in cases if case.backend == "host" and not case.old]
        if not self._started or not entries:
            return
        deadline = monotonic() + WAIT
        while self._child and not self._child.ended:
            try:
                self._answers.append(self._child.receive(max(deadline - monotonic(), 0.0)))
            except Ended as ended:
                self._reason = _why(ended)
        found = {(one.kernel, one.size, one.dtype, one.entry): one.prediction for one in self._answers}
        for case in entries:
            one = found.get((*case.group, case.variant)) or found.get((*case.group, ""))
            one = one or Prediction(reason=self._reason)
            if one.least is not None or case.predicted is None or case.predicted.least is None:
                case.predicted = one


def _why(ended: Ended) -> str:
    """Why a process that has ended gives no more predictions."""
    if ended.hung:
        return "it takes too long here; `cudalab inspect` waits for it"
    words = child.last(ended.said)
    return f"the process that predicts {ended.how}{'; its last output: ' if words else ''}{words}"


CHOSEN = "the run chooses this size; `cudalab inspect` predicts for the shape that it names"


def main(parent: Parent) -> None:
    """Answer one request: a prediction for each entry."""
    os.nice(NICE)
    with contextlib.suppress(OSError):  # where memory runs out, this process goes, and none of the run's
        Path("/proc/self/oom_score_adj").write_text("1000")
    for request in parent.orders(Request):
        bounded.allow(request.seconds)
        for answer in predictions(request.kernels, request.sizes, request.dtypes, compilers.compiled):
            parent.answer(answer)
        return


def predictions(kernels: tuple[str, ...], sizes: str, dtypes: str, compiler: Compiler) -> Iterator[Answer]:
    """A prediction for each entry of these kernels at each size and dtype, or a reason for all entries there.

    A kernel is compiled once for each dtype. Where it does not compile its other sizes are not tried.
    """
    once, failed = _compiled_once(compiler), dict[tuple[str, str], Prediction]()
    for group in plan.groups(kernels, sizes, dtypes, fit=True):
        name, size, dtype = group.name, group.size, group.dtype.name
        if group.fit:
            yield Answer(name, size, dtype, Prediction(reason=CHOSEN))
            continue
        if (name, dtype) in failed:
            yield Answer(name, size, dtype, failed[name, dtype])
            continue
        try:
            for one in _by_entry(_inspected(group, once)):
                yield Answer(name, size, dtype, _prediction(one), _entry(one))
        except Exception as error:  # of a spec's function, or of machine code that inspection cannot follow
            said = str(error) if isinstance(error, CudalabError) else f"inspection failed: {message_of(error)}"
            reason = Prediction(reason=said if len(said) <= LONGEST else f"{said[:LONGEST]} ...")
            if isinstance(error, CompileError | Unavailable):
                failed[name, dtype] = reason
            yield Answer(name, size, dtype, reason)


def _inspected(group: Group, compiler: Compiler) -> list[Inspected]:
    """What inspection finds of the default card; for its own architecture where the usual one lacks an instruction."""
    given: dict[str, Any] = {"dtypes": group.dtype.name, "size": group.size, "compiled": compiler}
    try:
        return inspect(group.file, **given)
    except CompileError as error:
        try:
            return inspect(group.file, **given, card=CARD, archs=f"{cards.card(CARD).architecture}a")
        except CompileError:
            raise error from None


def _compiled_once(compiler: Compiler) -> Compiler:
    """`compiler`, which compiles a kernel once for all sizes."""
    made: dict[object, Compiled] = {}

    def compiled(kernel: Kernel, dtype: DType, architecture: str, launched: tuple[str, ...]) -> Compiled:
        key = kernel.file, dtype.name, architecture, launched, tuple(kernel.parameters.items())
        if key not in made:
            made[key] = compiler(kernel, dtype, architecture, launched)
        return made[key]

    return compiled


def _by_entry(found: list[Inspected]) -> list[Inspected | Whole]:
    """Return one finding for each entry: its only launch, or the sum of its launches."""
    return [one for one in wholes(found) if isinstance(one, Whole) or not one.step]


def _entry(one: Inspected | Whole) -> str:
    return one.launches[0].entry if isinstance(one, Whole) else one.entry


def _prediction(one: Inspected | Whole) -> Prediction:
    longest = one.longest if isinstance(one, Whole) else one
    if longest is None or longest.bounds is None or longest.card is None:
        return Prediction(reason="nothing is known of the card's rates")
    return Prediction(longest.card.name, longest.bounds.name, one.predicted)
