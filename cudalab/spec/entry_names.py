"""Names of `__global__` functions as C++ writes them: `row_sum<64, float>`, `ns::k`, `k(float*, int)`.

A plain name, one identifier that the text of the `.cu` declares once, is found by a driver under that name
(`cuda_source.with_c_names`). The other functions keep C++ linkage: the compiler instantiates what is asked for, and its
mangled name is read from the compiled code (`lowered`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from cudalab.base.errors import SpecError, unknown
from cudalab.spec import cuda_source, dtype_macro
from cudalab.spec.cuda_source import Parameter

MARKER = "cudalab_entry"  # a function template whose instances name, in their arguments, the functions asked for
_NAME = re.compile(r"(?:::)?((?:[A-Za-z_]\w*\s*::\s*)*)([A-Za-z_]\w*)\s*")
_ILLEGAL = re.compile(r"[;{}\"\\#@`$]|//|/\*")
_SCOPE = re.compile(r"\bnamespace\b((?:\s+[\w:]+)?)(?:\s*\[\[.*?\]\])?\s*$")
_LINKAGE = re.compile(r'\bextern\s*"C?"\s*$')
_CONSTANT = re.compile(r"(?<!extern )\b__constant__\b((?:[^;{}]|\{(?:[^{}]|\{[^{}]*\})*\})*);")
_CLUSTER = re.compile(r"\b__cluster_dims__\s*\(((?:[^()]|\([^()]*\))*)\)")


@dataclass(frozen=True)
class Asked:
    """One name, taken apart. `arguments`: those of a template; `signature`: the parameters that choose an overload."""

    text: str
    path: tuple[str, ...]
    base: str
    arguments: str | None = None
    signature: str | None = None

    @property
    def expression(self) -> str:
        """C++ whose value is the function's address."""
        own = "" if self.arguments is None else f"<{self.arguments}>"
        address = f"&{''.join(f'{part}::' for part in self.path)}{self.base}{own}"
        return address if self.signature is None else f"static_cast<void (*)({self.signature})>({address})"


@dataclass(frozen=True)
class Function:
    """A `__global__` function, as the text of a `.cu` declares it."""

    name: str
    path: tuple[str, ...]  # the namespaces around it; unnamed ones are left out
    parameters: tuple[Parameter, ...]
    template: tuple[str, ...] | None  # the template's parameters, such as `typename T = float`; None: it is no template
    defined: bool
    cluster: str = ""  # what __cluster_dims__ holds
    specified: bool = False  # whether it is static or inline, beside which extern "C" cannot stand

    @property
    def full(self) -> str:
        return "::".join((*self.path, self.name))

    @property
    def template_names(self) -> tuple[str, ...]:
        """The names of the template's parameters."""
        return tuple(part.partition("=")[0].split()[-1].lstrip(".*&") for part in self.template or ())

    @property
    def written(self) -> str:
        """How a spec names it: a template gets its arguments, which stand here by their names."""
        return self.full if self.template is None else f"{self.full}<{', '.join(self.template_names)}>"

    @property
    def with_types(self) -> str:
        """How a spec names it beside others of its name."""
        return f"{self.full}({', '.join(parameter.type for parameter in self.parameters)})"


@lru_cache(maxsize=1024)
def asked(name: str) -> Asked:
    """Take a name apart. Raises SpecError for what names no function."""
    found = _NAME.match(name)
    wrong = SpecError(f"entry {name!r} does not name a function; write k, ns::k, row_sum<64, float> or k(float*, int)")
    if not found or _ILLEGAL.search(name) or not name.isprintable():
        raise wrong
    rest, arguments, signature = name[found.end() :].strip(), None, None
    if rest.startswith("<"):
        end = rest.rfind(">", 0, _signature_at(rest))
        if end < 0:
            raise wrong
        arguments, rest = rest[1:end].strip(), rest[end + 1 :].strip()
    if rest.startswith("(") and rest.endswith(")"):
        signature, rest = rest[1:-1].strip(), ""
    if rest:
        raise wrong
    path = tuple(part.strip() for part in found[1].split("::") if part.strip())
    return Asked(name, path, found[2], arguments, signature)


