"""Shapes by named dimensions: `shapes={"x": "rows cols", "gamma": "cols", "y": "rows"}`.

A shape is words with spaces between: a name, a whole number, or a product, sum or difference of both, such as `2*cols`
or `cols//2+1`; an empty text is a single number. `...` as the first word stands for any dimensions, the same in every
shape that has it. A size of the spec gives the names their lengths, in the order in which they first occur.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

from cudalab.base.errors import InputError, SpecError
from cudalab.spec.launch import Shape

Dimensions = dict[str, Shape]  # the length of each name; that of REST is all the dimensions that `...` stands for
REST = "..."
Given = str | Callable[..., Shape]  # a shape as a spec gives it: words, or a function of the inputs' shapes by name
WORDS = "words such as 'rows cols', or a function of the inputs' shapes"
_ALLOWED = (ast.Expression, ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Name, ast.Load, ast.Constant)


def fits(value: object) -> bool:
    """Whether a spec may give this as a shape."""
    if callable(value):
        return True
    return isinstance(value, str) and all(_parsed(word) for word in _words(value)) and REST not in _words(value)[1:]


def names(shapes: Iterable[Given]) -> tuple[str, ...]:
    """The names of the dimensions, in the order in which they first occur; REST is one of them."""
    found: dict[str, None] = {}
    for shape in shapes:
        for word in _words(shape) if isinstance(shape, str) else ():
            found.update(dict.fromkeys([REST] if word == REST else re.findall(r"[A-Za-z_]\w*", word)))
    return tuple(found)


def of_size(shapes: Iterable[Given], size: Shape) -> Dimensions:
    """The lengths that a size of the spec gives to the names of these shapes. InputError if it has too few or many."""
    known = names(shapes)
    rest = len(size) - len(known) + 1 if REST in known else 0
    if rest < 0 or (REST not in known and len(size) != len(known)):
        given = " ".join(known)
        raise InputError(f"a size is {given}, {len(known)} numbers{' or more' if REST in known else ''}; got {size}")
    left, found = list(size), Dimensions()
    for name in known:
        count = rest if name == REST else 1
        found[name], left = tuple(left[:count]), left[count:]
    return found


def of_arrays(shapes: Mapping[str, Given], arrays: Mapping[str, Shape]) -> Dimensions:
    """The lengths that arrays of these shapes give to the names. InputError where they contradict each other."""
    found, by = Dimensions(), dict[str, str]()
    for array, shape in arrays.items():
        words = _words(given) if isinstance(given := shapes.get(array), str) else None
        if words is None:
            continue
        rest = words[:1] == (REST,)
        if len(shape) < len(words) - rest or (not rest and len(shape) != len(words)):
            raise InputError(f"{array} is {given or 'a single number'!r}, {len(words) - rest} dimensions"
                             f"{' or more' if rest else ''}; it has the shape {shape}")  # fmt: skip
        head = len(shape) - len(words) + 1 if rest else 0
        pairs = [(REST, shape[:head])] if rest else []
        pairs += [(word, (n,)) for word, n in zip(words[rest:], shape[head:], strict=True) if word.isidentifier()]
        for name, length in pairs:
            if found.setdefault(name, length) != length:
                raise InputError(
                    f"{name} is {_shown(found[name])} in {by[name]} and {_shown(length)} in {array}, of shape {shape}"
                )
            by.setdefault(name, array)
    for array, shape in arrays.items():  # what is computed, now that all names are known
        if isinstance(given := shapes.get(array), str) and (due := shape_of(given, found)) != shape:
            raise InputError(f"{array} is {given!r}, here {due}; it has the shape {shape}")
    return found


def shape_of(given: str, dimensions: Dimensions) -> Shape:
    """The shape that words mean where the names have these lengths. SpecError for a name that has none."""
    found: list[int] = []
    for word in _words(given):
        if word == REST:
            found += dimensions.get(REST, ())
            continue
        for name in re.findall(r"[A-Za-z_]\w*", word):
            if name not in dimensions:
                raise SpecError(f"shapes: {given!r} names {name}, which no input has; give a function of the shapes")
        tree = _parsed(word)
        assert tree is not None
        found.append(_value(tree.body, dimensions))
    return tuple(found)


def _value(node: ast.AST, dimensions: Dimensions) -> int:
    if isinstance(node, ast.Constant):
        return int(node.value)  # type: ignore[arg-type]
    if isinstance(node, ast.Name):
        return dimensions[node.id][0]
    assert isinstance(node, ast.BinOp)
    left, right = _value(node.left, dimensions), _value(node.right, dimensions)
    if isinstance(node.op, ast.FloorDiv):
        return left // max(right, 1)
    return (
        left + right if isinstance(node.op, ast.Add) else left - right if isinstance(node.op, ast.Sub) else left * right
    )


@lru_cache(maxsize=1024)
def _parsed(word: str) -> ast.Expression | None:
    """A word as an expression; None if it is none."""
    if word == REST:
        return ast.Expression(ast.Constant(0))
    try:
        tree = ast.parse(word, mode="eval")
    except (SyntaxError, ValueError, RecursionError):
        return None
    whole = all(not isinstance(n, ast.Constant) or type(n.value) is int for n in ast.walk(tree))
    return tree if whole and all(isinstance(n, _ALLOWED) for n in ast.walk(tree)) else None


def _words(given: object) -> tuple[str, ...]:
    return tuple(given.split()) if isinstance(given, str) else ()


def _shown(length: Shape) -> str:
    return str(length[0]) if len(length) == 1 else str(length)
