"""How the host code of a `.cu` launches its kernels: what `kernel<<<grid, block, shared>>>(arguments)` says.

Only what is simple is read: integer expressions of constants, of variables that are set once, of sizes of tensors, and
of functions and macros that only return an expression. Everything else is None, and a question to the author.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

from cudalab.spec import c_expression as c
from cudalab.spec.comments import blank_comments
from cudalab.spec.dtype import of_c

SIZEOF = "sizeof_scalar_t"  # stands for the bytes of an element of the kernel's dtype
_FLOAT = "as_float"  # stands for a cast to a floating-point type: as_float * n
_KERNEL = re.compile(r"([A-Za-z_]\w*)\s*$")
_DECLARED = re.compile(
    r"(?<![\w.>])(?:(?:static|const|constexpr|auto|dim3|unsigned|signed|long|short|int|size_t|u?int\d+_t|std\s*::\s*size_t)"
    r"\b[\s&]*)+(?=[A-Za-z_]\w*\s*[=({,])"
)
_DECLARATOR = re.compile(r"\s*([A-Za-z_]\w*)\s*(=|\(|\{)(.*)", re.DOTALL)
_FUNCTION = re.compile(r"\b([A-Za-z_]\w*)\s*\(([^(){};]*)\)\s*(?:const\s*|noexcept\s*)*\{\s*return\b([^;{}]*);\s*\}")
_MACRO = re.compile(r"(?m)^[ \t]*#[ \t]*define[ \t]+(\w+)\(([^()]*)\)((?:[^\n\\]|\\.|\\\n)*)")
_SCOPE = re.compile(r"(?:\bnamespace\b[\w:\s]*|\bextern\s*\"C\"\s*)$")
_POINTER = re.compile(
    r"\(\s*(?:const\s+)?[\w:]+(?:\s+const)?\s*\*+\s*\)|\b(?:reinterpret|const|static)_cast\s*<[^<>]*\*\s*>"
)
_DATA = re.compile(r"\.\s*(?:(?:mutable|const)_)?data(?:_ptr)?\s*(?:<[^<>]*>\s*)?\(\s*\)")
_SIZEOF = re.compile(r"\bsizeof\s*\(([\w\s:]+)\)")
_SIZES = re.compile(r"\b([A-Za-z_]\w*)\s*\.\s*(?:sizes\s*\(\s*\)|shape)\s*\[\s*(-?\d+)\s*\]")
_KEYWORD = re.compile(rf"\b(?:{'|'.join(sorted(set(keyword.kwlist) - {'and', 'or', 'not'}))})\b")
MOST = 500  # launches that are read
LONGEST = 4000  # characters of one part of a launch
_OF_TENSORS = ("size", "numel", "data_ptr")  # what is asked of tensors
_DEEPEST = 24  # variables of variables


@dataclass(frozen=True)
class HostLaunch:
    """One `kernel<template><<<grid, block, shared>>>(arguments)`, at a line. None: what is not simple."""

    kernel: str
    line: int
    template: tuple[str, ...] = ()
    grid: tuple[ast.expr, ...] | None = None
    block: tuple[ast.expr, ...] | None = None
    shared: ast.expr | None = None
    arguments: tuple[ast.expr | None, ...] = ()
    known: Mapping[str, ast.expr] = field(default_factory=dict)  # the values of variables that are whole arguments
    written: str = ""  # grid and block as they stand there

    def value(self, node: ast.expr | None) -> ast.expr | None:
        """Return an argument, or the value of the variable that it is."""
        return self.known.get(node.id, node) if isinstance(node, ast.Name) else node

    def sizes(self, tensor: str) -> list[str]:
        """Return every size of a tensor up to the last one that the launch uses: `x.size(0)`, `x.size(1)`."""
        parts = [*(self.grid or ()), *(self.block or ()), self.shared, *self.arguments, *self.known.values()]
        used = {ast.unparse(node) for part in parts if part for node in ast.walk(part) if isinstance(node, ast.Call)}
        every = [f"{tensor}.size({i})" for i in range(8)]
        return every[: max((i + 1 for i, size in enumerate(every) if size in used), default=0)]


def launches(text: str, numbers: Mapping[str, int]) -> list[HostLaunch]:
    """Every launch in the host code of a `.cu`, in order. `numbers`: its constants by name."""
    code = blank_comments(text)
    functions = _functions(code)
    found = list[HostLaunch]()
    for mark in islice(re.finditer("<<<", code), MOST):
        named = _named(code[: mark.start()])
        pieces, end = _pieces(code, mark.end(), ">>>")
        begins = re.compile(r"\s*\(").match(code, end)
        if not named or not 2 <= len(pieces) <= 4 or not begins or _in_macro(code, mark.start()):
            continue
        arguments, _ = _pieces(code, begins.end(), ")")
        place = _Place(code[_body(code, mark.start()) : mark.start()], numbers, functions)
        known = {_python(text): node for text in arguments if text.isidentifier() and (node := place.read(text))}
        place.kept |= set(known)
        found.append(HostLaunch(
            named[0], code.count("\n", 0, mark.start()) + 1, tuple(map(place.template, named[1])),
            place.sides(pieces[0]), place.sides(pieces[1]), place.read(pieces[2]) if len(pieces) > 2 else None,
            tuple(map(place.read, arguments)), known, ", ".join(" ".join(piece.split()) for piece in pieces[:2]),
        ))  # fmt: skip
    return found


def _named(before: str) -> tuple[str, list[str]] | None:
    """The function that is launched, and the arguments of its template, from the text before `<<<`."""
    text, arguments = before.rstrip(), list[str]()
    if text.endswith(">"):
        depth = 0
        for at in range(len(text) - 1, -1, -1):
            depth += (text[at] == ">") - (text[at] == "<")
            if not depth:
                arguments, text = _pieces(text, at + 1, ">")[0], text[:at]
                break
    name = _KERNEL.search(text)
    return (name[1], arguments) if name else None


def _pieces(code: str, start: int, close: str) -> tuple[list[str], int]:
    """The parts between commas from `start` to `close`, and where that ends."""
    depth, parts, at = 0, [""], start
    end = min(len(code), start + LONGEST)
    while at < end and (depth or not code.startswith(close, at)):
        depth += (code[at] in "([{") - (code[at] in ")]}")
        if code[at] == "," and not depth:
            parts.append("")
        else:
            parts[-1] += code[at]
        at += 1
    return [part.strip() for part in parts if part.strip()], at + len(close)


def _in_macro(code: str, at: int) -> bool:
    """Whether a place is in a preprocessor line, whose names are those of whoever uses the macro."""
    line = code.rfind("\n", 0, at) + 1
    while line > 1 and code[line - 2] == "\\":
        line = code.rfind("\n", 0, line - 1) + 1
    return code[line:at].lstrip().startswith("#")


def _body(code: str, at: int) -> int:
    """Where the body of the function around a place begins."""
    opened = list[int]()
    for brace in re.compile("[{}]").finditer(code, 0, at):
        if brace[0] == "{":
            opened.append(brace.start())
        elif opened:
            opened.pop()
    own = [start for start in opened if not _SCOPE.search(code, max(start - 200, 0), start)]
    return own[0] if own else 0


def _functions(code: str) -> dict[str, tuple[list[str], str]]:
    """Functions and macros that only return an expression: their parameters, and it."""
    found = dict[str, tuple[list[str], str]]()
    for one in (*_FUNCTION.finditer(code), *_MACRO.finditer(code)):
        parameters = [re.findall(r"\w+", part)[-1:] for part in one[2].split(",")]
        found.setdefault(one[1], ([name for part in parameters for name in part], one[3].replace("\\\n", " ")))
    return found


@dataclass
class _Place:
    """The code of a function before a launch. `functions` as `_functions` has them."""

    code: str
    numbers: Mapping[str, int]
    functions: Mapping[str, tuple[list[str], str]]
    kept: set[str] = field(default_factory=set)  # names that stay
    _open: list[str] = field(default_factory=list)  # the names that are being resolved

    @cached_property
    def variables(self) -> dict[str, str]:
        """The values of variables that are set once, as text; of a dim3 `dim3(x, y, z)`."""
        found = dict[str, str]()
        for declared in _DECLARED.finditer(self.code):
            for part in _pieces(self.code, declared.end(), ";")[0]:
                if not (one := _DECLARATOR.fullmatch(part)):
                    continue
                value = one[3] if one[2] == "=" else one[3].rstrip()[:-1]
                found[one[1]] = f"dim3({value})" if "dim3" in declared[0] and one[2] != "=" else value
        return {name: value for name, value in found.items() if self._sets(name) <= 1}

    def _sets(self, name: str) -> int:
        """How often a variable gets a value, or a part of it."""
        pattern = (
            rf"(?<![\w.]){name}\s*(?:\.\s*[xyz]\s*)?(?:(?:[-+*/%|&^]|<<|>>)?=(?!=)|\+\+|--)|(?:\+\+|--|&)\s*{name}\b"
        )
        return len(re.findall(pattern, self.code))

    def sides(self, text: str) -> tuple[ast.expr, ...] | None:
        """The sides of a grid or a block; None if one is not simple."""
        node = self.read(text)
        sides = node.args if _is_dim3(node) else [node]  # type: ignore[union-attr]
        return tuple(one for one in sides if one is not None) if all(sides) and len(sides) < 4 else None

    def read(self, text: str) -> ast.expr | None:
        """An expression with the values of variables, constants and functions in their places; None if it is none."""
        text = _SIZES.sub(r"\1.size(\2)", _DATA.sub(".data_ptr()", _POINTER.sub("", text)))
        text = _SIZEOF.sub(_bytes, text).replace("{", "(").replace("}", ")")
        text = re.sub(r"\(\s*(?:float|double)\s*\)", f"{_FLOAT}*", text)
        text = re.sub(r"\b(?:static_cast\s*<\s*)?(?:float|double)\b\s*>?\s*(?=\()", f"{_FLOAT}*", text)
        text = re.sub(r"\b(\d+\.\d*(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+)[fFlL]?(?!\w)", r"\1", text)
        node = c.parsed(_KEYWORD.sub(lambda word: _python(word[0]), text))
        return None if node is None else self._resolved(node)

    def template(self, text: str) -> str:
        """An argument of a template: a number where it is a constant, else as it is written."""
        node = self.read(text)
        return str(node.value) if isinstance(node, ast.Constant) and type(node.value) is int else " ".join(text.split())

    def _resolved(self, node: ast.expr) -> ast.expr:
        place = self

        class _Resolve(ast.NodeTransformer):
            def visit_Name(self, name: ast.Name) -> ast.expr:
                return place._value(name)

            def visit_Attribute(self, one: ast.Attribute) -> ast.expr:
                of = self.visit(one.value)
                if one.attr in ("x", "y", "z") and _is_dim3(of):
                    side = "xyz".index(one.attr)
                    return of.args[side] if side < len(of.args) else ast.Constant(1)
                return one

            def visit_Call(self, call: ast.Call) -> ast.expr:
                if isinstance(call.func, ast.Name) and call.func.id in place.functions:
                    return place._returned(call, [self.visit(one) for one in call.args]) or call
                call.args = [self.visit(one) for one in call.args]
                return call

        found = _Resolve().visit(node)
        number = c.whole(c.polynomial(found)) if not isinstance(found, ast.Constant) else None
        return found if number is None else ast.Constant(number)

    def _value(self, name: ast.Name) -> ast.expr:
        if name.id in self.kept:
            return name
        if name.id in self.variables and name.id not in self._open and len(self._open) < _DEEPEST:
            self._open.append(name.id)
            value = self.read(self.variables[name.id])
            self._open.pop()
            return value if value is not None and _plain(value) else name
        return ast.Constant(self.numbers[name.id]) if name.id in self.numbers else name

    def _returned(self, call: ast.Call, given: list[ast.expr]) -> ast.expr | None:
        """What a function that only returns an expression gives for these arguments."""
        assert isinstance(call.func, ast.Name)
        parameters, text = self.functions[call.func.id]
        node = c.parsed(text) if len(parameters) == len(given) and len(self._open) < _DEEPEST else None
        if node is None:
            return None
        self._open.append(f"{call.func.id}()")
        found = self._resolved(c.inlined(node, dict(zip(parameters, given, strict=True)).get))
        self._open.pop()
        return found


def _python(name: str) -> str:
    return f"{name}_" if keyword.iskeyword(name) else name


def _is_dim3(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dim3"


def _plain(node: ast.expr) -> bool:
    """Whether a value is one of integers and sizes, not a new tensor."""
    calls = [one.func for one in ast.walk(node) if isinstance(one, ast.Call)]
    known = ("dim3", "min", "max", "ceil", "ceilf", "ceil_div", "cdiv")
    return all(
        one.id in known if isinstance(one, ast.Name) else isinstance(one, ast.Attribute) and one.attr in _OF_TENSORS
        for one in calls
    )


def _bytes(found: re.Match[str]) -> str:
    kind = of_c(" ".join(found[1].split()))
    return str(kind.itemsize) if kind else SIZEOF if found[1].strip() in ("scalar_t", "T") else found[0]


@dataclass(frozen=True)
class Translation:
    """Expressions of the host as those of a launch function of a spec.

    `tensors`: arrays of the spec by their names in the host code; `values`: other expressions of the spec by those of
    the host that they replace; `known`: the values of variables; `itemsize`: the bytes of an element of the kernel's
    dtype; `places`: which dimension of an array of the spec a tensor's is, where that is known.
    """

    tensors: Mapping[str, str]
    values: Mapping[str, str]
    known: Mapping[str, ast.expr]
    itemsize: str = ""
    places: Mapping[str, Mapping[int, int]] = field(default_factory=dict)

    def translate(self, node: ast.expr | None) -> str:
        """The expression; "" where it cannot be said."""
        if node is None:
            return ""
        if (value := self.values.get(ast.unparse(node))) is not None:
            return value
        match node:
            case ast.Constant(value=int() as whole):
                return str(whole)
            case ast.Name(id=name) if name == SIZEOF:
                return self.itemsize
            case ast.Name(id=name) if name in self.known:
                known = self.known[name]
                return "" if ast.unparse(known) == name else self.translate(known)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=what)) if name in self.tensors:
                return self._size(self.tensors[name], what, node.args)
            case ast.Call(func=ast.Name(id=("min" | "max") as name), args=[a, b]):
                return self._joined(f"{name}({{}}, {{}})", a, b)
            case ast.Call(func=ast.Name(id="ceil_div" | "cdiv"), args=[a, b]):
                return self._joined("blocks({}, {})", a, b)
            case ast.Call(func=ast.Name(id="ceil" | "ceilf"), args=[ast.BinOp(op=ast.FloorDiv()) as over]):
                floats = any(_is_float(one) for one in ast.walk(over))
                return self._joined("blocks({}, {})", _whole(over.left), _whole(over.right)) if floats else ""
            case ast.BinOp(op=ast.FloorDiv(), left=left, right=right):
                if isinstance(word := _rounded_up(left, right), ast.expr):
                    return self._joined("blocks({}, {})", word, right)
                return self._joined("{} // {}", left, right, brackets=True)
            case ast.BinOp(op=op, left=left, right=right) if type(op) in _SIGNS:
                return self._joined(f"{{}} {_SIGNS[type(op)]} {{}}", left, right, brackets=True)
        return ""

    def _joined(self, text: str, a: ast.expr, b: ast.expr, brackets: bool = False) -> str:
        one, other = (
            f"({said})" if brackets and " " in said and not _closed(said) else said
            for said in map(self.translate, (a, b))
        )
        return text.format(one, other) if one and other else ""

    def _size(self, array: str, what: str, arguments: list[ast.expr]) -> str:
        if what == "numel" and not arguments:
            return f"{array}.size"
        if what == "size" and len(arguments) == 1 and re.fullmatch(r"-?\d", side := ast.unparse(arguments[0])):
            place = self.places[array].get(int(side)) if array in self.places else int(side)
            return "" if place is None else f"{array}.shape[{place}]"
        return ""


_SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Mod: "%", ast.LShift: "<<", ast.RShift: ">>"}


def _closed(text: str) -> bool:
    """Whether text is one call, such as `blocks(x.size, 256)`."""
    return bool(re.fullmatch(r"\w+\([^()]*\)", text))


def _rounded_up(left: ast.expr, right: ast.expr) -> ast.expr | None:
    """What is divided and rounded up by `(n + t - 1) / t`: n; None if that is not how it is written."""
    of = c.minus(c.plus(c.polynomial(left), {(): 1}), c.polynomial(right))
    text = c.written(of)
    return ast.parse(text, mode="eval").body if of and not text.startswith("-") and of != c.polynomial(left) and all(
        factor > 0 for factor in of.values()
    ) and len(of) == 1 else None  # fmt: skip


def _is_float(node: ast.AST) -> bool:
    return (isinstance(node, ast.Name) and node.id == _FLOAT) or (
        isinstance(node, ast.Constant) and isinstance(node.value, float)
    )


def _whole(node: ast.expr) -> ast.expr:
    """Return an expression without the cast to a floating-point type around it."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and _is_float(node.left):
        return node.right
    if isinstance(node, ast.Constant) and isinstance(node.value, float) and node.value.is_integer():
        return ast.Constant(int(node.value))
    return node


