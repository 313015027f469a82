"""The `__global__` functions of a `.cu` as their author declares them, templates and namespaces too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from cudalab.spec.cuda_source import Parameter, blank_comments

_ATTRIBUTE = re.compile(r"\b__(?:launch_bounds|cluster_dims|block_size|maxnreg)__\s*\((?:[^()]|\([^()]*\))*\)")
_GLOBAL = re.compile(r"\b__global__\b[^;{}()]*?\b(\w+)\s*\(")
_DIRECTIVE = re.compile(r"(?m)^[ \t]*#(?:[^\n\\]|\\.|\\\n)*")
_TEMPLATE = re.compile(r"\btemplate\s*<(.*)>\s*[^<>]*$", re.DOTALL)
_SCOPE = re.compile(r"\bnamespace\s+([A-Za-z_][\w:]*)\s*$")
USUAL = {"typename": "float", "class": "float", "bool": "true"}  # arguments of a template, by kind; of others 256


@dataclass(frozen=True)
class Signature:
    """A `__global__` function."""

    path: str  # its name with the namespaces around it
    parameters: tuple[Parameter, ...]
    template: tuple[str, ...] = ()  # the template's parameters, such as `typename T`

    @property
    def arguments(self) -> dict[str, str]:
        """By the name of each template parameter, its default, or a usual argument."""
        found = {}
        for parameter in self.template:
            declared, _, default = parameter.partition("=")
            words = declared.split()
            found[words[-1]] = default.strip() or USUAL.get(words[0], "256")
        return found

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
    for blanked in (_DIRECTIVE, _ATTRIBUTE):
        code = blanked.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), code)
    found = dict[str, Signature]()
    for match in _GLOBAL.finditer(code):
        before = code[: match.start()]
        head = before[max(before.rfind(end) for end in ";{}") + 1 :]
        template = _TEMPLATE.search(head)
        path = "::".join((*_scopes(before), match[1]))
        parameters = tuple(Parameter(part) for part in _parts(code[match.end() :], ")"))
        found.setdefault(path, Signature(path, parameters, tuple(_parts(template[1], "")) if template else ()))
    return list(found.values())


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


def _parts(code: str, end: str) -> list[str]:
    """The parts between commas, up to the bracket `end` that closes the list, or up to the end of the text."""
    depth, parts = 0, [""]
    for char in code:
        if depth == 0 and char == end:
            break
        depth += (char in "(<[") - (char in ")>]")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [" ".join(part.split()) for part in parts if part.strip()]
