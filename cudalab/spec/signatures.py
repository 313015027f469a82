"""The `__global__` functions of a `.cu` as their author declares them, templates and namespaces too."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest

from cudalab.spec import c_expression
from cudalab.spec.comments import DIRECTIVE
from cudalab.spec.cuda_source import Parameter, blank_comments, split_parameters
from cudalab.spec.dtype_macro import NAME

_ATTRIBUTE = re.compile(r"\b__(?:launch_bounds|cluster_dims|block_size|maxnreg)__\s*\((?:[^()]|\([^()]*\))*\)")
_GLOBAL = re.compile(r"\b__global__\b[^;{}()]*?\b(\w+)\s*\(")
_TEMPLATE = re.compile(r"\btemplate\s*<(.*)>\s*[^<>]*$", re.DOTALL)
_SCOPE = re.compile(r"\bnamespace\s+([A-Za-z_][\w:]*)\s*$")
_EXTERN = re.compile(r"\bextern\b((?:[^;(){}]|\([^;{}]*\))*\[\s*\])\s*;")
_STORAGE = re.compile(r"\b__shared__\b|\b(?:__align__|alignas)\s*\((?:[^()]|\([^()]*\))*\)")
_MACRO = re.compile(r"(?m)^[ \t]*#[ \t]*define[ \t]+(\w+)(?:\(([^()]*)\))?((?:[^\n\\]|\\.|\\\n)*)")
_INSIDE = re.compile(r"__global__|\b(?:blockIdx|threadIdx)\b")  # of a macro without parameters that code needs
_INSTANCE = re.compile(r"\btemplate\s+(?!<)[^;{}()<]*?\b(\w+)\s*<([^;{}()]*)>\s*\(")
_CONSTANT = re.compile(
    r"\bconst(?:expr)?\s+(?:static\s+|unsigned\s+)*(?:int|long|size_t|unsigned|auto|u?int\d+_t)\s+(\w+)\s*=([^;]*);"
)
USUAL = {"typename": "float", "class": "float", "bool": "true"}  # arguments of a template, by kind; of others 256
_COUNTS = re.compile(r"(?i).*(index|idx|offset|size).*|int\w*")  # names of types that count


@dataclass(frozen=True)
class Signature:
    """A `__global__` function."""

    path: str  # its name with the namespaces around it
    parameters: tuple[Parameter, ...]
    template: tuple[str, ...] = ()  # the template's parameters, such as `typename T`
    shared: Parameter | None = None  # the dynamic shared memory that it uses, such as `float tile[]`
    body: str = ""  # without comments; "" for a declaration
    instances: tuple[tuple[str, ...], ...] = ()  # arguments of the template, of its explicit instantiations
    bounds: str = ""  # the most threads of a block, as __launch_bounds__ has it
    instance: tuple[str, ...] = ()  # which of the instances this is

    @property
    def arguments(self) -> dict[str, str]:
        """By the name of each template parameter, that of the instance, its default, or a usual argument."""
        found = {}
        for parameter in self.template:
            declared, _, default = parameter.partition("=")
            words = declared.split()
            usual = NAME if words[-1] == NAME else USUAL.get(words[0], "256")
            usual = "int" if usual == "float" and _COUNTS.fullmatch(words[-1]) else usual
            found[words[-1]] = default.strip() or usual
        return {**found, **dict(zip(found, self.instance, strict=False))}

    @property
    def entry(self) -> str:
        """How a spec names it."""
        return f"{self.path}<{', '.join(self.arguments.values())}>" if self.template else self.path

    def type_of(self, parameter: Parameter) -> str:
        """Return the C++ type of a parameter, or of what it points to, with the template's arguments filled in."""
        return self.arguments.get(parameter.ctype, parameter.ctype)


def signatures(text: str) -> list[Signature]:
    """The definitions and declarations of a `.cu`, each name once, in the order of the file."""
    code = _without_macros(blank_comments(text))
    bounds = {found.end(): found[0] for found in _ATTRIBUTE.finditer(code) if "launch_bounds" in found[0]}
    code = _blanked(code, _ATTRIBUTE)
    instances = dict[str, list[tuple[str, ...]]]()
    for one in _INSTANCE.finditer(code):
        instances.setdefault(one[1], []).append(tuple(split_parameters(f"{one[2]}>", 0)[0]))
    dynamic = list(_dynamic(code))
    declared = list(_declared(code))
    common = [array for at, array in dynamic if not any(start <= at < end for *_, (start, end) in declared)] \
        if dynamic else []  # fmt: skip
    found = dict[str, Signature]()
    for match, head, scopes, parameters, (start, end) in declared:
        path = "::".join((*scopes, match[1]))
        if path in found and start == end:  # a definition says more than a declaration
            continue
        template = _TEMPLATE.search(code[head : match.start()])
        own = [array for at, array in dynamic if start <= at < end] or common  # a function that it calls may use these
        most = [text for at, text in bounds.items() if head <= at <= match.end()]
        of_template = tuple(split_parameters(f"{template[1]}>", 0)[0]) if template else ()
        found[path] = Signature(
            path, parameters, of_template, next(iter(own), None), code[start:end],
            tuple(instances.get(match[1], ())) if of_template else (),
            split_parameters(most[0], most[0].find("(") + 1)[0][0] if most else "",
        )  # fmt: skip
    return list(found.values())