def _signature_at(rest: str) -> int:
    """Where the parameters begin in the rest of a name that begins with `<`; its length if there are none."""
    if not rest.endswith(")"):
        return len(rest)
    depth = 0
    for i in range(len(rest) - 1, -1, -1):
        depth += (rest[i] == ")") - (rest[i] == "(")
        if depth == 0:
            return i
    return len(rest)


@lru_cache(maxsize=64)
def functions(code: str) -> tuple[Function, ...]:
    """The `__global__` functions that comment-free code declares, in order."""
    return tuple(_functions(code))


@lru_cache(maxsize=64)
def constants(code: str) -> Mapping[str, str]:
    """The C++ type of each `__constant__` variable's elements in comment-free code, by name with its namespaces."""
    found: dict[str, str] = {}
    for match, path in _in_scopes(code, _CONSTANT.finditer(code)):
        rest = match[1]
        while rest != (rest := re.sub(r"\{[^{}]*\}|\([^()]*\)", " ", rest)):
            pass
        kind = ""
        for item in rest.split(","):
            words = re.sub(r"\[.*", "", item.partition("=")[0], flags=re.DOTALL).split()
            if words and words[-1].isidentifier():
                kind = kind or " ".join(word for word in words[:-1] if word not in ("const", "static"))
                found["::".join((*path, words[-1]))] = kind
    return found


def constant_named(name: str, known: Iterable[str]) -> str:
    """One of the `__constant__` variables; its namespaces may be left out. Raises NotFound."""
    known = tuple(known)
    if name in known:
        return name
    found = [one for one in known if one.endswith(f"::{name}")]
    if len(found) != 1:
        raise unknown("__constant__ variable", name, known)
    return found[0]


def _in_scopes(code: str, matches: Iterable[re.Match[str]]) -> Iterator[tuple[re.Match[str], tuple[str, ...]]]:
    """Yield each match with the namespaces around it."""
    every = [*((m.start(), m, False) for m in re.finditer(r"[{}]", code)), *((m.start(1), m, True) for m in matches)]
    scopes: list[tuple[str, ...]] = []
    last = 0
    for _, match, asked_for in sorted(every, key=lambda place: place[0]):
        if asked_for:
            yield match, tuple(part for scope in scopes for part in scope)
            continue
        if match[0] == "{":
            scopes.append(_scope(code[last : match.start()]))
        elif scopes:
            scopes.pop()
        last = match.end()


def _functions(code: str) -> Iterator[Function]:
    for match, path in _in_scopes(code, cuda_source.global_functions(code)):
        yield _function(code, match, path)


def _scope(before: str) -> tuple[str, ...]:
    """The namespaces that a brace opens."""
    statement = re.split("[;}]", before)[-1].rstrip()
    found = _SCOPE.search(statement)
    return tuple(part for part in found[1].strip().split("::") if part) if found else ()


def _function(code: str, match: re.Match[str], path: tuple[str, ...]) -> Function:
    parts, end = cuda_source.split_parameters(code, match.end())
    start = max(code.rfind(c, 0, match.start()) for c in ";{}") + 1
    heads = list(re.finditer(r"\btemplate\s*<", code[start : match.start()]))
    template = None
    if heads:
        inner, _ = cuda_source.split_parameters(code, start + heads[-1].end())
        template = tuple(inner)
    defined = code[end:].lstrip()[:1] == "{"
    cluster = _CLUSTER.search(code[start : match.end()])
    return Function(
        match[1],
        path,
        tuple(map(Parameter, parts)),
        template,
        defined,
        cluster[1].strip() if cluster else "",
        specified=bool(re.search(r"\b(?:static|inline)\b", code[start : match.end()])),
    )


