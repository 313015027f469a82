"""The host part of a `.cu`: functions that launch and allocate, `main`, bindings of PyTorch, and what only they need.

The lab launches, so a compiler gets the file without this part, and each line that stays keeps its number. What is the
host's follows from the structure of the file: a function without `__device__` or `__global__` that no kernel calls, and
declarations that name such a function, CUDA's runtime or a library whose headers a kernel does not use.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

from cudalab.base.errors import SpecError
from cudalab.spec.comments import DIRECTIVE, blank_comments

MACRO = "CUDALAB"  # defined wherever the lab compiles a `.cu`
REMEDY = f"put #ifndef {MACRO} before it and #endif after it: the lab defines {MACRO}"
TORCH = (
    "the kernels use names of PyTorch's headers, such as at::Half or PackedTensorAccessor32; take pointers and sizes, "
    f"and write the types of CUDA (__half); where that is host code, {REMEDY}"
)
_DEVICE = frozenset({"__device__", "__global__", "__constant__", "__shared__", "__managed__", "texture"})
_ATTRIBUTES = frozenset((
    "__launch_bounds__", "__cluster_dims__", "__block_size__", "__maxnreg__", "__align__", "alignas", "__attribute__",
    "__declspec", "decltype", "noexcept", "requires", "explicit",
))  # fmt: skip
_TYPES = frozenset({"struct", "class", "union", "enum", "using", "typedef", "concept", "static_assert"})
_OPEN, _CLOSE = "([{", ")]}"
_TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.']*|::|<<<|->|\S")
_WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_CALLED = re.compile(r"(?<!\.)(?<!->)(?<!std::)\b([A-Za-z_]\w*)\s*(?:<[^;{}()]*>\s*)?\(")
_CONDITION = re.compile(r"[ \t]*#[ \t]*(if|ifdef|ifndef|elif|else|endif)\b[ \t]*(.*)", re.DOTALL)
_DEFINE = re.compile(r"[ \t]*#[ \t]*define[ \t]+(\w+)(?:\([^()]*\))?(.*)", re.DOTALL)
_INCLUDE = re.compile(r'(?m)^[ \t]*#[ \t]*include[ \t]*(?:"([^">\n]+)"|<([^">\n]+)>)[^\n]*')
_FALSE = re.compile(rf"(?:if|elif)\s+(?:0|!\s*defined\s*\(?\s*{MACRO}\s*\)?)\s*|ifndef\s+{MACRO}\s*")
_TRUE = re.compile(rf"(?:if|elif)\s+(?:1|defined\s*\(?\s*{MACRO}\s*\)?)\s*|ifdef\s+{MACRO}\s*")
# Libraries that only a host calls, or whose headers the host alone may need: a header, and names that come from it.
LIBRARIES = tuple((re.compile(header), re.compile(rf"\b(?:{names})\b")) for header, names in (
    (
        r"(?:torch|ATen|c10|caffe2|THC|TH)/.*",
        r"(?:torch|at|c10|caffe2)(?=\s*::)|AT_[A-Z]\w*|C10_\w+|TORCH_\w+|THC[A-Z]\w*",
    ),
    (r"pybind11/.*|Python\.h", r"(?:pybind11|py)(?=\s*::)|Py[A-Z_]\w*|PYBIND11_\w+"),
    (r"cub/.*", "cub"), (r"thrust/.*", "thrust"), (r"cublas\w*\.h", r"cublas\w+|CUBLAS\w+"),
    (r"cudnn\w*\.h", r"cudnn\w+|CUDNN\w+"), (r"cufft\w*\.h", r"cufft\w+|CUFFT\w+"),
    (r"cusparse\w*\.h", r"cusparse\w+|CUSPARSE\w+"), (r"cusolver\w*\.h", r"cusolver\w+|CUSOLVER\w+"),
    (r"curand\.h", r"curandGenerator\w*|curand(?:Create|Generate|Destroy|Set)\w*"), (r"nccl\.h", r"nccl\w+"),
    (r"nvml\.h", r"nvml\w+"), (r"nvToolsExt\w*\.h|nvtx3/.*", r"nvtx\w+"), (r"cuda_profiler_api\.h", "cudaProfiler\\w+"),
    (r"cuda\.h|cudaProfiler\.h", r"CU[a-z]\w+|cu[A-Z]\w+"), (r"(?:xla|jax)/.*", r"xla(?=\s*::)"),
    (r"opencv2/.*", r"cv(?=\s*::)"),
    (r"mpi\.h", r"MPI\w*"), (r"omp\.h", r"omp_\w+"), (r"(?:Eigen|unsupported)/.*", "Eigen"),
    (r"gtest/.*", r"testing(?=\s*::)"),
    (r"helper_(?:cuda|functions|string|timer|image)\w*\.h", r"checkCudaErrors|sdk[A-Z]\w+"),
    (r"windows\.h", r"[A-Z]+_PTR"),
))  # fmt: skip
_RUNTIME = re.compile(
    r"<<<|\b(?:cuda(?!TextureObject|SurfaceObject|RoundMode|_)[A-Z]\w*|cu(?:blas|dnn|fft|sparse|solver)\w+|nccl\w+"
    r"|curandGenerator\w*|CU(?:device|context|module|function|stream|event|deviceptr|result))\b"
)
_TORCH = LIBRARIES[0][1]
# What the headers of the host bring along: names, and the header that a kernel then needs in their place.
_BROUGHT = (
    (re.compile(r"\b__half\w*|\bhalf2\b"), "cuda_fp16.h"), (re.compile(r"\b(?:__)?nv_bfloat16\w*"), "cuda_bf16.h"),
    (re.compile(r"\b(?:FLT|DBL|LDBL)_\w+"), "cfloat"), (re.compile(r"\bnumeric_limits\b"), "limits"),
    (re.compile(r"\bu?int(?:8|16|32|64)_t\b"), "cstdint"),
    (re.compile(r"\b(?:U?(?:INT|LONG|LLONG|CHAR|SHRT))_M\w+"), "climits"),
    (re.compile(r"\bstd\s*::\s*(?:is_\w+|conditional|enable_if)\w*"), "type_traits"),
    (re.compile(r"\bassert\s*\("), "cassert"),
    (re.compile(r"\bprintf\s*\("), "cstdio"), (re.compile(r"\bstd\s*::\s*(?:min|max|swap)\b"), "algorithm"),
)  # fmt: skip


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


@dataclass
class _Item:
    """A declaration at the top of a file or in a namespace."""

    start: int
    end: int
    function: str = ""  # its name, if it is the definition of a function
    head: list[str] = field(default_factory=list)  # the tokens before the body
    code: str = ""

    @property
    def type(self) -> bool:
        return any(word in _TYPES for word in self.head)

    @property
    def names(self) -> set[str]:
        """The names that it may declare."""
        if self.function:
            return {self.function}
        if "enum" in self.head:
            return set(_WORD.findall(self.code)) - _TYPES
        if self.head[:1] == ["typedef"]:
            return set(_WORD.findall(self.code)[-1:])
        words = [word for word in _untemplated(self.head) if word[0].isalpha() or word[0] == "_"]
        return set(words) - _TYPES


def advice(header: str) -> str:
    """What to do where a header is not there that a host needs; "" for one of CUDA's own for kernels."""
    if of_torch(header):
        return TORCH
    of_host = any(library.fullmatch(header) for library, _ in LIBRARIES)
    return f"if only host code needs it, {REMEDY}" if of_host else ""


