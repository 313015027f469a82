"""The shapes of a kernel's arrays, as far as the indices in its body tell them."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from math import gcd, prod

from cudalab.spec import c_expression as c
from cudalab.spec.c_expression import Polynomial
from cudalab.spec.guessed_threads import DIRECTIONS, Threads, bare
from cudalab.spec.kernel_body import Access

UNKNOWN = ""  # a dimension whose length the body does not tell
_FREE = {"x": ("rows", "blocks"), "y": ("groups", "layers"), "z": ("batch", "planes")}

Words = tuple[str, ...]


@dataclass(frozen=True)
class Extent:
    """The dimensions of what an index goes over. `sure`: a condition or a loop says each."""

    words: Words
    sure: bool = True


@dataclass
class Layout(Threads):
    """What the body tells of arrays, too. `rows`: which of the sizes may count rows that no condition mentions."""

    rows: Sequence[str] = ()
    gathered: dict[str, str] = field(default_factory=dict)  # arrays of indices: the dimension that they go over
    strides: dict[str, str] = field(default_factory=dict)  # sizes that are the stride of a dimension
    free: dict[str, str] = field(default_factory=dict)  # by direction: the dimension that has one block each

    def __post_init__(self) -> None:
        super().__post_init__()
        self.offsets = self._offsets()
        for _ in range(2):  # a later array may name the dimension of an earlier one
            self.shapes = {array: shape for array in self._arrays() if (shape := self._shape(array))}

    def _arrays(self) -> list[str]:
        return list(dict.fromkeys(access.array for access in self.body.accesses))

    def _offsets(self) -> dict[str, str]:
        """Arrays that say where parts of others begin, as CSR's row_ptr does: the dimension that they cut up.

        Such an array is read at `row` and at `row + 1`, and its value at `row + 1` bounds an index.
        """
        read = [(access.array, c.polynomial(access.index)) for access in self.body.accesses if access.index is not None]
        found = dict[str, str]()
        for _, high in self.body.bounds:
            if isinstance(high, ast.Subscript) and isinstance(high.value, ast.Name):
                array, end = high.value.id, c.polynomial(high.slice)
                if any(name == array and c.whole(c.minus(end, index)) == 1 for name, index in read):
                    free = (word for word in ("total", f"{array}_total") if word not in self.sizes)
                    found[array] = found.get(array) or next(free)
        return found

    def held(self, array: str) -> str:
        """The elements of dynamic shared memory: "block" for one a thread, or a dimension; "" if not known."""
        threads = {f"{word}_{d}" for word in ("threadIdx", "blockDim") for d in DIRECTIONS}
        last = {f"threadIdx_{d}": n - 1 for d, n in zip(DIRECTIONS, self.block, strict=False)}
        total, by_thread, words = prod(self.block), False, set[str]()
        for access in self.body.accesses:
            if access.array != array:
                continue
            if access.index is None:
                return ""
            index, used = c.polynomial(access.index), c.names(access.index)
            if used <= threads:
                if (c.computed(access.index, {**self.dims, **last}) or 0) >= total:  # a second part
                    return ""
                by_thread = by_thread or bool(used)
            elif (found := self.extent(index)) and found.sure and len(found.words) == 1:
                words.add(found.words[0])
            else:
                parts = any(name.startswith("blockDim") for name in used)
                beside = by_thread and index.get(("threadIdx_x",)) == 1 and not parts  # as tile[threadIdx.x + half]
                from_end = bool(words) and index.get((next(iter(words)),)) == 1  # as tile[cols - 1 - i]
                if not beside and not from_end:
                    return ""
        return next(iter(words)) if len(words) == 1 and not by_thread else "block" if by_thread and not words else ""

    def _shape(self, array: str) -> Extent | None:
        """The dimensions of an array: those of the access that tells the most."""
        found = [self._of_access(access) for access in self.body.accesses if access.array == array]
        if array in self.offsets:
            begins = next((one for one in found if one and len(one.words) == 1 and one.words[0].isidentifier()), None)
            return Extent((f"{begins.words[0]}+1",), begins.sure) if begins else None
        known = [one for one in found if one]
        if not known or any(one.words != ("1",) for one in known):
            known = [one for one in known if not all(word.isdigit() for word in one.words)] or known
        if not known:
            return None
        if all(len(one.words) == 1 and one.words[0].isdigit() for one in known):
            most = max(int(one.words[0]) for one in known)
            return Extent((str(most),), sure=len(known) == len(found))
        return max(known, key=lambda one: (one.sure, all(one.words), len(one.words),
                                           all(word.isidentifier() for word in one.words)))  # fmt: skip

    def _of_access(self, access: Access) -> Extent | None:
        if access.function in ("load_matrix_sync", "store_matrix_sync"):
            return None  # a tile: see `matrices`
        if access.index is None:
            return None
        index = c.polynomial(access.index)
        last = c.plus(index, {(): access.lanes - 1} if access.lanes > 1 else {})
        return self.extent(index, last)

    def extent(self, index: Polynomial, last: Polynomial | None = None, depth: int = 0) -> Extent | None:
        """The dimensions over which an index goes. `last`: the index of the last element that is taken with it."""
        if depth > 6:
            return None
        if (number := c.whole(index)) is not None:
            return Extent((str(number + 1),)) if number >= 0 else None
        strided = self._strided(index, depth)
        if strided and reduce(gcd, index.values()) > 1:  # x[row * cols + c] of float2: the columns alone count twice
            strided = self._wide(index, depth) or strided
        if strided and strided.sure:
            return strided
        bounded = self._bounded(index) or (self._bounded(last) if last and last != index else None)
        if (
            bounded
            and strided
            and len(strided.words) > 1
            and bounded.words[-1] != strided.words[-1]
            and not all(strided.words)
        ):
            return strided
        return bounded or strided or self._counted(index) or self._of_one(index, depth) or self._wide(index, depth)

    def _bounded(self, index: Polynomial) -> Extent | None:
        """By a condition on the index itself, or on one that is a constant away from it."""
        found = list[tuple[int, Polynomial]]()
        for (low, high), (_, node) in zip(self.bounds, self.body.bounds, strict=True):
            away = c.whole(c.minus(low, index))
            if away == 0 and isinstance(node, ast.Subscript) and ast.unparse(node.value) in self.offsets:
                return Extent((self.offsets[ast.unparse(node.value)],))
            if away is not None and self.clean(bound := c.minus(high, {(): away} if away else {})):
                found.append((abs(away), bound))
        if not found:
            return None
        best = min(found, key=lambda item: (len(item[1]) > 1, item[0]))[1]
        return Extent(self._words(best))

    def _counted(self, index: Polynomial) -> Extent | None:
        """By loops over numbers: `3 * (i + 1) + j + 1`, where `i` and `j` are below 2, has 9 elements."""
        last = index.get((), 0)
        for product, factor in index.items():
            ends = [c.whole(high) for low, high in self.bounds if product and low == {product: 1}]
            most = min((end for end in ends if end is not None), default=None)
            if product and (factor < 0 or most is None):
                return None
            last += factor * (most - 1) if product and most is not None else 0
        return Extent((str(last + 1),)) if last >= 0 else None

    def _words(self, bound: Polynomial) -> Words:
        """The dimensions of a bound: `rows*cols` is two."""
        if len(bound) == 1:
            ((product, factor),) = bound.items()
            if factor == 1 and len(product) > 1 and all(name in self.sizes for name in product):
                return tuple(sorted(product, key=list(self.sizes).index))
        return (bare(c.written(bound)),)

    def _strided(self, index: Polynomial, depth: int) -> Extent | None:
        """`row * cols + c`: the dimensions of `row`, and `cols`."""
        found = list[Extent]()
        for size in self.sizes:
            if not any(size in product and len(product) > 1 for product in index):
                continue
            over, rest = c.without(index, size)
            inner = self.extent(rest, None, depth + 1) if rest else Extent((size,), sure=True)
            if inner and (chosen := [array for array, word in self.gathered.items() if (word,) == inner.words]):
                self.gathered[chosen[0]], inner = size, Extent((size,))  # x[row * cols + label[row]]
            unnamed = [
                d
                for d, word in self.free.items()
                if inner and (word,) == inner.words and word not in self.sizes and self._as_it_is(f"blockIdx_{d}")
            ]
            if unnamed and size not in self.free.values():
                self.free[unnamed[0]], inner = size, Extent((size,))  # x[blockIdx.y * cols + blockIdx.x]
            sure, last = True, size
            if rest and (inner is None or not inner.sure):
                if inner and len(inner.words) > 1:
                    continue
                sure = False
            elif inner and inner.words != (size,):
                if len(inner.words) > 1 or (inner.words[0].isdigit() and inner.words != ("1",)):
                    continue
                if inner.words != ("1",):
                    last, sure = inner.words[0], False
            outer = self.extent(over, None, depth + 1) or Extent((UNKNOWN,), sure=False)
            if outer.words == ("1",) and not over:
                continue
            if last != size and outer.sure and not re.search(rf"\b{size}\b", last):
                self.strides.setdefault(size, last)
            found.append(Extent((*outer.words, last), sure and outer.sure))
        found += self._strided_by_number(index, depth)
        return max(found, key=lambda one: (one.sure, all(one.words), len(one.words)), default=None)

    def _as_it_is(self, name: str) -> bool:
        """Whether each index that takes this number takes it itself, and not a quotient of it."""
        indices = [access.index for access in self.body.accesses if access.index is not None]
        return all(any(name in each for each in c.polynomial(i)) for i in indices if name in c.names(i))

    def _strided_by_number(self, index: Polynomial, depth: int) -> list[Extent]:
        """`row * 64 + c`, where `c` is below 64."""
        factors = {factor for product, factor in index.items() if product and factor > 1}
        for stride in sorted(factors, reverse=True):
            over = {product: factor // stride for product, factor in index.items() if factor % stride == 0 and product}
            rest = {product: factor for product, factor in index.items() if product not in over}
            inner = self.extent(rest, None, depth + 1) if rest else None
            outer = self.extent(over, None, depth + 1) if inner and inner.words == (str(stride),) else None
            if outer and inner:
                return [Extent((*outer.words, *inner.words), outer.sure and inner.sure)]
        return []

    def _of_one(self, index: Polynomial, depth: int) -> Extent | None:
        """Of a single name or operation: `i % cols`, `i / cols`, `min(i, n - 1)`, `blockIdx.x`, `ids[i]`."""
        if len(index) != 1:
            return None
        ((product, factor),) = index.items()
        if factor != 1 or len(product) != 1:
            return None
        node = ast.parse(product[0], mode="eval").body
        if isinstance(node, ast.Name) and node.id.startswith("blockIdx_"):
            return self._of_block(node.id[-1])
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            word = self.clean(c.polynomial(node.right))
            return Extent((word,)) if word else None
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv):
            return self._quotient(node, depth)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("min", "max"):
            return self._clamped(node, depth)
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in self._arrays():
            word = self.gathered.setdefault(node.value.id, f"{node.value.id}_range")
            return Extent((word,))
        return None

    def _quotient(self, node: ast.BinOp, depth: int) -> Extent | None:
        by = self.clean(c.polynomial(node.right))
        if isinstance(node.left, ast.Name) and node.left.id.startswith("blockIdx_") and by and not by.isdigit():
            direction = node.left.id[-1]
            if direction not in self.counts:
                name = self._free_name(direction)
                self.counts[direction] = (f"{name}*{by}", 1)
                return Extent((name,))
        whole = self.extent(c.polynomial(node.left), None, depth + 1)
        if whole and by in whole.words and len(whole.words) > 1:
            left = list(whole.words)
            left.remove(by)
            return Extent(tuple(left), whole.sure)
        return None

    def _clamped(self, node: ast.Call, depth: int) -> Extent | None:
        if isinstance(node.func, ast.Name) and node.func.id == "min":
            for argument in node.args:
                if word := self.clean(c.plus(c.polynomial(argument), {(): 1})):
                    return Extent((word,))
        for argument in node.args:
            if c.whole(value := c.polynomial(argument)) is None and (found := self.extent(value, None, depth + 1)):
                return found
        return None

    def _of_block(self, direction: str) -> Extent:
        """What has an element for each block."""
        if direction in self.counts:
            word, each = self.counts[direction]
            return Extent((word if each == 1 else blocks_word(word, each),))
        if direction not in self.free:
            self.free[direction] = self._free_name(direction)
        return Extent((self.free[direction],))

    def _free_name(self, direction: str) -> str:
        bounded = {name for _, high in self.body.bounds for name in c.names(high)}
        unused = [name for name in self.rows if name not in bounded and name not in self.free.values()]
        return next(
            iter(unused), next(name for name in (*_FREE[direction], f"{direction}_blocks") if name not in self.sizes)
        )

    def _wide(self, index: Polynomial, depth: int) -> Extent | None:
        """`4 * i`, where `i` is below n: 4 * n elements."""
        each = reduce(gcd, index.values())
        if each < 2:
            return None
        found = self.extent({product: factor // each for product, factor in index.items()}, None, depth + 1)
        if not found or not all(found.words):
            return None
        last = found.words[-1]
        divided = re.fullmatch(rf"(\w+)//{each}", last)
        word = (
            f"{each * int(last)}" if last.isdigit() else f"{each}*{last}" if last.isidentifier() else f"{each}*({last})"
        )
        return Extent((*found.words[:-1], divided[1] if divided else word), found.sure)


def blocks_word(word: str, each: int) -> str:
    """How many blocks cover a dimension, as a word of `shapes`."""
    return f"({word}+{each - 1})//{each}"


def matrices(layout: Layout, order: Mapping[str, str]) -> dict[str, Extent]:
    """The shapes of the matrices that wmma loads and stores. `order`: M, N and K as the sizes are called."""
    code = layout.body.code
    kinds = {
        name.strip(): (use, by)
        for use, by, made in re.findall(
            r"\bfragment\s*<\s*(?:\w+\s*::\s*)*(matrix_a|matrix_b|accumulator)\b[^;>]*?(row_major|col_major)?\s*>\s*([^;=(]+)",
            code,
        )
        for name in re.sub(r"\[[^\]]*\]", "", made).split(",")
    }
    found = dict[str, Extent]()
    for access in layout.body.accesses:
        if access.function not in ("load_matrix_sync", "store_matrix_sync") or not access.rest:
            continue
        loads = access.function.startswith("load")
        rest = access.rest if loads else access.rest[1:]
        held = re.match(r"\w+", _first(code, access.at) if loads else access.rest[0])
        use, by = kinds.get(held[0] if held else "", ("", ""))
        node = layout.body.read(rest[0], access.at) if rest else None
        stride = c.written(c.polynomial(node)) if node is not None else ""
        columns = by == "col_major" or any("mem_col_major" in text for text in rest)
        down, across = {"matrix_a": ("M", "K"), "matrix_b": ("K", "N"), "accumulator": ("M", "N")}.get(use, ("", ""))
        first, last = (across, down) if columns else (down, across)
        if down and stride in order.values():
            found[access.array] = Extent((order[first], stride), sure=order.get(last) == stride)
    return found


def _first(code: str, at: int) -> str:
    """The text of the first argument of the call in which the second argument is at a place."""
    start = code.rfind("load_matrix_sync", 0, at)
    return code[code.find("(", start) + 1 : at].strip() if start >= 0 else ""
