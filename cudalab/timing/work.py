"""What a clock times: a run, a batch, the replay of a graph. Each prepares its samples and verifies their results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Protocol

from cudalab.base.errors import LaunchError
from cudalab.device.arrays import as_plain, span
from cudalab.device.gpu import Gpu
from cudalab.device.operands import Bound, Operands, Written, pieces
from cudalab.timing.proof import Proof

SHARE = 4  # the outputs of a batch take at most this part of the free memory


class Work(Protocol):
    """A piece of work between two events. `run` enqueues it, `runs` is how many runs of the variant it has."""

    runs: int

    def before(self) -> None:
        """Enqueue what the clock must not see: new contents, poisoned outputs."""

    def touch(self) -> object:
        """Enqueue a run that is not timed, after which the inputs are in L2 as far as they fit."""

    def run(self) -> object: ...

    def verify(self) -> None:
        """Wait, and raise where a result is wrong."""


class Unproven:
    """Runs of a variant whose result nobody judges here: a study's work, an empty kernel."""

    def __init__(
        self, run: Callable[[], object], runs: int = 1, make_new: Callable[[], object] = lambda: None
    ) -> None:  # fmt: skip
        self.runs = runs
        self._once, self._make_new = run, make_new

    def before(self) -> None:
        self._make_new()

    def touch(self) -> None:
        self._once()
        self._make_new()

    def run(self) -> None:
        for _ in range(self.runs):
            self._once()

    def repeat(self) -> None:
        self.run()

    def verify(self) -> None: ...


class _Proven:
    """Runs whose results are verified. `_results` are those of the last sample, `contents` what they came from."""

    def __init__(self, device: Gpu, proof: Proof, runs: int) -> None:
        self.runs, self._device, self._proof = runs, device, proof
        self._results: list[Any] = []
        self._operands: Sequence[Operands] = ()  # of the runs, where they have outputs of their own
        self.contents = 0
        self.met: list[int] = []  # the contents of each sample

    def before(self) -> None:
        self._device.renew(self._results, self._proof.contents.word())
        self.contents = self._proof.change()
        for operands in self._operands:
            self._proof.load_in_place(self.contents, operands)

    def touch(self) -> object:
        return None

    def verify(self) -> None:
        self.met.append(self.contents)
        for result, digest in zip(self._results, self._device.digests(self._results), strict=True):
            self._proof.judge(self.contents, result, digest, self)


class Batch(_Proven):
    """Runs of a variant that writes into arrays, in an order drawn anew: each has an output of its own."""

    def __init__(self, device: Gpu, bound: Bound, proof: Proof, runs: int) -> None:
        bounds = own_outputs(device, bound, runs) if runs > 1 or spent(bound) else [bound]
        super().__init__(device, proof, len(bounds))
        self.touch = repeatable(device, bound)  # type: ignore[method-assign]
        self._operands = [each.on for each in bounds if each.on]
        self._enqueue = [each.run for each in bounds]
        self._results = list({id(each): each.output() for each in bounds}.values())

    def before(self) -> None:
        super().before()
        self._proof.contents.rng.shuffle(self._enqueue)

    def run(self) -> None:
        for enqueue in self._enqueue:
            enqueue()

    def repeat(self) -> None:
        """Enqueue the runs again: they write the same results to the same outputs."""
        self.run()


class SharedResult(LaunchError):
    """Results of several calls lie in the same memory."""


class Returning(_Proven):
    """Calls of a library that returns its results. All of a sample are kept, so that no call gets an earlier one's
    memory. Once they are verified they are poisoned and let go: the results of later samples, of this variant and of
    others, take their place. Raises SharedResult for a call that returns an earlier result's memory all the same: it
    may have found its answer there.
    """

    def __init__(self, device: Gpu, call: Callable[[], Any], proof: Proof, runs: int) -> None:
        super().__init__(device, proof, runs)
        self._call = call
        self._results = [call() for _ in range(runs + 1)]
        if runs > 1:
            apart(self._results)
        self._let_go()

    def before(self) -> None:
        super().before()
        self._results.clear()  # of a sample that failed before it was verified

    def touch(self) -> None:
        self._results.append(self._call())

    def run(self) -> None:
        call = self._call
        self._results += [call() for _ in range(self.runs)]

    def repeat(self) -> None:
        """Enqueue the calls and let go of their results, whose memory the next ones take; `run` follows the last."""
        self.run()
        self._results.clear()

    def verify(self) -> None:
        try:
            apart(self._results)
            super().verify()
        finally:
            self._let_go()

    def _let_go(self) -> None:
        """Poison the results and free them, so that the variants of a group share this memory."""
        self._device.renew(self._results, self._proof.contents.word())
        self._results.clear()


