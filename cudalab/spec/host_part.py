"""The host part of a `.cu`: functions that launch and allocate, `main`, bindings of PyTorch, and what only they need.

The lab launches, so a compiler gets the file without this part, and each line that stays keeps its number. What is the
host's follows from the structure of the file: a function without `__device__` or `__global__` that no kernel calls, and
declarations that name such a function, CUDA's runtime or a library whose headers a kernel does not use.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from cudalab.base.errors import SpecError
from cudalab.spec import host_dispatch
from cudalab.spec.comments import DIRECTIVE, blank_comments
from cudalab.spec.declarations import WORD, Declaration, declarations, untemplated
from cudalab.spec.host_libraries import BROUGHT, MACRO, named_in, unused

_DEVICE = frozenset({"__device__", "__global__", "__constant__", "__shared__", "__managed__", "texture"})
_CALLED = re.compile(r"(?<!\.)(?<!->)(?<!std::)\b([A-Za-z_]\w*)\s*(?:<[^;{}()]*>\s*)?\(")
_CONDITION = re.compile(r"[ \t]*#[ \t]*(if|ifdef|ifndef|elif|else|endif)\b[ \t]*(.*)", re.DOTALL)
_DEFINE = re.compile(r"[ \t]*#[ \t]*define[ \t]+(\w+)(?:\([^()]*\))?(.*)", re.DOTALL)
_INCLUDE = re.compile(r'(?m)^[ \t]*#[ \t]*include[ \t]*(?:"([^">\n]+)"|<([^">\n]+)>)[^\n]*')
_FALSE = re.compile(rf"(?:if|elif)\s+(?:0|!\s*defined\s*\(?\s*{MACRO}\s*\)?)\s*|ifndef\s+{MACRO}\s*")
_TRUE = re.compile(rf"(?:if|elif)\s+(?:1|defined\s*\(?\s*{MACRO}\s*\)?)\s*|ifdef\s+{MACRO}\s*")


@dataclass(frozen=True)
class Separated:
    """A `.cu` without its host part, with the same lines. `left_out`: first and last lines of what went."""

    text: str
    left_out: tuple[tuple[int, int], ...] = ()

    @property
    def said(self) -> str:
        """What is left out, in one line; "" for nothing."""
        if not self.left_out:
            return ""
        parts = [f"{first} to {last}" if last > first else str(first) for first, last in self.left_out]
        lines = f"lines {', '.join(parts)}" if len(parts) > 1 or " " in parts[0] else f"line {parts[0]}"
        return f"host code at {lines} is left out: the lab launches"


@lru_cache(maxsize=64)
def separated(
    text: str, name: str, beside: frozenset[str] = frozenset(), headers: tuple[str, ...] = ()
) -> Separated:  # fmt: skip
    """A `.cu` without its host part.

    `beside`: the headers that are files of the user's, as the `.cu` names them; `headers`: their texts. Raises
    SpecError with a line for brackets that do not close, if the file launches from the host.
    """
    code = blank_comments(text)
    if "__global__" not in code and not any("__global__" in header for header in headers):
        return Separated(text)
    code, plain = _alive(code)
    try:
        items = list(declarations(plain, code, name))
    except SpecError:
        if "<<<" in code:
            raise
        return Separated(text)  # a compiler says what is wrong
    macros = _macros([code, *map(blank_comments, headers)])
    kept, gone = _divided(items, macros)
    if not kept:
        return Separated(text)
    spans = [(item.start, item.end) for item in gone]
    rest = _with_bodies(_blanked(code, spans), headers, macros)
    launches = any(item.function or "<<<" in item.code for item in gone)
    includes = [
        found for found in _INCLUDE.finditer(text)
        if code[found.start() : found.end()].strip() and unused(found[1] or found[2], rest, beside, launches)
    ]  # fmt: skip
    if not launches and not includes:
        return Separated(text)
    return Separated(_without(text, rest, spans, includes), _lines(text, code, [*spans, *(m.span() for m in includes)]))


def _with_bodies(code: str, headers: Iterable[str], macros: Mapping[str, set[str]]) -> str:
    """The code without directives, with the bodies of the macros that it uses after it."""
    plain = DIRECTIVE.sub(_spaces, code)
    words = set(WORD.findall(plain))
    used = words.union(*(macros.get(word, ()) for word in words))
    defines = (_DEFINE.match(found[0]) for text in (code, *headers) for found in DIRECTIVE.finditer(text))
    return "\n".join([plain, *(define[2] for define in defines if define and define[1] in used)])


def _spaces(found: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", found[0])


def _blanked(text: str, spans: Iterable[tuple[int, int]]) -> str:
    made, last = list[str](), 0
    for start, end in sorted(spans):
        made += [text[last:start], re.sub(r"[^\n]", " ", text[start:end])]
        last = end
    return "".join([*made, text[last:]])


def _alive(code: str) -> tuple[str, str]:
    """The code without what `#if` leaves out for certain; and that as one program, without directives.

    Of branches that do not close their brackets, such as two heads of one function, the second holds the first alone.
    """
    dead, second = list[tuple[int, int]](), list[tuple[int, int]]()
    opened = list[list[tuple[int, int, str]]]()  # the directives of each open #if: where they are, what they say
    for found in DIRECTIVE.finditer(code):
        if not (condition := _CONDITION.match(found[0])):
            continue
        if condition[1].startswith("if"):
            opened.append([])
        if not opened:
            continue
        opened[-1].append((*found.span(), f"{condition[1]} {condition[2].strip()}"))
        if condition[1] == "endif":
            _choose(code, opened.pop(), dead, second)
    alive = _blanked(code, _outer(dead))
    return alive, DIRECTIVE.sub(_spaces, _blanked(alive, _outer(second)))


def _choose(
    code: str, marks: list[tuple[int, int, str]], dead: list[tuple[int, int]], second: list[tuple[int, int]]
) -> None:  # fmt: skip
    """Add the branches of an `#if` that are left out: `dead` ones, and the `second` of those with open brackets."""
    taken = opens = False
    for (_, start, said), (end, _, _) in pairwise(marks):
        if _FALSE.fullmatch(said) or (taken and not said.startswith("if")):
            dead.append((start, end))
            continue
        taken = taken or bool(_TRUE.fullmatch(said))
        inner = [(a - start, b - start) for a, b in _outer((*dead, *second)) if start <= a and b <= end]
        body = DIRECTIVE.sub(_spaces, _blanked(code[start:end], inner))
        if opens:
            second.append((start, end))
        opens = opens or any(body.count(a) != body.count(b) for a, b in ("{}", "()"))


def _outer(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans that are within no other."""
    found = list[tuple[int, int]]()
    for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
        if not found or start >= found[-1][1]:
            found.append((start, end))
    return found