@lru_cache(maxsize=64)
def of_text(text: str) -> tuple[Function, ...]:
    """The `__global__` functions of a `.cu`, as far as its text shows them: macros may make others."""
    return functions(cuda_source.blank_comments(text))


def overloaded(known: Iterable[Function]) -> set[str]:
    """Names that several functions have: in several namespaces, as template and function, or with other parameters."""
    by_name: dict[str, list[Function]] = {}
    for function in known:
        by_name.setdefault(function.name, []).append(function)
    return {name for name, some in by_name.items() if len({_told_apart(one) for one in some if one.defined}) > 1}


def _told_apart(function: Function) -> object:
    types = tuple((p.ctype, p.pointer, p.constant) for p in function.parameters)
    return function.path, function.template is not None, types


def _of_cpp(text: str, names: Iterable[str]) -> set[str]:
    """Identifiers of the functions that keep C++ linkage: overloaded ones, and those that a name asks for as C++."""
    specified = {function.name for function in of_text(text) if function.specified}
    return overloaded(of_text(text)) | specified | {asked(name).base for name in names if not name.isidentifier()}


def in_all(text: str, labels: Iterable[str], launched: Iterable[str] = ()) -> tuple[str, ...]:
    """The functions that a `.cu` is compiled for: the entries that its text shows, and those that are launched."""
    return tuple(dict.fromkeys((*(label for label in labels if _shown(text, label)), *launched)))


def _shown(text: str, label: str) -> bool:
    """Whether an entry has the name of a function that the text shows; its launches may name others."""
    return not wrong(text, label) and asked(label).base in {function.name for function in of_text(text)}


def not_plain(text: str, names: Iterable[str]) -> tuple[str, ...]:
    """Those of `names` under which a driver finds nothing."""
    names = tuple(dict.fromkeys(names))
    kept, plain = _of_cpp(text, names), set(cuda_source.entries_of(cuda_source.blank_comments(text)))
    return tuple(name for name in names if name not in plain or name in kept)


def resolved_among(known: Sequence[Function], name: str) -> Asked:
    """A name taken apart; one that a single namespace has gets that namespace."""
    one = asked(name)
    places = {function.path for function in _named(known, one)}
    return replace(one, path=places.pop()) if len(places) == 1 else one


def expression(text: str, name: str) -> str:
    """C++ whose value is the address of an entry of a `.cu`."""
    return resolved_among(of_text(text), name).expression


def source(text: str, file: str, names: Iterable[str] = (), *, instantiate: bool = True) -> str:
    """The `.cu` as nvcc and NVRTC get it: plain names have C linkage, and what else is asked for is instantiated.

    Without `instantiate` the compiler is told otherwise, as NVRTC by its name expressions.
    """
    names = tuple(names)
    wanted = not_plain(text, names) if instantiate else ()
    program = cuda_source.with_c_names(text, file, _of_cpp(text, names)) + dtype_macro.alias(names)
    return program + (markers([expression(text, name) for name in wanted]) if wanted else "")


def markers(expressions: Sequence[str]) -> str:
    """Lines that instantiate these functions, and by which `lowered` finds their names."""
    head = f'\n#line 1 "(entries)"\ntemplate <auto kernel, int index> __global__ void {MARKER}() {{}}\n'
    lines = (f"template __global__ void {MARKER}<{one}, {i}>();\n" for i, one in enumerate(expressions))
    return head + "".join(lines)


def marked(text: str) -> list[str]:
    """The expressions of the markers in a source."""
    return re.findall(rf"^template __global__ void {MARKER}<(.*), \d+>\(\);$", text, re.MULTILINE)


@lru_cache(maxsize=256)  # asked before every launch
def wrong(text: str, name: str) -> str:
    """Why the text of a `.cu` shows that there is no such entry, and what to write; "" where the compiler must say."""
    known = of_text(text)
    try:
        asked(name)
    except SpecError as error:
        return str(error)
    if _hidden(text) and not any(f.name == asked(name).base for f in known):
        return ""
    return wrong_among(known, name)


