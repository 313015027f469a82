"""CUDA code in strings of a Python file: `load_inline` of PyTorch, `RawKernel` of CuPy, `SourceModule` of PyCUDA.

The file is read, never imported or run: strings are followed through variables, `+`, f-strings, `%`, `format`,
`replace` and `join`, as far as their parts are written in the file.
"""

from __future__ import annotations

import ast
import keyword
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from string import Template
from typing import Any

from cudalab.base.errors import InputError
from cudalab.spec.comments import blank_comments
from cudalab.spec.cuda_source import global_functions

# Functions that take CUDA code: the parameter, its place, and the place of a name for the code.
_TAKE = {
    "load_inline": ("cuda_sources", 2, 0), "RawKernel": ("code", 0, 1), "RawModule": ("code", 0, None),
    "SourceModule": ("source", 0, None), "Program": ("code", 0, None),
}  # fmt: skip
_METHODS = ("strip", "lstrip", "rstrip", "replace", "format", "join", "encode", "decode", "lower", "upper")
LAB = __package__.partition(".")[0]
_DEEPEST = 100  # variables of variables
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass(frozen=True)
class Taken:
    """CUDA code of a Python file. `said`: which string it is, and its lines."""

    name: str  # of a kernel, for the files
    code: str
    said: str


class _Unwritten(Exception):
    """A part of a string is not written in the file. Its text says which."""


def has_code(path: Path, of_another: bool = False) -> bool:
    """Whether a Python file has CUDA code that `taken` reads; `of_another`: and it is no spec but another library's.

    It passes the code to one, and does not import the lab, as a spec does that writes its own `.cu`.
    """
    try:
        return bool(taken(path)) and not (of_another and _read(path).may_be_spec())
    except InputError:
        return False


def taken(path: Path) -> list[Taken]:
    """The CUDA code in a Python file, in order. Raises InputError with a line where it cannot be read, or has none."""
    file = _read(path)
    found = dict[str, Taken]()
    for what, node, named in file.places():
        try:
            code = file.text(node)
        except (_Unwritten, TypeError, ValueError, RecursionError) as error:
            said = error if isinstance(error, _Unwritten) else f"{node.lineno}: this expression fails: {error}"
            raise InputError(
                f"{path}:{said}, so the CUDA code cannot be read without running the file; write it to a .cu"
            ) from None
        if kernels := [one[1] for one in global_functions(blank_comments(code))]:
            name = _file_name(named or kernels[0], path.stem)
            lines = "line {}" if node.lineno == (node.end_lineno or node.lineno) else "lines {} to {}"
            found.setdefault(code, Taken(name, code, f"{what}, {lines.format(node.lineno, node.end_lineno)} of {path}"))
    if not found:
        raise InputError(
            f"{path} has no string with a __global__ function; give a .cu, or a .py that passes CUDA code to "
            f"{', '.join(_TAKE)}"
        )
    names = {one.name for one in found.values()}
    several, given = list[Taken](), set[str]()
    for one in found.values():
        numbered = (f"{one.name}_{i}" for i in count(2))
        name = one.name if one.name not in given else next(name for name in numbered if name not in names | given)
        given.add(name)
        several.append(Taken(name, one.code, one.said))
    return several


def _read(path: Path) -> _File:
    try:
        return _File(ast.parse(path.read_bytes()))
    except RecursionError:
        raise InputError(
            f"{path} has expressions that are nested too deeply to be read; write the code to a .cu"
        ) from None
    except (SyntaxError, ValueError) as error:
        raise InputError(f"{path}:{getattr(error, 'lineno', None) or 1}: it is not valid Python: {error}") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None


def _file_name(name: str, other: str) -> str:
    """A name for files: that of a kernel or a module as an identifier, and not that of the Python file."""
    word = re.sub(r"\W", "_", name)
    word = f"k{word}" if not word.isidentifier() or keyword.iskeyword(word) else word
    return f"{word}_cuda" if word == other else word


