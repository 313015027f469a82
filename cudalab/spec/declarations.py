"""The declarations of a `.cu`, in order: where each begins and ends, and what it may declare."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from cudalab.base.errors import SpecError
from cudalab.spec.host_libraries import REMEDY

_ATTRIBUTES = frozenset((
    "__launch_bounds__", "__cluster_dims__", "__block_size__", "__maxnreg__", "__align__", "alignas", "__attribute__",
    "__declspec", "decltype", "noexcept", "requires", "explicit",
))  # fmt: skip
TYPES = frozenset({"struct", "class", "union", "enum", "using", "typedef", "concept", "static_assert"})
_OPEN, _CLOSE = "([{", ")]}"
_TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.']*|::|<<<|->|\S")
WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*")


@dataclass
class Declaration:
    """A declaration at the top of a file or in a namespace."""

    start: int
    end: int
    function: str = ""  # its name, if it is the definition of a function
    head: list[str] = field(default_factory=list)  # the tokens before the body
    code: str = ""

    @property
    def type(self) -> bool:
        return any(word in TYPES for word in self.head)

    @property
    def names(self) -> set[str]:
        """The names that it may declare."""
        if self.function:
            return {self.function}
        if "enum" in self.head:
            return set(WORD.findall(self.code)) - TYPES
        if self.head[:1] == ["typedef"]:
            return set(WORD.findall(self.code)[-1:])
        words = [word for word in untemplated(self.head) if word[0].isalpha() or word[0] == "_"]
        return set(words) - TYPES


def declarations(plain: str, code: str, name: str) -> Iterator[Declaration]:
    """The declarations of a file and of its namespaces, in order."""
    tokens = list(_TOKEN.finditer(plain))
    begin, i = 0, 0  # the first token of a declaration

    def item(last: int, body: int, function: str = "") -> Declaration:
        start, end = tokens[begin].start(), tokens[last].end()
        return Declaration(start, end, function, [m[0] for m in tokens[begin:body]], code[start:end])

    body = -1  # the token at which what follows the head of a declaration begins
    while i < len(tokens):
        word = tokens[i][0]
        if word == "{" and body < 0 and _scope([m[0] for m in tokens[begin:i]]):
            begin = i = i + 1
        elif word == "}":  # of a namespace
            begin, i, body = i + 1, i + 1, -1
        elif word == ";":
            if i > begin:
                yield item(i, body if body >= 0 else i)
            begin, i, body = i + 1, i + 1, -1
        elif word in _OPEN:
            end = _closing(tokens, i, plain, name)
            function = _function([m[0] for m in tokens[begin:i]]) if word == "{" else ""
            more = tokens[end + 1][0] if end + 1 < len(tokens) else ""
            if function and more not in (",", "{", "catch"):  # else what a constructor initialises
                yield item(end, i, function)
                begin, body = end + 1, -1
            elif word == "{" and not function and body < 0:
                body = i
            i = end + 1
        else:
            body = i if word == "=" and body < 0 and "operator" not in (m[0] for m in tokens[begin:i]) else body
            i += 1
    if begin < len(tokens):
        yield item(len(tokens) - 1, body if body >= 0 else len(tokens))


def _closing(tokens: list[re.Match[str]], i: int, plain: str, name: str) -> int:
    """The token that closes the bracket at `i`."""
    depth = 0
    for at in range(i, len(tokens)):
        word = tokens[at][0]
        depth += (word in _OPEN) - (word in _CLOSE)
        if not depth:
            return at
    line = plain.count("\n", 0, tokens[i].start()) + 1
    raise SpecError(
        f"{name}:{line}: this {tokens[i][0]!r} is not closed, so kernels and host code cannot be told apart; close it, "
        f"or {REMEDY}"
    )


def _scope(head: list[str]) -> bool:
    """Whether a bracket after these tokens holds declarations: a namespace, or extern "C"."""
    bare = [word for word in head if word != "inline"]
    return bare[:1] == ["namespace"] or bare == ["extern", '"', "C", '"']


def _function(head: list[str]) -> str:
    """The name of the function whose body follows these tokens; "" if none does, as for a struct."""
    angles, i, before, kind = 0, 0, "", ""
    while i < len(head):
        word = head[i]
        if word in _ATTRIBUTES and head[i + 1 : i + 2] == ["("]:
            i = _past(head, i + 1)
            continue
        if word == "operator" and not angles:
            return word
        if word == "<" and before and (before[0].isalpha() or before[0] == "_"):
            angles += 1
        elif word == ">" and angles:
            angles -= 1
        elif word == "(" and angles:
            i = _past(head, i)
            continue
        elif not angles:
            if word == "=":
                return ""
            if word == "(":
                return kind and before
            if word[0].isalpha() or word[0] == "_":
                kind = word
        before = kind if word == ">" and not angles else word
        i += 1
    return ""


def untemplated(head: list[str]) -> list[str]:
    """The tokens of a declaration after `template <...>`."""
    while head[:2] == ["template", "<"]:
        depth = end = 1
        while depth and end + 1 < len(head):
            end += 1
            depth += (head[end] == "<") - (head[end] == ">")
        head = head[end + 1 :]
    return head


def _past(head: list[str], i: int) -> int:
    """Return the place after the bracket that closes the one at `i`."""
    depth = 0
    for at in range(i, len(head)):
        depth += (head[at] == "(") - (head[at] == ")")
        if not depth:
            return at + 1
    return len(head)
