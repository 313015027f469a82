"""Mutants of a `.cu` and of the headers it shares: one small change each, made by rules on the tokens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cudalab.spec import cuda_source
from mutation.tokens import Code, Function

RELATIONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
LOGIC = {"&&": "||", "||": "&&"}
ARITHMETIC = {
    "+": "-", "-": "+", "*": "/", "/": "*", "%": "*", "|": "&", "&": "|", "^": "|", "<<": ">>", ">>": "<<",
}  # fmt: skip
ASSIGNMENTS = {
    "+=": "-=", "-=": "+=", "*=": "/=", "/=": "*=", "%=": "*=", "<<=": ">>=", ">>=": "<<=", "|=": "&=", "&=": "|=",
    "^=": "|=", "++": "--", "--": "++",
}  # fmt: skip
INDICES = {"threadIdx": "blockIdx", "blockIdx": "threadIdx", "blockDim": "gridDim", "gridDim": "blockDim"}
COMPONENTS = {"x": "y", "y": "x", "z": "x"}
CALLS = {
    "fmaxf": "fminf", "fminf": "fmaxf", "fmax": "fmin", "fmin": "fmax", "max": "min", "min": "max",
    "expf": "exp2f", "exp2f": "expf", "erff": "tanhf", "tanhf": "erff", "sqrtf": "rsqrtf", "rsqrtf": "sqrtf",
    "sinf": "cosf", "cosf": "sinf", "atomicAdd": "atomicExch", "atomicMax": "atomicMin", "atomicMin": "atomicMax",
    "__shfl_xor_sync": "__shfl_down_sync", "__shfl_down_sync": "__shfl_up_sync", "__shfl_up_sync": "__shfl_down_sync",
}  # fmt: skip
STEP = 1e-3  # relative change of a floating-point constant: far above rounding, far below what the eye sees
ASSIGNING = ("=", *(op for op in ASSIGNMENTS if op.endswith("=")))


@dataclass(frozen=True)
class Edit:
    """Replace text[start:end] by `new`."""

    start: int
    end: int
    new: str
    rule: str


@dataclass(frozen=True)
class Mutant:
    """One file of a kernel with one fault: the whole text, and where and how it differs from the original.

    `text` and `twin` are the mutant and the original, padded with spaces to the same length, so that all code after the
    fault has the same lines and columns in both: compilers write those into machine code, for messages.
    """

    rule: str
    line: int  # from 1
    column: int  # from 1
    old: str
    new: str
    before: str  # the original's line, without its comment and the spaces at its ends
    after: str  # the mutant's
    nth: int  # from 0: of the original's lines that are like `before`
    text: str
    twin: str
    file: str = ""  # relative to the kernel's folder; "": the `.cu` itself

    @property
    def key(self) -> tuple[str, str, str, int]:
        """What identifies it among the others, and stays when lines are added elsewhere."""
        return self.file, self.before, self.after, self.nth

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.file else str(self.line)
        return f"{place}:{self.column} {self.rule}: {self.before}  ->  {self.after}"


def mutants_of(cu: Path) -> list[Mutant]:
    """All mutants of a `.cu`, then those of each header that it includes from its own folder or below."""
    text = cu.read_text(encoding="utf-8")
    headers = [path for path in cuda_source.local_headers(text, cu) if path.is_relative_to(cu.parent)]
    shared = (
        m for path in headers for m in mutants(path.read_text(encoding="utf-8"), str(path.relative_to(cu.parent)))
    )
    return [*mutants(text), *shared]


def mutants(text: str, file: str = "") -> list[Mutant]:
    """All mutants of `text`, in the order of their places; no two have the same text."""
    found: dict[str, Mutant] = {}
    for edit in sorted(edits(Code(text)), key=lambda e: (e.start, e.end, e.new)):
        mutated = text[: edit.start] + edit.new + text[edit.end :]
        if mutated != text and mutated not in found:
            found[mutated] = _mutant(text, mutated, edit, file)
    return list(found.values())


def _mutant(text: str, mutated: str, edit: Edit, file: str) -> Mutant:
    line = text.count("\n", 0, edit.start)
    column = edit.start - (text.rfind("\n", 0, edit.start) + 1) + 1
    before, after = (_code_of(t.split("\n")[line]) for t in (text, mutated))
    nth = [_code_of(each) for each in text.split("\n")[:line]].count(before)
    old = text[edit.start : edit.end]
    wide = (_as_wide(edit.new, old), _as_wide(old, edit.new))
    texts = (f"{text[: edit.start]}{each}{text[edit.end :]}" for each in wide)
    return Mutant(edit.rule, line + 1, column, old, edit.new, before, after, nth, *texts, file)


def _code_of(line: str) -> str:
    return line.partition("//")[0].strip()


def _as_wide(code: str, other: str) -> str:
    """`code`, with as many lines as `other` has and spaces up to where `other` ends."""
    *lines, last = other.split("\n")
    return code + "\n" * len(lines) + " " * len(last) if lines else code.ljust(len(last))


def edits(code: Code) -> Iterator[Edit]:
    """What every rule would change."""
    yield from _operators(code)
    yield from _constants(code)
    yield from _bounds(code)
    yield from _guards(code)
    yield from _loops(code)
    yield from _statements(code)
    for function in code.functions:
        yield from _names(code, function)
        yield from _returns(code, function)


def _span(code: Code, first: int, last: int, new: str, rule: str) -> Edit:
    """An edit of the tokens `first` to `last`, both included."""
    return Edit(code.tokens[first].start, code.tokens[last].end, new, rule)


def _inside(code: Code, first: int, last: int) -> str:
    """The text of tokens `first` to `last`, both included."""
    return code.text[code.tokens[first].start : code.tokens[last].end]


def _operators(code: Code) -> Iterator[Edit]:
    for i, token in enumerate(code.tokens):
        if i in code.attributes:
            continue
        if token.text in RELATIONS and code.is_relation(i):
            yield _span(code, i, i, RELATIONS[token.text], "relation")
        elif token.text in LOGIC and code.is_binary(i):
            yield _span(code, i, i, LOGIC[token.text], "logic")
        elif token.text in ARITHMETIC and code.is_binary(i):
            yield _span(code, i, i, ARITHMETIC[token.text], "arithmetic")
        elif token.text in ASSIGNMENTS:
            yield _span(code, i, i, ASSIGNMENTS[token.text], "assignment")
        elif token.text == "!":
            yield _span(code, i, i, "", "logic")
        elif token.text in CALLS and code.at(i + 1) == "(":
            yield _span(code, i, i, CALLS[token.text], "call")
        elif token.text in INDICES and code.at(i + 1) == ".":
            yield _span(code, i, i, INDICES[token.text], "index")
            yield _span(code, i + 2, i + 2, COMPONENTS[code.at(i + 2)], "index")


def _constants(code: Code) -> Iterator[Edit]:
    """One more and one less than an integer; a little more than a real number, and its negative."""
    for i, token in enumerate(code.tokens):
        if i in code.attributes:
            continue
        if token.kind == "integer":
            digits = token.text.rstrip("uUlL")
            base = 16 if digits[:2] in ("0x", "0X") else 10
            for value in (int(digits, base) + 1, int(digits, base) - 1):
                number = (hex(value) if base == 16 else str(value)) + token.text[len(digits) :]
                yield _span(code, i, i, number if value >= 0 else f"({number})", "constant")
        elif token.kind == "floating":
            digits = token.text.rstrip("fFlL")
            real = float(digits)
            yield _span(code, i, i, f"{real * (1 + STEP) if real else STEP!r}{token.text[len(digits) :]}", "constant")
            if real:
                yield _span(code, i, i, f"(-{token.text})", "constant")
        elif token.text == "::" and code.at(i + 1).isidentifier() and code.at(i + 2) not in ("(", "::", "<"):
            # such as Pack::width
            yield _span(code, i - 1, i + 1, f"({_inside(code, i - 1, i + 1)} - 1)", "constant")


def _bounds(code: Code) -> Iterator[Edit]:
    """A bound that is one too low; `<=` for `<` is the one that is one too high."""
    for i, token in enumerate(code.tokens):
        if token.text in ("<", "<=", ">", ">=") and code.is_relation(i):
            end = code.reach(i + 1, ("&&", "||", ";", "?", ":", ","))
            place = code.tokens[end - 1].end
            yield Edit(place, place, " - 1", "bound")


def _guards(code: Code) -> Iterator[Edit]:
    """A condition that is always or never met: of `if`, of `?:`, and `while` never."""
    for keyword, values in (("if", ("true", "false")), ("while", ("false",))):
        for opening, closing in code.headers(keyword):
            for value in values:
                yield _span(code, opening + 1, closing - 1, value, "guard")
    for i, token in enumerate(code.tokens):
        if token.text == "?":
            start = code.back(i - 1, (*ASSIGNING, ",", ";", "return", "?", ":")) + 1
            for value in ("true", "false"):
                yield _span(code, start, i - 1, value, "guard")


def _loops(code: Code) -> Iterator[Edit]:
    """`for` loops that start one later, never run, or take every other step."""
    for opening, closing in code.headers("for"):
        first = code.reach(opening + 1, (";",))
        second = code.reach(first + 1, (";",))
        if code.at(first) != ";" or code.at(second) != ";":
            continue
        start = code.reach(opening + 1, ("=", ";"))
        if code.at(start) == "=":
            place = code.tokens[code.reach(start + 1, (",", ";")) - 1].end
            yield Edit(place, place, " + 1", "loop")
        if second > first + 1:
            yield _span(code, first + 1, second - 1, "false", "loop")
        step = range(second + 1, closing)
        if len(step) == 2 and {code.at(step[0]), code.at(step[1])} & {"++", "--"}:
            name, sign = sorted((code.at(step[0]), code.at(step[1])), key=lambda t: not t[0].isalpha())
            yield _span(code, step[0], step[-1], f"{name} {sign[0]}= 2", "loop")
        elif len(step) > 2 and code.at(step[1]) in ("+=", "-="):
            stride = _inside(code, step[2], step[-1])
            yield _span(code, step[2], step[-1], f"2 * ({stride})", "loop")


def _statements(code: Code) -> Iterator[Edit]:
    """A statement that is missing: a barrier, an assignment, a call."""
    for start, end in code.statements():
        yield _span(code, start, end, ";", "statement")


def _names(code: Code, function: Function) -> Iterator[Edit]:
    """Replace a parameter or local by the next one of its type that has a value at this place."""
    declared = [*function.parameters, *_locals(code, function)]
    kinds = {name: " ".join(w for w in kind.split() if w != "const" or "*" in kind) for kind, name, _ in declared}
    for i in range(function.opening + 1, function.closing):
        name = code.at(i)
        if name in kinds and code.at(i - 1) not in (".", "->", "::"):
            same = list(dict.fromkeys(n for _, n, ready in declared if kinds[n] == kinds[name] and ready < i))
            if name in same and len(same) > 1:
                yield _span(code, i, i, same[(same.index(name) + 1) % len(same)], "name")


def _locals(code: Code, function: Function) -> Iterator[tuple[str, str, int]]:
    """(type, name, index of the end) of what the body declares with `type name = value`, alone or in a list."""
    for i in range(function.opening + 1, function.closing):
        follows = code.at(i - 1) in ("{", "}", ";", "const") or code.at(i - 2) == "for"
        if not code.is_type(i) or not follows:
            continue
        name = i
        while code.is_type(name) or code.at(name) == "*":
            name += 1
        kind = " ".join(map(code.at, range(i, name)))
        while code.tokens[name].kind == "name" and code.at(name + 1) == "=":
            end = code.reach(name + 2, (",", ";"))
            yield kind, code.at(name), end
            if code.at(end) != ",":
                break
            name = end + 1


def _returns(code: Code, function: Function) -> Iterator[Edit]:
    """Replace the returned result by the first parameter."""
    for i in range(function.opening + 1, function.closing):
        if code.at(i) == "return" and code.at(i + 1) != ";" and function.parameters:
            yield _span(code, i + 1, code.reach(i + 1, (";",)) - 1, function.parameters[0][1], "return")
