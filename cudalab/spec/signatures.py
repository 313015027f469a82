"""The `__global__` functions of a `.cu` as their author declares them, templates and namespaces too."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest

from cudalab.spec.cuda_source import Parameter, blank_comments, split_parameters
from cudalab.spec.dtype_macro import NAME

_ATTRIBUTE = re.compile(r"\b__(?:launch_bounds|cluster_dims|block_size|maxnreg)__\s*\((?:[^()]|\([^()]*\))*\)")
_GLOBAL = re.compile(r"\b__global__\b[^;{}()]*?\b(\w+)\s*\(")
_DIRECTIVE = re.compile(r"(?m)^[ \t]*#(?:[^\n\\]|\\.|\\\n)*")
_TEMPLATE = re.compile(r"\btemplate\s*<(.*)>\s*[^<>]*$", re.DOTALL)
_SCOPE = re.compile(r"\bnamespace\s+([A-Za-z_][\w:]*)\s*$")
_EXTERN = re.compile(r"\bextern\b((?:[^;(){}]|\([^;{}]*\))*\[\s*\])\s*;")
_STORAGE = re.compile(r"\b__shared__\b|\b(?:__align__|alignas)\s*\((?:[^()]|\([^()]*\))*\)")
_MACRO = re.compile(r"(?m)^[ \t]*#[ \t]*define[ \t]+(\w+)(?:\(([^()]*)\))?((?:[^\n\\]|\\.|\\\n)*)")
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
    instance: tuple[str, ...] = ()  # arguments of the template, of the first explicit instantiation in the file

    @property
    def arguments(self) -> dict[str, str]:
        """By the name of each template parameter, that of an instantiation, its default, or a usual argument."""
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
        """The C++ type of a parameter, or of what it points to, with the template's arguments in their places."""
        return self.arguments.get(parameter.ctype, parameter.ctype)


def signatures(text: str) -> list[Signature]:
    """The definitions and declarations of a `.cu`, each name once."""
    code = blank_comments(text)
    macros = [macro for macro in _MACRO.finditer(code) if "__global__" in macro[3]]
    code = _blanked(code, _DIRECTIVE)
    for macro in reversed(macros):  # what stands before a macro keeps its place
        code = code[: macro.end()] + _expanded(code[macro.end() :], macro)
    code = _blanked(code, _ATTRIBUTE)
    declared = list[tuple[re.Match[str], tuple[Parameter, ...], tuple[int, int]]]()
    for match in _GLOBAL.finditer(code):
        parts, end = split_parameters(code, match.end())
        declared.append((match, tuple(map(Parameter, parts)), _body(code, end)))
    dynamic = list(_dynamic(code))
    bodies = [body for _, _, body in declared]
    common = [array for at, array in dynamic if not any(start <= at < end for start, end in bodies)]
    found = dict[str, Signature]()
    for match, parameters, (start, end) in declared:
        before = code[: match.start()]
        head = before[max(before.rfind(sign) for sign in ";{}") + 1 :]
        template = _TEMPLATE.search(head)
        path = "::".join((*_scopes(before), match[1]))
        own = [array for at, array in dynamic if start <= at < end] or common  # a function that it calls may use these
        of_template = split_parameters(f"{template[1]}>", 0)[0] if template else []
        if path not in found or start < end:  # a definition says more than a declaration
            instance = _instance(code, match[1]) if of_template else ()
            found[path] = Signature(
                path, parameters, tuple(of_template), next(iter(own), None), code[start:end], instance
            )
    return list(found.values())


def _instance(code: str, name: str) -> tuple[str, ...]:
    """The arguments in the first `template __global__ void name<float, 128>(...);`."""
    found = re.search(rf"\btemplate\s+(?!<)[^;{{}}()<]*\b{name}\s*<([^;{{}}()]*)>\s*\(", code)
    return tuple(split_parameters(f"{found[1]}>", 0)[0]) if found else ()


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


def _scopes(before: str) -> Iterator[str]:
    """The named namespaces that are open at the end of this code."""
    opened: list[str] = []
    for found in re.finditer(r"[{}]", before):
        if found[0] == "{":
            named = _SCOPE.search(before, max(found.start() - 200, 0), found.start())
            opened.append(named[1] if named else "")
        elif opened:
            opened.pop()
    yield from filter(None, opened)