class _File:
    """A module, and where each name in it gets its values."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._scope: dict[ast.AST, ast.AST] = {}  # the function around each node, or the module
        self._values: dict[tuple[ast.AST, str], list[ast.expr]] = {}
        self._enter(tree, tree)

    def _enter(self, node: ast.AST, scope: ast.AST) -> None:
        self._scope[node] = scope
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                name = target.id if isinstance(target, ast.Name) else getattr(target, "attr", "")
                own = self._tree if isinstance(target, ast.Attribute) else scope
                values = self._values.setdefault((own, name), [])
                joined = isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) and len(values) == 1
                value = ast.BinOp(values.pop(), ast.Add(), node.value) if joined else node.value
                values.append(ast.copy_location(value, node.value))
                self._scope[value] = scope
        for child in ast.iter_child_nodes(node):
            self._enter(child, node if isinstance(node, _FUNCTIONS) else scope)

    def places(self) -> Iterator[tuple[str, ast.expr, str]]:
        """Expressions that are CUDA code: what each is, and a name. Those of calls, else every string."""
        calls = list(self._calls())
        yield from calls
        for one in ast.walk(self._tree) if not calls else ():
            if isinstance(one, ast.Constant) and isinstance(one.value, str) and "__global__" in one.value:
                yield "a string", one, ""

    def may_be_spec(self) -> bool:
        """Whether the file imports the lab, or passes no CUDA code to another library."""
        modules = (
            name
            for node in ast.walk(self._tree)
            if isinstance(node, (ast.Import, ast.ImportFrom))
            for name in (getattr(node, "module", None), *(alias.name for alias in node.names))
        )
        return LAB in {(name or "").partition(".")[0] for name in modules} or not any(self._calls())

    def _calls(self) -> Iterator[tuple[str, ast.expr, str]]:
        """The places that calls are."""
        for call in (node for node in ast.walk(self._tree) if isinstance(node, ast.Call)):
            function = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
            if function not in _TAKE:
                continue
            parameter, at, name_at = _TAKE[function]
            if (code := _argument(call, parameter, at)) is not None:
                name = _argument(call, "name", name_at) if name_at is not None else None
                said = f"{parameter} of {function}"
                node = self._written(code)
                variable = f" ({_variable(code)})" if node is not code else ""
                known = name.value if isinstance(name, ast.Constant) and isinstance(name.value, str) else ""
                yield said + variable, node, known

    def _written(self, node: ast.expr) -> ast.expr:
        """The value of a variable that has one."""
        for _ in range(_DEEPEST):
            values = self._of(node, _variable(node))
            if len(values) != 1:
                break
            node = values[0]
        return node

    def _of(self, node: ast.AST, name: str) -> list[ast.expr]:
        """The values of a name, as seen from a node."""
        scope = self._scope.get(node, self._tree)
        while (scope, name) not in self._values and scope is not self._tree:
            scope = self._scope[scope]
        return self._values.get((scope, name), [])

    def text(self, node: ast.expr) -> str:
        """The string that an expression is; of a list its strings, one after the other."""
        value = self._value(node, 0)
        value = "\n".join(value) if isinstance(value, (list, tuple)) and all(map(_is_str, value)) else value
        value = value.decode() if isinstance(value, bytes) else value
        if not isinstance(value, str):
            raise _Unwritten(f"{node.lineno}: {ast.unparse(node)[:60]} is no string")
        return value

    def _value(self, node: ast.expr, depth: int) -> Any:
        if depth > _DEEPEST:
            raise _Unwritten(f"{node.lineno}: {ast.unparse(node)[:60]} depends on itself")
        deeper = depth + 1
        match node:
            case ast.Constant(value=value):
                return value
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return [self._value(one, deeper) for one in items]
            case ast.Dict(keys=keys, values=values) if all(keys):
                every = zip(keys, values, strict=True)
                return {self._value(key, deeper): self._value(one, deeper) for key, one in every if key}
            case ast.Name(id=name) | ast.Attribute(attr=name) if len(found := self._of(node, name)) == 1:
                return self._value(found[0], deeper)
            case ast.JoinedStr(values=parts):
                return "".join(self._piece(part, deeper) for part in parts)
            case ast.BinOp(op=ast.Add() | ast.Mod() | ast.Mult() | ast.FloorDiv() | ast.Sub()):
                return self._joined(node, deeper)
            case ast.Call(func=ast.Attribute(value=of, attr=method), args=args, keywords=named):
                return self._called(node, of, method, args, named, deeper)
            case ast.Call(func=ast.Name(id="dedent"), args=[one]):
                return textwrap.dedent(self._value(one, deeper))
            case ast.Call(func=ast.Name(id="str"), args=[one]):
                return str(self._value(one, deeper))
        raise _Unwritten(f"{node.lineno}: the value of {ast.unparse(node)[:60]!r} is not written in the file")

    def _piece(self, part: ast.expr, depth: int) -> str:
        if not isinstance(part, ast.FormattedValue):
            return str(self._value(part, depth))
        value = self._value(part.value, depth)
        value = {115: str, 114: repr, 97: ascii}[part.conversion](value) if part.conversion > 0 else value  # type: ignore[operator]
        return format(value, str(self._value(part.format_spec, depth)) if part.format_spec else "")

    def _joined(self, node: ast.BinOp, depth: int) -> Any:
        left, right = self._value(node.left, depth), self._value(node.right, depth)
        right = tuple(right) if isinstance(node.op, ast.Mod) and isinstance(right, list) else right
        try:
            match node.op:
                case ast.Add():
                    return left + right
                case ast.Mod():
                    return left % right
                case ast.Sub():
                    return left - right
                case ast.FloorDiv():
                    return left // right
                case _:
                    return left * right if isinstance(left, int) and isinstance(right, int) else _fail()
        except (TypeError, ValueError, KeyError, ZeroDivisionError) as error:
            raise _Unwritten(f"{node.lineno}: {ast.unparse(node)[:60]!r} fails: {error}") from None

    def _called(
        self, call: ast.Call, of: ast.expr, method: str, args: list[ast.expr], named: list[ast.keyword], depth: int
    ) -> Any:
        given = [self._value(one, depth) for one in args]
        by_name = {one.arg: self._value(one.value, depth) for one in named if one.arg}
        if method == "dedent" and len(given) == 1:
            return textwrap.dedent(str(given[0]))
        try:
            if method in ("substitute", "safe_substitute") and isinstance(of, ast.Call) and of.args:
                return getattr(Template(str(self._value(of.args[0], depth))), method)(*given, **by_name)
            text = self._value(of, depth) if method in _METHODS else None
            if isinstance(text, (str, bytes)):
                return getattr(text, method)(*given, **by_name)
        except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
            raise _Unwritten(f"{call.lineno}: {ast.unparse(call)[:60]!r} fails: {error}") from None
        raise _Unwritten(f"{call.lineno}: the value of {ast.unparse(call)[:60]!r} is not written in the file")


def _argument(call: ast.Call, name: str, at: int) -> ast.expr | None:
    by_name = next((one.value for one in call.keywords if one.arg == name), None)
    return by_name or (call.args[at] if at < len(call.args) else None)


def _variable(node: ast.expr) -> str:
    """The name of a variable: of `source` and of `self.source`; "" for another expression."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _is_str(value: Any) -> bool:
    return isinstance(value, str)


def _fail() -> Any:
    raise TypeError("no strings are multiplied here")
