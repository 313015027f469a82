"""Which instructions a thread of a launch executes, and how often.

One thread is followed through the machine code: the middle one of the block in the middle of the grid, which is no
tail. The launch decides most branches: bounds, alignment, loops over sizes. What depends on data is unknown, and then:
lanes of a warp disagree, so both sides are counted; a side that calls a helper of the compiler (the slow path of a
division, say) or traps is left out; a loop is counted once. Everything assumed is in `Path.notes`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from cudalab.base.errors import InputError
from cudalab.tools.inspect.blocks import Blocks
from cudalab.tools.inspect.sass import Code, Instruction
from cudalab.tools.inspect.values import State, execute

MOST = 1_000_000  # instructions of one thread that are followed; about ten seconds


@dataclass
class Path:
    """Executions by address, those of them that surely did nothing, and what had to be assumed."""

    counts: Counter[int] = field(default_factory=Counter)
    idle: Counter[int] = field(default_factory=Counter)  # with a predicate that is false: issued, without effect
    notes: dict[str, None] = field(default_factory=dict)  # in the order of appearance, each once

    def note(self, text: str) -> None:
        self.notes[text] = None


def follow(code: Code, state: State) -> Path:
    """The path of the thread whose launch `state` describes. Raises InputError if it is too long to follow."""
    walk = _Walk(code)
    walk.run(0, None, state)
    return walk.path


class _Walk:
    def __init__(self, code: Code) -> None:
        self.code, self.path = code, Path()
        self.blocks = Blocks(code)
        self.steps = 0
        self.undecided: list[int] = []  # branches on data whose sides are being followed, outermost first
        self.returns: list[int] = []  # places after the calls that are being followed
        self.counted: list[set[int]] = []  # places that one side of a branch has had, where its sides never surely meet

    def run(self, place: int | None, stop: int | None, state: State) -> State:
        """Follow the code from one place in it to another (None: to the end)."""
        instructions = self.code.instructions
        while place is not None and place != stop and place < len(instructions):
            if any(place in places for places in self.counted):
                break
            instruction = instructions[place]
            self.steps += 1
            if self.steps > MOST:
                said = f"a thread of {self.code.name} executes over {MOST:,} instructions"
                raise InputError(f"{said}; give a smaller --size, or others by --only")
            self.path.counts[instruction.address] += 1
            if instruction.guard and state.truth(instruction.guard) is False:
                self.path.idle[instruction.address] += 1
            if instruction.root in _CONTROL:
                place = self.turn(place, instruction, state)
            else:
                execute(state, instruction)
                place += 1
        return state

    def turn(self, place: int, instruction: Instruction, state: State) -> int | None:
        """The place after an instruction that may lead elsewhere."""
        taken = self.condition(instruction, state)
        root = instruction.root
        if root in ("BSYNC", "BSSY", "WARPSYNC") or taken is False:
            return place + 1
        if root == "EXIT":
            if taken is None:
                self.path.note(f"{_where(instruction)}: whether the thread ends here depends on data; it goes on")
                return place + 1
            return None
        if root == "RET":
            return self.returns.pop() if self.returns else None
        if root in ("BPT", "KILL"):
            return None if taken else place + 1
        target = None if instruction.target is None else self.code.index.get(instruction.target)
        if root == "CALL":
            return self.call(place, target, instruction)
        if "DIV" in instruction.parts:  # for a warp whose lanes have parted: what follows is the usual way
            return place + 1
        if target is None:
            self.path.note(
                f"{_where(instruction)}: where {instruction.root} leads is not known; nothing after it is counted"
            )
            return None
        if taken:
            return target
        return self.both(place, target, state)

    def condition(self, instruction: Instruction, state: State) -> bool | None:
        """Whether a branch is taken: its guard and the predicates among its operands."""
        truths = [state.truth(instruction.guard)]
        truths += [state.truth(text) for text in instruction.operands if text.lstrip("!U").startswith("P")]
        return False if False in truths else None if None in truths else True

    def call(self, place: int, target: int | None, instruction: Instruction) -> int:
        if target is None:
            self.path.note(f"{_where(instruction)}: what is called is not in this code, and is not counted")
            return place + 1
        self.returns.append(place + 1)
        return target

    def both(self, place: int, target: int, state: State) -> int | None:
        """A branch on data: count its sides until they meet, and go on there."""
        instruction = self.code.instructions[place]
        if target <= place:
            self.path.note(f"{_where(instruction)}: how often this loop runs depends on data; one round is counted")
            for inside in self.code.instructions[target:place]:
                state.forget(inside)
            return place + 1
        if place in self.undecided:  # a loop that is left from its head: one round is done
            self.path.note(f"{_where(instruction)}: how often this loop runs depends on data; one round is counted")
            return self.blocks.meeting(place)
        meeting = self.blocks.meeting(place)
        sides = [side for side in (place + 1, target) if side != meeting]
        slow = {side: why for side in sides if (why := self.blocks.slow(side, meeting))}
        if slow and len(slow) < len({place + 1, target}):
            self.path.note(f"{_where(instruction)}: the slow path is left out ({next(iter(slow.values()))})")
            sides = [side for side in sides if side not in slow]
        elif len(sides) == 2:
            self.path.note(
                f"{_where(instruction)}: depends on data; both sides are counted, as lanes of a warp disagree"
            )
        elif sides:
            self.path.note(f"{_where(instruction)}: depends on data; counted as if some lane of each warp does it")
        self.undecided.append(place)
        if meeting is None:
            self.apart(sides, state)
        else:
            outcomes = [self.run(side, meeting, state.copy()) for side in sides]
            for outcome in outcomes:
                state.merge(outcome)
        self.undecided.pop()
        return meeting

    def apart(self, sides: list[int], state: State) -> None:
        """Follow sides that have only their ends in common; what both come by is counted once, as warps unite there."""
        barred = len(self.counted)
        for side in sides:
            before = self.path.counts.copy()
            self.run(side, None, state.copy())
            after = self.path.counts
            self.counted.append({self.code.index[a] for a in after if after[a] > before[a]})
        del self.counted[barred:]


_CONTROL = {
    "BRA",
    "BRX",
    "BRXU",
    "JMP",
    "JMX",
    "JMXU",
    "EXIT",
    "CALL",
    "RET",
    "BPT",
    "KILL",
    "BSYNC",
    "BSSY",
    "WARPSYNC",
}


def _where(instruction: Instruction) -> str:
    if instruction.line:
        return f"{instruction.file}:{instruction.line}"
    return f"at {instruction.address:#x}"
