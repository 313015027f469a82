"""Shapes by named dimensions: `shapes={"x": "rows cols", "gamma": "cols", "y": "rows"}`.

A shape is words with spaces between: a name, a whole number, or a product, sum or difference of both, such as `2*cols`
or `cols//2+1`; an empty text is a single number. `...` as the first word stands for any dimensions, the same in every
shape that has it. A size of the spec gives the names their lengths, in the order in which they first occur.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import lru_cache

from cudalab.base.errors import InputError, SpecError
from cudalab.spec.launch import Shape

Dimensions = dict[str, Shape]  # the length of each name; that of REST is all the dimensions that `...` stands for
REST = "..."
Given = str | Callable[..., Shape]  # a shape as a spec gives it: words, or a function of the inputs' shapes by name
WORDS = "words such as 'rows cols', or a function of the inputs' shapes"
_SAMPLE = (1009,)  # a length where any will do
_NAME = re.compile(r"[A-Za-z_]\w*")
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
            found.update(dict.fromkeys([REST] if word == REST else _NAME.findall(word)))
    return tuple(found)


def of_size(shapes: Iterable[Given], size: Shape) -> Dimensions:
    """The lengths that a size of the spec gives to the names of these shapes. InputError if it has too few or many.

    Its text is the object of a sentence: "... takes sizes of 2 dimensions".
    """
    known = names(shapes)
    rest = len(size) - len(known) + 1 if REST in known else 0
    if rest < 0 or (REST not in known and len(size) != len(known)):
        least = len(known) - (REST in known)
        raise InputError(
            f"sizes of {least} dimensions{' or more' if REST in known else ''} ({' '.join(known)}), got {size}"
            f"{_alike(known) if len(known) > len(size) else ''}"
        )
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
            count = len(words) - rest
            raise InputError(f"{array} must have {count} dimension{'s' * (count != 1)}{' or more' if rest else ''} "
                             f"({given or 'a single number'!r}), got the shape {shape}")  # fmt: skip
        head = len(shape) - len(words) + 1 if rest else 0
        pairs = [(REST, shape[:head])] if rest else []
        pairs += [(word, (n,)) for word, n in zip(words[rest:], shape[head:], strict=True) if word.isidentifier()]
        for name, length in pairs:
            if found.setdefault(name, length) != length:
                of = f", of shape {shape}" if length != shape else ""
                raise InputError(f"{name} is {_shown(found[name])} in {by[name]} and {_shown(length)} in {array}{of}")
            by.setdefault(name, array)
    while _solve_one(shapes, arrays, found):  # names that follow from a length, such as that of `segments+1`
        pass
    for array, shape in arrays.items():  # what is computed, now that all names are known
        if not isinstance(given := shapes.get(array), str):
            continue
        try:
            due = shape_of(given, found)
        except SpecError:
            lacking = next(name for name in names([given]) if name not in found)
            raise InputError(
                f"{array} has the shape {shape}, which does not tell {lacking} in its shapes= entry {given!r}; give "
                "arrays with elements"
            ) from None
        if due != shape:
            raise InputError(
                f"shapes declares {array} as {given!r}, which is {due} here, but the array's shape is {shape}"
            )
    return found


def _solve_one(shapes: Mapping[str, Given], arrays: Mapping[str, Shape], found: Dimensions) -> bool:
    """Add one name whose length follows from an array's and those that are known; whether there was one."""
    for array, shape in arrays.items():
        computed = [word for word in _words(shapes.get(array)) if word != REST]
        for word, side in zip(computed, shape[len(shape) - len(computed) :], strict=True):
            if not (name := _unknown(word, found)) or (n := _solved(word, name, side, found)) is None:
                continue
            if n < 0:
                raise InputError(
                    f"{array} has the shape {shape}, but no value of {name} makes its shapes= entry {shapes[array]!r} "
                    "that shape"
                )
            found[name] = (n,)
            return True
    return False


