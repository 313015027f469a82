"""Basic blocks of machine code, and where the two sides of a branch meet again."""

from __future__ import annotations

from functools import cached_property

from cudalab.tools.inspect.sass import Code

_ENDS = {"EXIT", "RET", "KILL", "BPT"}
_LEADS = {"BRA", "JMP", "CALL"}


class Blocks:
    """The places (indices of instructions) at which control may go, and the block that each begins."""

    def __init__(self, code: Code) -> None:
        self.code = code

    @cached_property
    def following(self) -> list[tuple[int, ...]]:
        """For each place those that may come next; none where the thread ends."""
        return [self._next(i) for i in range(len(self.code.instructions))]

    def _next(self, i: int) -> tuple[int, ...]:
        instruction = self.code.instructions[i]
        always = not instruction.guard and not any("P" in text and "`" not in text for text in instruction.operands)
        after = (i + 1,) if i + 1 < len(self.code.instructions) else ()
        if instruction.root in _ENDS:  # one under a predicate is taken to go on, as the walk does
            return () if always else after
        if instruction.root in _LEADS and instruction.target in self.code.index:
            target = self.code.index[instruction.target]
            if "DIV" in instruction.parts or (instruction.root == "CALL" and always):  # what is called comes back
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

    def _after(self, leader: int) -> tuple[int, ...]:
        place = leader
        while self.following[place] == (place + 1,) and place + 1 not in self._starts:
            place += 1
        return self.following[place]

    @cached_property
    def _starts(self) -> set[int]:
        return set(self.leaders)

    @cached_property
    def _postdominators(self) -> dict[int, set[int]]:
        """For each block those through which every way from it to an end leads (the textbook's iteration)."""
        every = set(self.leaders)
        after = {leader: self._after(leader) for leader in self.leaders}
        ending = self._ending(after)
        after = {leader: nexts if leader in ending else () for leader, nexts in after.items()}
        found = {leader: set(every) if after[leader] else {leader} for leader in self.leaders}
        changed = True
        while changed:
            changed = False
            for leader in reversed(self.leaders):
                if after[leader]:
                    new = {leader} | set.intersection(*(found[n] for n in after[leader]))
                    changed |= new != found[leader]
                    found[leader] = new
        return found

    def _ending(self, after: dict[int, tuple[int, ...]]) -> set[int]:
        """Blocks from which an end can be reached; the others are loops without one, such as the padding's."""
        found = {leader for leader, nexts in after.items() if not nexts}
        grown = True
        while grown:
            more = {leader for leader, nexts in after.items() if leader not in found and found & {*nexts}}
            found |= more
            grown = bool(more)
        return found

    def meeting(self, branch: int) -> int | None:
        """The place at which both sides of a branch meet, or None if only the thread's end is common to them."""
        sides = self.following[branch]
        common = set.intersection(*(self._postdominators[side] for side in sides)) if sides else set()
        return max(common, key=lambda place: len(self._postdominators[place]), default=None)

    def slow(self, first: int, stop: int | None) -> str:
        """Why the side of a branch that begins at `first` and ends at `stop` is a slow path; "" if it is none.

        It is one if each way through it calls a helper function of the compiler, or traps.
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