def constants(text: str) -> dict[str, int]:
    """The whole numbers that a `.cu` gives names to: `#define TILE 16`, `constexpr int K = 2 * TILE`."""
    code, found = blank_comments(text), {"warpSize": 32}
    given = [(m[1], m[3]) for m in _MACRO.finditer(code) if m[2] is None]
    given += [(m[1], m[2]) for m in _CONSTANT.finditer(code)]
    for _ in range(2):  # one may use a later one
        for name, value in given:
            node = c_expression.parsed(value) if name not in found and value.strip() else None
            if node is not None and c_expression.names(node) <= set(found):
                number = c_expression.computed(node, found)
                found |= {} if number is None else {name: number}
    return found


def _without_macros(code: str) -> str:
    """The code with what macros make in the places where they are used, and without directives."""
    macros = [m for m in _MACRO.finditer(code) if m[2] is not None or _INSIDE.search(m[3])]
    plain = _blanked(code, DIRECTIVE)
    for macro in reversed(macros):  # what stands before a macro keeps its place
        if re.search(rf"\b{macro[1]}\b", plain):
            plain = plain[: macro.end()] + _expanded(plain[macro.end() :], macro)
    return plain


def _declared(
    code: str,
) -> Iterator[tuple[re.Match[str], int, tuple[str, ...], tuple[Parameter, ...], tuple[int, int]]]:
    """Each `__global__` function: where it is, where its declaration begins, its namespaces, parameters and body."""
    scopes, last, begin = list[str](), 0, 0
    for match in _GLOBAL.finditer(code):
        if match.start() < last:
            continue
        for sign in re.compile(r"[;{}]").finditer(code, last, match.start()):
            if sign[0] == "{":
                named = _SCOPE.search(code, max(sign.start() - 200, begin), sign.start())
                scopes.append(named[1] if named else "")
            elif sign[0] == "}" and scopes:
                scopes.pop()
            begin = sign.end()
        parts, end = split_parameters(code, match.end())
        body = _body(code, end)
        yield match, begin, tuple(filter(None, scopes)), tuple(map(Parameter, parts)), body
        last = begin = max(body[1], end)


def _blanked(code: str, pattern: re.Pattern[str]) -> str:
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), code)


def _expanded(code: str, macro: re.Match[str]) -> str:
    """`code` with what a macro makes in the places where it is used."""
    name, parameters, body = macro[1], macro[2], macro[3].replace("\\\n", "\n")
    made, at = "", 0
    for used in re.finditer(rf"\b{name}\b" + ("" if parameters is None else r"\s*\("), code):
        given, end = ([], used.end()) if parameters is None else split_parameters(code, used.end())
        values = dict(zip_longest(re.findall(r"\w+", parameters or ""), given, fillvalue=""))
        text = re.sub(r"[A-Za-z_]\w*", partial(_value, values), body)
        made, at = made + code[at : used.start()] + re.sub(r"\s*##\s*", "", text), end
    return made + code[at:]


def _value(values: Mapping[str, str], word: re.Match[str]) -> str:
    return values.get(word[0], word[0])


def _dynamic(code: str) -> Iterator[tuple[int, Parameter]]:
    """Where dynamic shared memory is declared, and as what: `extern __shared__ float tile[]`."""
    for found in _EXTERN.finditer(code):
        if "__shared__" in found[1]:
            yield found.start(), Parameter(" ".join(_STORAGE.sub(" ", found[1]).split()))


def _body(code: str, after: int) -> tuple[int, int]:
    """Where the body of a function begins and ends, whose parameters end at `after`; empty for a declaration."""
    start = re.compile(r"[;{]").search(code, after)
    if start is None or start[0] == ";":
        return after, after
    depth = 0
    for brace in re.compile(r"[{}]").finditer(code, start.start()):
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            return start.start(), brace.end()
    return start.start(), len(code)