class FreshCode(_Proven):
    """One run of newly loaded code, which has met other contents only: its `__device__` variables hold no answer."""

    def __init__(self, device: Gpu, bound: Bound, proof: Proof) -> None:
        super().__init__(device, proof, 1)
        assert bound.fresh
        self._load, self.run = bound.fresh, bound.run

    def before(self) -> None:
        proof, bound = self._proof, self._load()
        warm = proof.known()
        repeatable(self._device, bound)()  # brings its instructions near
        self._results, self.run = [bound.output()], bound.run
        self._operands = [bound.on] if bound.on else []
        super().before()
        while proof.due is None and proof.contents.count > 1 and self.contents == warm:
            self.contents = proof.change()
            for operands in self._operands:
                proof.load_in_place(self.contents, operands)


class Replay(_Proven):
    """The replay of a graph whose runs share their inputs. `results` are its outputs, at fixed places."""

    def __init__(
        self, device: Gpu, replay: Callable[[], object], runs: int, results: Sequence[Any], touch: Callable[[], object],
        proof: Proof, operands: Sequence[Operands] = (),
    ) -> None:  # fmt: skip
        super().__init__(device, proof, runs)
        self._operands = operands
        self.run, self.touch, self._results = replay, touch, list(results)  # type: ignore[method-assign]


class RotatingReplay(_Proven):
    """The replay of a graph whose runs have inputs of their own, with contents that differ."""

    def __init__(
        self, device: Gpu, replay: Callable[[], object], runs: int, results: Sequence[Any],
        operands: Sequence[Operands], proof: Proof,
    ) -> None:  # fmt: skip
        super().__init__(device, proof, runs)
        self.run, self._results, self._operands = replay, list(results), operands
        self._loaded: list[int] = []

    def before(self) -> None:
        self._device.renew(self._results, self._proof.contents.word())
        self._loaded = [self._proof.change(operands) for operands in self._operands]

    def verify(self) -> None:
        digests = self._device.digests(self._results)
        for contents, result, digest in zip(self._loaded, self._results, digests, strict=True):
            self._proof.judge(contents, result, digest, self)


Repeated = Unproven | Batch | Returning  # what a load can repeat


def apart(results: list[Any]) -> list[Any]:
    """These results of several runs. Raises SharedResult where two of them share memory."""
    spans = sorted(span(piece) for result in results for piece in pieces(result) if as_plain(piece).nbytes)
    if any(start < end for (_, end), (start, _) in pairwise(spans)):
        raise SharedResult(
            "several calls return the same memory, where other variants write each result to memory of its own; "
            "return a new array, such as y.clone()"
        )
    return results


def own_outputs(device: Gpu, bound: Bound, runs: int) -> list[Bound]:
    """A variant on as many outputs as it has runs, or as fit into SHARE of the free memory, in turn.

    Where a run uses up what it finds, there are no more runs than outputs.
    """
    on = bound.on
    assert on and bound.again
    room = max(device.free_bytes // SHARE // max(on.output.nbytes, 1), 1)
    bounds = [bound.again(on.writing_to(output)) for output in device.outputs(on.output, min(runs, room))]
    return bounds if spent(bound) else (bounds * runs)[:runs]


def repeatable(device: Gpu, bound: Bound) -> Callable[[], object]:
    """A run of a variant that can be followed by another: what it uses up is made new before."""
    if not spent(bound):
        return bound.run

    def run() -> None:
        device.make_new([bound.on.output])  # type: ignore[union-attr]
        bound.run()

    return run


def spent(bound: Bound) -> bool:
    """Whether a run uses up what it finds in the arrays that it writes, so that the next one needs new contents."""
    return bound.on is not None and isinstance(bound.on.output, Written) and bound.on.output.spent