def of_torch(header: str) -> bool:
    """Whether a header is PyTorch's, which no CUDA toolkit has."""
    return bool(LIBRARIES[0][0].fullmatch(header))


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
        items = list(_items(plain, code, name))
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
        if code[found.start() : found.end()].strip() and _unused(found[1] or found[2], rest, beside, launches)
    ]  # fmt: skip
    if not launches and not includes:
        return Separated(text)
    return Separated(_without(text, rest, spans, includes), _lines(text, code, [*spans, *(m.span() for m in includes)]))


def _with_bodies(code: str, headers: Iterable[str], macros: Mapping[str, set[str]]) -> str:
    """The code without directives, with the bodies of the macros that it uses after it."""
    plain = DIRECTIVE.sub(_spaces, code)
    words = set(_WORD.findall(plain))
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


def _items(plain: str, code: str, name: str) -> Iterator[_Item]:
    """The declarations of a file and of its namespaces, in order."""
    tokens = list(_TOKEN.finditer(plain))
    begin, i = 0, 0  # the first token of a declaration

    def item(last: int, body: int, function: str = "") -> _Item:
        start, end = tokens[begin].start(), tokens[last].end()
        return _Item(start, end, function, [m[0] for m in tokens[begin:body]], code[start:end])

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


def _untemplated(head: list[str]) -> list[str]:
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


