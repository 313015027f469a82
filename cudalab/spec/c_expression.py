"""Integer expressions of CUDA C++, such as indices and bounds: read as polynomials, and computed for given threads."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Iterator, Mapping

Polynomial = Mapping[tuple[str, ...], int]  # the factor of each product of names: 2*a*b + 1 is {(a, b): 2, (): 1}
LONGEST = 600  # characters of an expression that is looked at

_WORDS = r"unsigned|signed|long|short|int|char|size_t|ssize_t|ptrdiff_t|uint|u?int(?:8|16|32|64)_t"
_TYPES = rf"(?:const\s+)?(?:(?:{_WORDS})\b\s*)+"
_CAST = re.compile(rf"\(\s*(?:std\s*::\s*)?{_TYPES}\)(?=\s*[\w(])")
_MADE = re.compile(rf"\b(?:static_cast\s*<[^<>]*>|{_TYPES})(?=\()")
_SUFFIX = re.compile(r"\b(0[xX][0-9a-fA-F]+|\d+)[uUlLzZ]+\b")
_BUILT_IN = re.compile(r"\b(blockIdx|blockDim|threadIdx|gridDim)\s*\.\s*([xyz])\b")
_SCOPE = re.compile(r"(?:\b[A-Za-z_]\w*)?\s*::\s*")
_OPERATORS = {"/": "//", "&&": " and ", "||": " or "}
_FUNCTIONS: dict[str, Callable[..., int]] = {
    "min": min, "max": max, "ceil_div": lambda a, b: -(-a // b), "cdiv": lambda a, b: -(-a // b),
}  # fmt: skip


def parsed(text: str) -> ast.expr | None:
    """An expression of C++ as the same one of Python; `threadIdx.x` is `threadIdx_x`. None where it cannot be read."""
    if len(text) > LONGEST or "?" in text or '"' in text or "'" in text or "{" in text:
        return None
    code = _BUILT_IN.sub(r"\1_\2", _SUFFIX.sub(r"\1", text))
    code = re.sub(r"\b(min|max)\s*<[\w\s:]+>(?=\s*\()", r"\1", _SCOPE.sub("", _MADE.sub("", _CAST.sub("", code))))
    code = re.sub(r"/|&&|\|\|", lambda m: _OPERATORS[m[0]], code)
    code = re.sub(r"!(?!=)", " not ", code).replace("->", ".")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Python about what C++ means otherwise
            return ast.parse(" ".join(code.split()), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def text_of(node: ast.AST) -> str:
    return ast.unparse(node)


def inlined(node: ast.expr, values: Callable[[str], ast.expr | None]) -> ast.expr:
    """The expression with the values of names in their places, where `values` knows one."""

    class _Inline(ast.NodeTransformer):
        def visit_Name(self, name: ast.Name) -> ast.expr:
            return values(name.id) or name

    return _Inline().visit(ast.parse(ast.unparse(node), mode="eval").body)


def names(node: ast.AST) -> set[str]:
    return {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}


def factors(node: ast.expr) -> list[ast.expr]:
    """What a product multiplies, in order; of another expression itself."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return [*factors(node.left), *factors(node.right)]
    return [node]