def wrong_among(known: Sequence[Function], name: str) -> str:
    """Why these functions have no such entry, and what to write; "" where the compiler has to say."""
    one = asked(name)
    mine = _named(known, one)
    if not mine:
        return str(unknown("__global__ function", name, tuple(dict.fromkeys(f.written for f in known))))
    templates = [f for f in mine if f.template is not None]
    plain = {_told_apart(f): f for f in mine if f.template is None and f.defined}
    if templates and not plain and one.arguments is None and one.signature is None:
        example = f"{templates[0].full}<{', '.join(map(_example, templates[0].template or ()))}>"
        return f'{name} is a template ({templates[0].written}); write "{example}", with the arguments that you want'
    if len(plain) > 1 and one.signature is None and one.arguments is None:
        if len({f.path for f in plain.values()}) > 1 and not one.path:
            return f"{name} is in several namespaces; write {' or '.join(repr(f.full) for f in plain.values())}"
        return f"{name} is overloaded; write {' or '.join(repr(f.with_types) for f in plain.values())}"
    if one.arguments is not None and not templates:
        return f"{one.base} is not a template; write {mine[0].full!r}"
    return ""


def _named(known: Sequence[Function], one: Asked) -> list[Function]:
    """The functions that a name may mean."""
    return [f for f in known if f.name == one.base and f.path[max(len(f.path) - len(one.path), 0) :] == one.path]


def _hidden(text: str) -> bool:
    """Whether macros or headers may declare functions that the text does not show."""
    code = cuda_source.blank_comments(text)
    return bool(re.search(r"^[ \t]*#[ \t]*define\b(?:[^\n\\]|\\.)*__global__", code, re.MULTILINE | re.DOTALL)) or bool(
        re.search(r'^[ \t]*#[ \t]*include[ \t]*"', text, re.MULTILINE)
    )


def _example(parameter: str) -> str:
    """An argument that fits a template's parameter."""
    default = parameter.partition("=")[2].strip()
    kind = parameter.split()[0]
    return default or ("float" if kind in ("typename", "class") else "true" if kind == "bool" else "64")


@lru_cache(maxsize=256)  # asked before every launch
def parameters(text: str, name: str) -> tuple[Parameter, ...] | None:
    """The declared parameters of an entry; None where the text does not show them: macros, packs, unlike overloads."""
    one = asked(name)
    mine = _named(of_text(text), one)
    if one.signature is not None:
        parts, _ = cuda_source.split_parameters(one.signature + ")", 0)
        return tuple(Parameter(f"{part} value") if "*" not in part else Parameter(part) for part in parts)
    if not mine or any("..." in p.text for f in mine for p in f.parameters):
        return None
    if one.arguments is None:
        mine = [f for f in mine if f.template is None] or mine
    chosen = next((f for f in mine if f.defined), mine[0])
    if len({len(f.parameters) for f in mine}) > 1 or (len({f.parameters for f in mine if f.defined}) > 1):
        return None
    return _substituted(chosen, one)


def _substituted(function: Function, one: Asked) -> tuple[Parameter, ...]:
    """The parameters with the template's parameters replaced by the arguments, as far as those are given."""
    if not function.template or one.arguments is None:
        return function.parameters
    values, _ = cuda_source.split_parameters(one.arguments + ">", 0)
    defaults = (part.partition("=")[2].strip() for part in function.template)
    given = {name: value for name, value in zip(function.template_names, defaults, strict=True) if value}
    given |= zip(function.template_names, values, strict=False)
    if not given:
        return function.parameters
    names = re.compile(rf"\b({'|'.join(map(re.escape, given))})\b")
    return tuple(Parameter(names.sub(lambda m: given[m[1]], p.text)) for p in function.parameters)
