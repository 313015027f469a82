"""Basic blocks of machine code, and where the two sides of a branch meet again."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property

from cudalab.tools.inspect.sass import Code

_ENDS = {"EXIT", "RET", "KILL", "BPT"}
_LEADS = {"BRA", "JMP", "CALL"}


class BasicBlocks:
    """The control flow of a function. A place is the index of an instruction; a block is named by its first place."""

    def __init__(self, code: Code) -> None:
        self.code = code

    @cached_property
    def following(self) -> list[tuple[int, ...]]:
        """For each place, the places that may come next; none where the thread ends."""
        return [self._next(i) for i in range(len(self.code.instructions))]

    def _next(self, i: int) -> tuple[int, ...]:
        instruction = self.code.instructions[i]
        always = not instruction.guard and not any("P" in text and "`" not in text for text in instruction.operands)
        after = (i + 1,) if i + 1 < len(self.code.instructions) else ()
        if instruction.root in _ENDS:  # under a predicate the thread may go on
            return () if always else after
        if instruction.root in _LEADS and instruction.target in self.code.index:
            target = self.code.index[instruction.target]
            if "DIV" in instruction.parts or (instruction.root == "CALL" and always):  # a call returns
                return after
            return (target,) if always else (*after, target)
        return after

    @cached_property
    def leaders(self) -> list[int]:
        """First places of the blocks, in order."""
        found = {0}
        for i, nexts in enumerate(self.following):
            if nexts != (i + 1,):
                found.update(nexts)
                found.add(i + 1)
        return sorted(place for place in found if place < len(self.code.instructions))

    def _after_blocks(self) -> dict[int, tuple[int, ...]]:
        """For each block, the blocks that may come next; none for loops that never end, such as the padding's.

        A block whose thread may end under a predicate goes on, except in a loop that has no other end.
        """
        starts = set(self.leaders)
        after: dict[int, tuple[int, ...]] = {}
        guarded: set[int] = set()  # blocks with an end under a predicate
        for leader in self.leaders:
            place = leader
            while self.following[place] == (place + 1,) and place + 1 not in starts:
                guarded |= {leader} if self.code.instructions[place].root in _ENDS else set()
                place += 1
            guarded |= {leader} if self.code.instructions[place].root in _ENDS else set()
            after[leader] = self.following[place]
        ending = _before({leader for leader, nexts in after.items() if not nexts}, after)
        after |= dict.fromkeys(guarded - ending, ())
        ending = _before(ending | guarded, after)
        return {leader: nexts if leader in ending else () for leader, nexts in after.items()}

    @cached_property
    def _postdominators(self) -> dict[int, set[int]]:
        """For each block, the blocks that every way from it to an end passes (the textbook's iteration)."""
        after = self._after_blocks()
        found = {leader: set(self.leaders) if after[leader] else {leader} for leader in self.leaders}
        changed = True
        while changed:
            changed = False
            for leader in reversed(self.leaders):
                if after[leader]:
                    new = {leader} | set.intersection(*(found[n] for n in after[leader]))
                    changed |= new != found[leader]
                    found[leader] = new
        return found

    def meeting(self, branch: int) -> int | None:
        """The place where both sides of a branch meet, or None if they have only the thread's end in common."""
        sides = self.following[branch]
        common = set.intersection(*(self._postdominators[side] for side in sides)) if sides else set()
        return max(common, key=lambda place: len(self._postdominators[place]), default=None)

    def inevitable(self, first: int, place: int) -> bool:
        """Whether every way from `first` to an end passes `place`; both are the first places of blocks."""
        return place in self._postdominators[first]

    def repeats(self, place: int, without: int) -> bool:
        """Whether `place` is in a loop that does not pass `without`."""
        seen = {without}
        waiting = [*self.following[place]]
        while waiting:
            reached = waiting.pop()
            if reached == place:
                return True
            if reached not in seen:
                seen.add(reached)
                waiting += self.following[reached]
        return False

    def end(self, first: int, barred: Collection[int]) -> bool:
        """Whether the thread can end somewhere on a way from `first` that passes no place of `barred`."""
        seen = set(barred)
        waiting = [first]
        while waiting:
            place = waiting.pop()
            if place in seen or place >= len(self.following):
                continue
            if self.code.instructions[place].root in _ENDS:
                return True
            seen.add(place)
            waiting += self.following[place]
        return False

    def slow(self, first: int, stop: int | None) -> str:
        """Why the side of a branch from `first` to `stop` is a slow path; "" if it is none.

        A slow path calls a helper function of the compiler, or traps, on each way through it.
        """
        why = ""
        seen: set[int] = set()
        waiting = [first]
        while waiting:
            place = waiting.pop()
            if place == stop:
                return ""
            if place in seen:
                continue
            seen.add(place)
            instruction = self.code.instructions[place]
            if instruction.root == "CALL":
                why = why or f"it calls {instruction.operands[-1].strip('`()').rpartition('$__cuda_')[2]}"
            elif instruction.root == "BPT":
                why = why or "it traps"
            elif instruction.root in _ENDS and not self.following[place]:
                return ""
            else:
                waiting += self.following[place]
        return why


def _before(ends: set[int], after: Mapping[int, tuple[int, ...]]) -> set[int]:
    """The blocks from which one of `ends` can be reached, and these."""
    found = set(ends)
    while more := {leader for leader, nexts in after.items() if leader not in found and found & {*nexts}}:
        found |= more
    return found