def _macros(codes: Iterable[str]) -> dict[str, set[str]]:
    """The words in the bodies of macros, by name; with those of macros that they use."""
    found = dict[str, set[str]]()
    for code in codes:
        for directive in DIRECTIVE.finditer(code):
            if define := _DEFINE.match(directive[0]):
                found.setdefault(define[1], set()).update(_WORD.findall(define[2]))
    return {name: _closure(words, found) for name, words in found.items()}


def _closure(words: set[str], macros: Mapping[str, set[str]]) -> set[str]:
    every, new = set(words), set(words)
    while new:
        new = set().union(*(macros.get(word, ()) for word in new)) - every
        every |= new
    return every


def _divided(items: list[_Item], macros: Mapping[str, set[str]]) -> tuple[list[_Item], list[_Item]]:
    """The items that kernels need, and those of the host."""
    words = [set(_WORD.findall(item.code)) for item in items]
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
            and (item.type or not _hosts(item.code))
        }  # fmt: skip
        kept |= new
    # Nothing tells whether a kernel uses an operator: it stays, unless it names what the host alone has.
    gone = {i for i, item in enumerate(items) if item.function not in ("", "operator") and i not in kept}
    names = set().union(*(items[i].names for i in gone))
    while new := {i for i in range(len(items)) if i not in kept | gone and (_hosts(items[i].code) or names & words[i])}:
        gone |= new
        names |= set().union(*(items[i].names & _declared(items[i]) for i in new))
    return [items[i] for i in sorted(kept)], [items[i] for i in sorted(gone)]


def _declared(item: _Item) -> set[str]:
    """The name of a type or variable, without the words of its own type."""
    if item.head[:1] == ["typedef"]:
        return item.names
    names = [word for word in _untemplated(item.head) if word[0].isalpha() or word[0] == "_"]
    return set(names[-1:])


def _own(item: _Item, words: set[str], macros: Mapping[str, set[str]]) -> bool:
    """Whether an item is device code by what it says, whoever uses it."""
    if not item.function:
        return bool(words & _DEVICE)
    said = set(item.head)
    if said.union(*(macros.get(word, ()) for word in said)) & _DEVICE:
        return True
    before = _untemplated(item.head)
    before = before[: before.index(item.function)] if item.function in before else before
    macro = any(word.isupper() and len(word) > 2 and word not in macros for word in before)
    return macro and not _hosts(item.code)  # of a header that is not here: it may say __device__


def _hosts(code: str) -> bool:
    """Whether code names what the host alone has."""
    return bool(_RUNTIME.search(code) or _TORCH.search(code) or LIBRARIES[1][1].search(code))


def _unused(header: str, rest: str, beside: Container[str], launches: bool) -> bool:
    """Whether a header is of a library that the code of the kernels does not use.

    `launches`: whether there is host code; else only what no CUDA toolkit has may go.
    """
    return any(
        library.fullmatch(header) and not names.search(rest) and header not in beside
        for library, names in (LIBRARIES if launches else LIBRARIES[:2])
    )


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
    needed = [header for names, header in _BROUGHT if names.search(rest) and not ({header, f"{header[1:]}.h"} & there)]
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