def polynomial(node: ast.expr) -> Polynomial:
    """Sums and products multiplied out; anything else is one name: its text."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return {(): int(node.value)} if node.value else {}
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        return scaled(polynomial(node.operand), -1 if isinstance(node.op, ast.USub) else 1)
    if isinstance(node, ast.BinOp):
        left, right = polynomial(node.left), polynomial(node.right)
        if isinstance(node.op, ast.Add):
            return plus(left, right)
        if isinstance(node.op, ast.Sub):
            return plus(left, scaled(right, -1))
        if isinstance(node.op, ast.Mult):
            return times(left, right)
        if isinstance(node.op, ast.LShift) and (power := whole(right)) is not None and 0 <= power < 63:
            return scaled(left, 1 << power)
        if isinstance(node.op, ast.FloorDiv) and (by := whole(right)) and (number := whole(left)) is not None:
            return {(): number // by}
    return {(ast.unparse(node),): 1}


def whole(value: Polynomial) -> int | None:
    """The number that a polynomial is; None if it has names."""
    return value.get((), 0) if set(value) <= {()} else None


def plus(a: Polynomial, b: Polynomial) -> Polynomial:
    found = dict(a)
    for names_, factor in b.items():
        found[names_] = found.get(names_, 0) + factor
    return {names_: factor for names_, factor in found.items() if factor}


def minus(a: Polynomial, b: Polynomial) -> Polynomial:
    return plus(a, scaled(b, -1))


def scaled(a: Polynomial, by: int) -> Polynomial:
    return {names_: factor * by for names_, factor in a.items()} if by else {}


def times(a: Polynomial, b: Polynomial) -> Polynomial:
    found = dict[tuple[str, ...], int]()
    for one, first in a.items():
        for other, second in b.items():
            product = tuple(sorted((*one, *other)))
            found[product] = found.get(product, 0) + first * second
    return {names_: factor for names_, factor in found.items() if factor}


def without(a: Polynomial, name: str) -> tuple[Polynomial, Polynomial]:
    """The polynomial divided by a name, and the rest."""
    of, rest = dict[tuple[str, ...], int](), dict[tuple[str, ...], int]()
    for product, factor in a.items():
        if name in product:
            left = list(product)
            left.remove(name)
            of[tuple(left)] = factor
        else:
            rest[product] = factor
    return of, rest


def written(value: Polynomial) -> str:
    """A polynomial as an expression: `2*rows*cols+1`."""
    parts = []
    for product, factor in sorted(value.items(), key=lambda item: (-len(item[0]), item[0])):
        names_ = "*".join(f"({name})" if not name.isidentifier() else name for name in product)
        number = "" if names_ and abs(factor) == 1 else str(abs(factor))
        parts.append(("-" if factor < 0 else "+") + "*".join(filter(None, (number, names_))))
    return "".join(parts).removeprefix("+") or "0"


def computed(node: ast.expr, values: Mapping[str, int]) -> int | None:
    """The value of an expression; a name that has none counts as 0. None where it cannot be computed."""
    if isinstance(node, ast.Constant):
        return int(node.value) if isinstance(node.value, (int, bool)) else None
    if isinstance(node, ast.Name):
        return values.get(node.id, 0)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return None if (of := computed(node.operand, values)) is None else -of
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS:
        given = [computed(argument, values) for argument in node.args]
        return _FUNCTIONS[node.func.id](*given) if len(given) == 2 and None not in given else None
    if isinstance(node, ast.BinOp):
        left, right = computed(node.left, values), computed(node.right, values)
        return None if left is None or right is None else _operation(node.op, left, right)
    return None


def _operation(operator: ast.operator, left: int, right: int) -> int | None:
    match operator:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.FloorDiv():
            return left // right if right else None
        case ast.Mod():
            return left % right if right else None
        case ast.LShift():
            return left << right if 0 <= right < 32 else None
        case ast.RShift():
            return left >> right if 0 <= right < 64 else None
        case ast.BitAnd():
            return left & right
    return None


def less(node: ast.expr, holds: bool = False) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Pairs of which the first is below the second where a condition holds, or where it does not: `i < n`, `i >= n`.

    `holds`: only where it holds, so that `i <= n` is `i < n + 1`.
    """
    for one in ast.walk(node):
        if not isinstance(one, ast.Compare):
            continue
        terms = [one.left, *one.comparators]
        for operator, left, right in zip(one.ops, terms, terms[1:], strict=False):
            if isinstance(operator, (ast.Lt, ast.GtE)):
                yield left, right
            elif holds and isinstance(operator, ast.LtE):
                yield left, ast.BinOp(right, ast.Add(), ast.Constant(1))
            elif isinstance(operator, (ast.Gt, ast.LtE)):
                yield right, left