def tensor(node: ast.expr | None) -> str:
    """The name of the array that an argument passes: `x`, `x.data_ptr()`; "" for another one."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "data_ptr":
        node = node.func.value
    return node.id if isinstance(node, ast.Name) else ""


def literal(node: ast.expr | None) -> str:
    """The number that an argument is; "" for any other."""
    try:
        value = ast.literal_eval(node) if node is not None else None
    except (ValueError, TypeError):
        return ""
    return repr(value) if isinstance(value, (int, float)) else ""


def by_kernel(text: str, numbers: Mapping[str, int]) -> dict[str, list[HostLaunch]]:
    """The launches of each kernel, by the last part of its name."""
    found = dict[str, list[HostLaunch]]()
    for one in launches(text, numbers):
        found.setdefault(one.kernel, []).append(one)
    return found


def instances(template: tuple[str, ...], some: list[HostLaunch], text: str) -> tuple[tuple[str, ...], ...]:
    """The arguments of a kernel's template with which it is launched, where all of them say what they are.

    `text`: the `.cu`, whose types may be arguments.
    """
    known = set(re.findall(r"\b(?:struct|class)\s+([A-Za-z_]\w*)", text)) | {"scalar_t"}
    fit = [
        one.template for one in some
        if len(one.template) == len(template)
        and all(part in known or re.fullmatch(r"-?\d+|true|false", part) or of_c(part) for part in one.template)
    ]  # fmt: skip
    return tuple(dict.fromkeys(fit))
