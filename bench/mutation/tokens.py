"""CUDA C++ as tokens, with as much structure as the rules of mutation ask for.

This is no parser. A misread token gives a mutant that does not compile; such mutants are counted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from cudalab.spec import cuda_source

_TOKEN = re.compile(
    r"""
    (?P<skip> ^[ \t]*\#[ \t]*define[ \t]+\w+(?:\([^)]*\))?    # of a macro, the name; its text is code
            | ^[ \t]*\#[ \t]*ifdef[ \t]+HAS_ARRIVALS\b[\s\S]*?(?=^[ \t]*\#[ \t]*(?:else|endif))  # not for the CPU
            | ^[ \t]*\#(?:\\\n|[^\n])*                        # any other directive
            | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' )
  | (?P<name> [A-Za-z_]\w* )
  | (?P<floating> (?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?[fFlL]? | \d+[eE][+-]?\d+[fFlL]? )
  | (?P<integer> (?:0[xX][0-9a-fA-F]+|\d+)[uUlL]*(?![\w.]) )
  | (?P<operator> <<=|>>=|->|\+\+|--|&&|\|\||::|<<|>>|[<>=!+*/%&|^-]=|[^\w\s] )
    """,
    re.VERBOSE | re.MULTILINE,
)
_CONTROL = {"if", "for", "while", "switch"}
_STATEMENT = _CONTROL | {"do", "else", "return", "break", "continue", "case", "default", "goto"}
_BUILT_IN = {
    "void", "bool", "char", "short", "int", "long", "unsigned", "signed", "float", "double", "auto", "const", "static",
    "volatile", "size_t", "scalar_t",
}  # fmt: skip
_VECTOR = re.compile(r"u?(?:char|short|int|long|longlong|float|double|half)[1-4]|__half2?|__nv_bfloat16\w*|\w+_t")
_ATTRIBUTES = {"__launch_bounds__", "__align__", "__attribute__", "__cluster_dims__", "alignas"}
_OPEN, _CLOSE = "([{", ")]}"


@dataclass(frozen=True)
class Token:
    """One token; `start` and `end` are offsets in the text."""

    kind: str  # "name", "integer", "floating" or "operator"
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


@dataclass(frozen=True)
class Function:
    """A function with a body: the indices of its braces, and (type, name, index) of its parameters."""

    opening: int
    closing: int
    parameters: tuple[tuple[str, str, int], ...]


class Code:
    """The tokens of a `.cu`: nothing in comments, strings, `#include` and attributes."""

    def __init__(self, text: str) -> None:
        self.text = text
        found = _TOKEN.finditer(cuda_source.blank_comments(text))
        self.tokens = [Token(m.lastgroup or "", m.group(), m.start()) for m in found if m.lastgroup != "skip"]
        self.types = _BUILT_IN | {
            self.at(i + 1)
            for i, token in enumerate(self.tokens)
            if token.text in ("struct", "class", "union", "enum", "typename", "using")
        }

    def at(self, i: int) -> str:
        """The text of token `i`, "" beyond the ends."""
        return self.tokens[i].text if 0 <= i < len(self.tokens) else ""

    def is_type(self, i: int) -> bool:
        return self.at(i) in self.types or bool(_VECTOR.fullmatch(self.at(i)))

    @cached_property
    def partner(self) -> dict[int, int]:
        """Index of the bracket that belongs to each bracket, both ways."""
        pairs, stack = {}, []
        for i, token in enumerate(self.tokens):
            if token.kind == "operator" and token.text in _OPEN:
                stack.append(i)
            elif token.kind == "operator" and token.text in _CLOSE and stack:
                pairs[i] = stack.pop()
                pairs[pairs[i]] = i
        return pairs

    @cached_property
    def functions(self) -> tuple[Function, ...]:
        """Functions with a body, in order: a brace after a closing parenthesis, in none of the others."""
        found: list[Function] = []
        for i in range(len(self.tokens)):
            if self.at(i) == "{" and self.at(i - 1) == ")" and (not found or i > found[-1].closing):
                head = self.partner.get(i - 1, i - 1)
                found.append(Function(i, self.partner.get(i, i), tuple(self._parameters(head, i - 1))))
        return tuple(found)

    def _parameters(self, opening: int, closing: int) -> list[tuple[str, str, int]]:
        ends = [i for i in range(opening + 1, closing + 1) if self.at(i) == "," or i == closing]
        found, start = [], opening + 1
        for end in ends:
            if end - start > 1 and self.tokens[end - 1].kind == "name":
                found.append((" ".join(map(self.at, range(start, end - 1))), self.at(end - 1), end - 1))
            start = end + 1
        return found

    @cached_property
    def attributes(self) -> set[int]:
        """Tokens in the parentheses of `__launch_bounds__` and the like: nothing that the CPU could tell."""
        return {
            i
            for start, token in enumerate(self.tokens)
            if token.text in _ATTRIBUTES
            for i in range(start, self.partner.get(start + 1, start) + 1)
        }

    def is_binary(self, i: int) -> bool:
        """Whether the operator at `i` stands between two operands, and is neither a sign nor part of a type."""
        before, after = self.tokens[i - 1] if i else None, self.at(i + 1)
        if before is None or after in (*">),;]", "const", "__restrict__", ""):
            return False
        if before.text == ")":
            return not self._is_cast(self.partner.get(i - 1, i - 1), i - 1)
        operand = before.kind in ("name", "integer", "floating") and before.text not in _STATEMENT
        return before.text == "]" or (operand and not self.is_type(i - 1))

    def _is_cast(self, opening: int, closing: int) -> bool:
        inside = range(opening + 1, closing)
        only_types = all(self.is_type(i) or self.at(i) in "*&" for i in inside)
        return only_types and bool(inside) and self.tokens[opening - 1].kind != "name"

    def is_relation(self, i: int) -> bool:
        """Whether `<` or `>` at `i` compares, and does not enclose a template's arguments."""
        if self.at(i - 1) == "template" or self.at(i - 1).endswith("_cast"):
            return False
        if self.at(i) in "<>" and (self.is_type(i + 1) or self.is_type(i - 1) or self.at(i - 1) in "*&"):
            return False
        return self.is_binary(i)

    def reach(self, i: int, ends: tuple[str, ...]) -> int:
        """Index of the first token from `i` on that is one of `ends` or closes the bracket around `i`."""
        while i < len(self.tokens) and self.at(i) not in ends and self.at(i) not in _CLOSE:
            i = self.partner.get(i, i) + 1
        return i

    def back(self, i: int, ends: tuple[str, ...]) -> int:
        """Index of the last token before `i` that is one of `ends` or opens the bracket around `i`."""
        while i >= 0 and self.at(i) not in ends and self.at(i) not in _OPEN:
            i = self.partner.get(i, i) - 1
        return i

    def headers(self, keyword: str) -> list[tuple[int, int]]:
        """Indices of the parentheses after each `keyword`, such as "if"."""
        starts = [i + 1 for i, token in enumerate(self.tokens) if token.text == keyword and self.at(i + 1) == "("]
        return [(i, self.partner[i]) for i in starts if i in self.partner]

    def statements(self) -> list[tuple[int, int]]:
        """First token and semicolon of every statement that only does something: no declaration, no control flow."""
        headers = [header for keyword in _CONTROL for header in self.headers(keyword)]
        ends = {closing for _, closing in headers}
        within = {i for opening, closing in headers for i in range(opening, closing)}
        found = []
        for function in self.functions:
            for i in range(function.opening + 1, function.closing):
                follows = self.at(i - 1) in (*"{};", "else", "do") or i - 1 in ends
                acts = self.at(i) not in (*_STATEMENT, *"{};") and not self._declares(i)
                end = self.reach(i, (";",))
                if follows and acts and i not in within and self.at(end) == ";":
                    found.append((i, end))
        return found

    def _declares(self, i: int) -> bool:
        """Whether a statement that begins at `i` is a declaration: it begins with a type, or with two names."""
        two_names = all(self.tokens[k].kind == "name" for k in (i, i + 1) if k < len(self.tokens))
        return two_names or (self.is_type(i) and self.at(i + 1) != "(")