def _macros(codes: Iterable[str]) -> dict[str, set[str]]:
    """The words in the bodies of macros, by name; with those of macros that they use."""
    found = dict[str, set[str]]()
    for code in codes:
        for directive in DIRECTIVE.finditer(code):
            if define := _DEFINE.match(directive[0]):
                found.setdefault(define[1], set()).update(WORD.findall(define[2]))
    return {name: _closure(words, found) for name, words in found.items()}


def _closure(words: set[str], macros: Mapping[str, set[str]]) -> set[str]:
    every, new = set(words), set(words)
    while new:
        new = set().union(*(macros.get(word, ()) for word in new)) - every
        every |= new
    return every


def _divided(items: list[Declaration], macros: Mapping[str, set[str]]) -> tuple[list[Declaration], list[Declaration]]:
    """The items that kernels need, and those of the host."""
    words = [set(WORD.findall(item.code)) for item in items]
    deep = [some.union(*(macros.get(word, ()) for word in some)) for some in words]
    own = [_own(item, every, macros) for item, every in zip(items, deep, strict=True)]
    kept = {i for i, yes in enumerate(own) if yes}
    used, called = set[str](), set[str]()
    new = set(kept)
    while new:
        for i in new:
            used |= deep[i]
            called |= {m[1] for m in _CALLED.finditer(items[i].code)} - {items[i].function} | (deep[i] - words[i])
        new = {
            i for i, item in enumerate(items)
            if i not in kept and item.names & (called if item.function else used)
            and (item.type or not named_in(item.code))
        }  # fmt: skip
        kept |= new
    # Nothing tells whether a kernel uses an operator: it stays, unless it names what the host alone has.
    gone = {i for i, item in enumerate(items) if item.function not in ("", "operator") and i not in kept}
    names = set().union(*(items[i].names for i in gone))
    while new := {
        i for i in range(len(items)) if i not in kept | gone and (named_in(items[i].code) or names & words[i])
    }:
        gone |= new
        names |= set().union(*(items[i].names & _declared(items[i]) for i in new))
    return [items[i] for i in sorted(kept)], [items[i] for i in sorted(gone)]


def _declared(item: Declaration) -> set[str]:
    """The name of a type or variable, without the words of its own type."""
    if item.head[:1] == ["typedef"]:
        return item.names
    names = [word for word in untemplated(item.head) if word[0].isalpha() or word[0] == "_"]
    return set(names[-1:])


def _own(item: Declaration, words: set[str], macros: Mapping[str, set[str]]) -> bool:
    """Whether an item is device code by what it says, whoever uses it."""
    if not item.function:
        return bool(words & _DEVICE)
    said = set(item.head)
    if said.union(*(macros.get(word, ()) for word in said)) & _DEVICE:
        return True
    before = untemplated(item.head)
    before = before[: before.index(item.function)] if item.function in before else before
    macro = any(word.isupper() and len(word) > 2 and word not in macros for word in before)
    return macro and not named_in(item.code)  # of a header that is not here: it may say __device__


def _without(text: str, rest: str, spans: list[tuple[int, int]], includes: list[re.Match[str]]) -> str:
    """Return the text with blank lines for the host part, but with its `#if` and `#define`."""
    kept = [m.span() for m in DIRECTIVE.finditer(text) if _CONDITION.match(m[0]) or _DEFINE.match(m[0])]
    pieces = list[tuple[int, int]]()
    for start, end in spans:
        last = start
        for a, b in kept:
            if start <= a and b <= end:
                pieces.append((last, a))
                last = b
        pieces.append((last, end))
    there = {m[1] or m[2] for m in _INCLUDE.finditer(text)}
    missing = [(names, header) for names, header in BROUGHT if not ({header, f"{header[1:]}.h"} & there)]
    used = (rest, host_dispatch.types(text))  # what the code needs goes before the types that scalar_t may be
    needed = dict.fromkeys(header for words in used for names, header in missing if names.search(words))
    made = _blanked(text, [*pieces, *(m.span() for m in includes)])
    for found, header in reversed(list(zip(includes, needed, strict=False))):
        made = f"{made[: found.start()]}#include <{header}>{made[found.end() :]}"
    return made


def _lines(text: str, code: str, spans: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """First and last lines of spans; with nothing but comments between them, they are one."""
    found = list[tuple[int, int]]()
    last = -1
    for start, end in _outer(spans):
        first, stop = (text.count("\n", 0, at) + 1 for at in (start, end))
        if found and not code[last:start].strip():
            found[-1] = found[-1][0], stop
        else:
            found.append((first, stop))
        last = end
    return tuple(found)
