"""Which instructions a thread of a launch executes, and how often.

The thread is the middle one of the block in the middle of the grid, so it is no tail. The launch decides most branches:
bounds, alignment, loops over sizes. A branch on data is undecided, and then:

- both sides count, because lanes of a warp disagree;
- a side that traps or calls a helper of the compiler (such as the slow path of a division) does not count;
- a loop counts once.

`Path.notes` lists each such assumption.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from cudalab.base.errors import InputError
from cudalab.tools.inspect.basic_blocks import BasicBlocks
from cudalab.tools.inspect.sass import Code, Instruction
from cudalab.tools.inspect.symbolic_values import execute
from cudalab.tools.inspect.thread_state import State

MOST = 1_000_000  # instructions of one thread that are followed; they take about ten seconds
ONCE = "how often this loop runs depends on the data; one iteration is counted"
_CONTROL = {
    "BRA", "BRX", "BRXU", "JMP", "JMX", "JMXU", "EXIT", "CALL", "RET", "BPT", "KILL", "BSYNC", "BSSY", "WARPSYNC",
}  # fmt: skip


@dataclass
class Path:
    """Executions by address, how many of them surely had no effect, and the assumptions."""

    counts: Counter[int] = field(default_factory=Counter)
    idle: Counter[int] = field(default_factory=Counter)  # issued under a predicate that is false
    notes: dict[str, None] = field(default_factory=dict)  # each once, in the order of appearance

    def note(self, instruction: Instruction, text: str) -> None:
        place = f"{instruction.file}:{instruction.line}" if instruction.line else f"at {instruction.address:#x}"
        self.notes[f"{place}: {text}"] = None


def follow(code: Code, state: State) -> Path:
    """The path of a thread that starts with `state`. Raises InputError if it is longer than MOST."""
    walk = _Walk(code)
    walk.run(0, None, state)
    return walk.path


class _Walk:
    def __init__(self, code: Code) -> None:
        self.code, self.path = code, Path()
        self.blocks = BasicBlocks(code)
        self.steps = 0
        self.undecided: list[int] = []  # branches on data whose sides are being followed, outermost first
        self.exits: set[int] = set()  # exits on data that the thread has passed
        self.returns: list[int] = []  # places after the calls that are being followed
        self.counted: list[set[int]] = []  # places that one side of a branch has passed, where its sides never meet

    def run(self, place: int | None, stop: int | None, state: State) -> State:
        """Follow the code from `place` to `stop` (None: to the thread's end)."""
        instructions = self.code.instructions
        while place is not None and place != stop and place < len(instructions):
            if any(place in places for places in self.counted):
                break
            instruction = instructions[place]
            self.steps += 1
            if self.steps > MOST:
                said = f"a thread of {self.code.name} executes more than {MOST:,} instructions"
                raise InputError(f"{said}; give a smaller --size, or other entries with --only")
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
        """The place after an instruction of control flow; None if the thread ends."""
        root = instruction.root
        truths = [state.truth(instruction.guard)]
        truths += [state.truth(text) for text in instruction.operands if text.lstrip("!U").startswith("P")]
        taken = False if False in truths else None if None in truths else True
        if root in ("BSYNC", "BSSY", "WARPSYNC") or taken is False:
            return place + 1
        if root == "EXIT":
            return None if taken else self.exit_on_data(place, instruction)
        if root == "RET":
            return self.returns.pop() if self.returns else None
        if root in ("BPT", "KILL"):
            return None if taken else place + 1
        target = None if instruction.target is None else self.code.index.get(instruction.target)
        if root == "CALL":
            if target is None:
                self.path.note(instruction, "the called function is not in this code, and is not counted")
                return place + 1
            self.returns.append(place + 1)
            return target
        if "DIV" in instruction.parts:  # taken only by a warp whose lanes have diverged
            return place + 1
        if target is None:
            self.path.note(instruction, f"the target of {root} is not known; nothing after it is counted")
            return None
        return target if taken else self.both(place, target, state)

    def exit_on_data(self, place: int, instruction: Instruction) -> int | None:
        """The place after an exit that depends on data; None where a loop that has no other end has done one round."""
        if place in self.exits and not self.blocks.end(place + 1, self.exits):
            self.path.note(instruction, ONCE)
            return None
        self.exits.add(place)
        self.path.note(instruction, "whether the thread exits here depends on the data; counted as if it continues")
        return place + 1

    def both(self, place: int, target: int, state: State) -> int | None:
        """Count both sides of a branch on data, and return the place where they meet."""
        instruction = self.code.instructions[place]
        if target <= place:
            if self.blocks.inevitable(place + 1, target):  # a wait for other lanes, not the end of a loop
                if not self.undecided or target > (exit := self.undecided[-1]):
                    return target
                self.path.note(self.code.instructions[exit], ONCE)
                return self.blocks.meeting(exit)
            self.path.note(instruction, ONCE)
            for inside in self.code.instructions[target:place]:
                state.forget(inside)
            return place + 1
        meeting = self.blocks.meeting(place)
        if place in self.undecided:  # a loop with its exit at its head: one round is done
            self.path.note(instruction, ONCE)
            return meeting
        sides = [side for side in (place + 1, target) if side != meeting]
        slow = {side: why for side in sides if (why := self.blocks.slow(side, meeting))}
        if slow and len(slow) < len({place + 1, target}):
            self.path.note(instruction, f"the slow path is left out ({next(iter(slow.values()))})")
            sides = [side for side in sides if side not in slow]
        elif len(sides) == 2:
            self.path.note(
                instruction, "this branch depends on the data; both sides are counted, since lanes of a warp may differ"
            )
        elif sides:
            self.path.note(
                instruction, "this branch depends on the data; counted as if at least one lane of each warp takes it"
            )
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
        """Follow sides that meet only at the thread's end. A place that both pass counts once, for the whole warp."""
        barred = len(self.counted)
        for side in sides:
            before = self.path.counts.copy()
            self.run(side, None, state.copy())
            after = self.path.counts
            self.counted.append({self.code.index[a] for a in after if after[a] > before[a]})
        del self.counted[barred:]