def untold(shapes: Mapping[str, Given], inputs: Iterable[str]) -> str:
    """What is wrong with shapes of inputs whose lengths do not tell the length of each name; "" if they tell all."""
    words = [(name, word) for name in inputs for word in _words(shapes.get(name))]
    known: Dimensions = {word: _SAMPLE for _, word in words if word.isidentifier() or word == REST}
    while told := [name for _, word in words if (name := _unknown(word, known)) and _tells(word, name, known)]:
        known[told[0]] = (_SAMPLE[0] + 2 * len(known),)
    for array, word in words:
        if lacking := [name for name in names([word]) if name not in known]:
            return (
                f"{array} is {shapes[array]!r}, and the length of {word!r} does not tell {' or '.join(lacking)}, "
                "which a call from Python needs. Give that dimension a name of its own, such as "
                f"{_replaced(str(shapes[array]), word)!r}, and write what depends on it as an expression of that name "
                f"(2*m, m+1); or give another input {lacking[0]} as a dimension"
            )
    return ""


def _tells(word: str, name: str, known: Dimensions) -> bool:
    return _solved(word, name, 0, known) is not None


def _replaced(given: str, word: str) -> str:
    return " ".join("m" if one == word else one for one in given.split())


def _alike(known: tuple[str, ...]) -> str:
    """Which name is nearly an earlier one."""
    for i, name in enumerate(known):
        if name != REST and (close := get_close_matches(name, known[:i], n=1, cutoff=0.75)):
            return f"; did you mean {close[0]} in place of {name}?"
    return ""


def _unknown(word: str, known: Dimensions) -> str:
    """The name in a word that has no length yet; "" where that is none or several."""
    unknown = {name for name in _NAME.findall(word) if name not in known}
    return unknown.pop() if len(unknown) == 1 else ""


def _solved(word: str, name: str, length: int, known: Dimensions) -> int | None:
    """The length of `name` with which the word has this length, negative if there is none.

    None where the word is no straight line in it, such as `n//2` or `n*n`.
    """
    tree = _parsed(word)
    assert tree is not None
    if any(isinstance(node, ast.FloorDiv) for node in ast.walk(tree)):
        return None
    at = [_value(tree.body, {**known, name: (n,)}) for n in range(3)]
    slope = at[1] - at[0]
    if not slope or at[2] - at[1] != slope:
        return None
    n, rest = divmod(length - at[0], slope)
    return -1 if rest else n


def undefined(given: str, name: str) -> str:
    """What is wrong with a shape that has a name without a length."""
    return (
        f"{given!r} names {name}, which no input defines; write {name}, or an expression of it such as {name}+1 or "
        f"2*{name}, as a dimension of an input in shapes=, or add a scalar, scalars={{{name!r}: Scalar(8, 'int32')}}, "
        "or give a function of the inputs' shapes, such as lambda x: (x[0] - 1,)"
    )


def shape_of(given: str, dimensions: Dimensions) -> Shape:
    """The shape that words mean where the names have these lengths. InputError where a length would be negative.

    Raises SpecError as `numbers` does.
    """
    found = numbers(given, dimensions)
    if any(length < 0 for length in found):
        word = next(word for word in _words(given) if word != REST and numbers(word, dimensions)[0] < 0)
        where = " and ".join(f"{name} = {_shown(dimensions[name])}" for name in names([word]))
        raise InputError(f"shapes: {word!r} is {numbers(word, dimensions)[0]} where {where}; a length is 0 or more")
    return found


def numbers(given: str, dimensions: Dimensions) -> Shape:
    """What words are where the names have these lengths. SpecError for a name that has none."""
    found: list[int] = []
    for word in _words(given):
        if word == REST:
            found += dimensions.get(REST, ())
            continue
        for name in _NAME.findall(word):
            if name not in dimensions:
                raise SpecError(f"shapes: {undefined(given, name)}")
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
