"""The block and the grid of a kernel, as far as its body tells how threads share the work."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod

from cudalab.spec import c_expression as c
from cudalab.spec.c_expression import Polynomial
from cudalab.spec.kernel_body import Body

THREADS = 256
PER_BLOCK = 32  # of what a kernel lets its caller choose
DIRECTIONS = ("x", "y", "z")

_WORD = re.compile(r"[\w+*/ ()-]+")
_STATIC = re.compile(r"\b__shared__\s+(?!\*)[\w:\s]*?\b([A-Za-z_]\w*)\s*((?:\[[^\[\]]*\]\s*)+)")
_ALONE = re.compile(r"\bwmma\b|\bmma_sync\b|_sync\s*\(|\bwarpSize\b")  # works by warps
_CUB = re.compile(r"\bBlock[A-Z]\w+\s*<[^;<>,]*,\s*(\w+)")  # an algorithm of CUB for a block of so many threads


@dataclass
class Threads:
    """What the body tells of threads. `sizes`: the integers that it takes by value."""

    body: Body
    sizes: Sequence[str]
    limit: int = THREADS  # threads that a block may have
    chosen: dict[str, int] = field(default_factory=dict)  # sizes that may have any value: how much a block covers

    def __post_init__(self) -> None:
        self.bounds = [(c.polynomial(low), c.polynomial(high)) for low, high in self.body.bounds]
        self.block = self._block()
        # By direction: the dimension that the blocks cover, and how much of it a block covers.
        self.counts = {d: count for d in DIRECTIONS if (count := self._count(d))}

    @property
    def threaded(self) -> bool:
        """Whether the body tells how its threads share the work."""
        code = self.body.code
        return any(map(self._threads_in, DIRECTIONS)) or bool(_CUB.search(code)) or "load_matrix_sync" in code

    def uses(self, what: str) -> bool:
        """Whether the body names `blockIdx.x` or the like."""
        name, _, direction = what.partition(".")
        return bool(re.search(rf"\b{name}\s*\.\s*{direction}\b", self.body.code))

    def clean(self, value: Polynomial) -> str:
        """A bound as a word of `shapes`, if it has only sizes and numbers; else ""."""
        word = c.written(value)
        names = re.findall(r"[A-Za-z_]\w*", word)
        fit = _WORD.fullmatch(word) and set(names) <= set(self.sizes) and not re.search(r"(?<!/)/(?!/)", word)
        return bare(word) if fit and value and not word.startswith("-") else ""

    def _block(self) -> tuple[int, ...]:
        """The threads of a block in each direction."""
        if cub := _CUB.search(self.body.code):
            return (self._number(cub[1], cub.start()) or THREADS,)
        deep = max((i for i, d in enumerate(DIRECTIONS) if self._threads_in(d)), default=-1) + 1
        if not deep:
            return (32,) if _ALONE.search(self.body.code) else (THREADS,)
        usual = {1: (THREADS,), 2: (32, 4) if _ALONE.search(self.body.code) else (16, 16), 3: (8, 8, 4)}[deep]
        found = [self._fixed(d) or min(self._held(d), n) for d, n in zip(DIRECTIONS, usual, strict=False)]
        if deep == 1 and found[0] == THREADS:
            found[0] = min(THREADS, self.limit)
        while deep > 1 and prod(found) > max(self.limit, THREADS) and found[1] > 1:
            found[1] //= 2
        return tuple(found)

    def _threads_in(self, direction: str) -> bool:
        return self.uses(f"threadIdx.{direction}") or self.uses(f"blockDim.{direction}")

    def _indices(self) -> Iterator[ast.expr]:
        yield from (low for low, _ in self.body.bounds)
        yield from (loop.start for loop in self.body.loops if loop.start is not None)
        yield from (access.index for access in self.body.accesses if access.index is not None)

    def _fixed(self, direction: str) -> int:
        """The threads of a block that are written into the body, as in `blockIdx.x * 128 + threadIdx.x`; 0 if none."""
        thread, block, dim = (f"{word}_{direction}" for word in ("threadIdx", "blockIdx", "blockDim"))
        for node in self._indices():
            used = c.names(node)
            if n := self._stepped(c.polynomial(node), thread):
                return n
            if {thread, block} <= used and dim not in used and (n := self._reaching(node, thread, block, 1)):
                return n
        for loop in self.body.loops:
            if loop.start is None or loop.step is None or thread not in c.names(loop.start) or c.names(loop.step):
                continue
            step = c.computed(loop.step, {})
            if step and step > 1 and block not in c.names(loop.start):
                base = c.computed(loop.start, {}) or 0
                for n in range(1, 1025):
                    if c.computed(loop.start, {thread: n}) == base + step:
                        return n
        return 0

    def _stepped(self, index: Polynomial, thread: str) -> int:
        """The step of `for (j = 0; j < 32; j += 8)`, where an index has `threadIdx.y + j`; 0 if there is none."""
        if index.get((thread,)) != 1:
            return 0
        for product, factor in index.items():
            loop = self.body.by_unique.get(product[0]) if len(product) == 1 and factor == 1 else None
            if loop and loop.step is not None and loop.start is not None and not c.names(loop.step):
                step = c.computed(loop.step, {})
                if step and step > 1 and not c.names(loop.start):
                    return step
        return 0

    def _reaching(self, node: ast.expr, thread: str, block: str, blocks: int) -> int:
        """The thread of the first block that would have the same value as the first thread of the next block."""
        first, base = c.computed(node, {block: blocks}), c.computed(node, {})
        if first is None or first == base:
            return 0
        return next((n for n in range(1, 1025) if c.computed(node, {thread: n}) == first), 0)

    def _held(self, direction: str) -> int:
        """The most threads for which static shared memory has room, where each has an element."""
        most = 1024
        thread = {(f"threadIdx_{direction}",): 1}
        for found in _STATIC.finditer(self.body.code):
            lengths = [self._number(text, found.start()) for text in re.findall(r"\[([^\[\]]*)\]", found[2])]
            for use in re.finditer(rf"\b{found[1]}\s*((?:\[[^\[\]]*\]\s*)+)", self.body.code[found.end() :]):
                at = found.end() + use.start()
                for text, length in zip(re.findall(r"\[([^\[\]]*)\]", use[1]), lengths, strict=False):
                    node = self.body.read(text, at)
                    if length and node is not None and c.polynomial(node) == thread:
                        most = min(most, length)
        return most

    def _number(self, text: str, at: int) -> int:
        node = self.body.read(text, at)
        return (c.whole(c.polynomial(node)) or 0) if node is not None else 0

    @property
    def dims(self) -> dict[str, int]:
        return {f"blockDim_{d}": n for d, n in zip(DIRECTIONS, (*self.block, 1, 1), strict=False)}

    def _count(self, direction: str) -> tuple[str, int] | None:
        """Return the dimension that the blocks in a direction cover, and how much of it a block covers."""
        block = f"blockIdx_{direction}"
        found = list[tuple[str, int]]()
        for low, high in self.body.bounds:
            start = low
            if isinstance(low, ast.Name) and (loop := self.body.by_unique.get(low.id)) and loop.start is not None:
                start = loop.start
            word = self.clean(c.polynomial(high))
            if block not in c.names(start) or not word or word.isdigit():
                continue
            self._choose(c.polynomial(start), block)
            values = [c.computed(start, {**self.dims, **self.chosen, "gridDim_x": 1, block: n}) for n in range(3)]
            if None in values:
                continue
            each = values[1] - values[0]  # type: ignore[operator]
            if each > 0 and values[2] - values[1] == each:  # type: ignore[operator]
                found.append((word, each))
        return next((one for one in found if one[0].isidentifier()), found[0] if found else None)

    def _choose(self, start: Polynomial, block: str) -> None:
        """Choose a value for a size that says how much a block covers, as in `blockIdx.x * rows_per_block`."""
        for product in start:
            size = product[1 - product.index(block)] if len(product) == 2 and block in product else ""
            if size in self.sizes and not any(size in c.names(high) - c.names(low) for low, high in self._alone):
                self.chosen[size] = PER_BLOCK

    @property
    def _alone(self) -> list[tuple[ast.expr, ast.expr]]:
        """The conditions whose bound is one name or number."""
        return [(low, high) for low, high in self.body.bounds if isinstance(high, (ast.Name, ast.Constant))]

    @property
    def whole_block(self) -> str:
        """The dimension that the threads of one block must cover, as `if (threadIdx.x < n)` says; "" if none."""
        threads = [{(f"threadIdx_{d}",): 1} for d in DIRECTIONS]
        words = (self.clean(high) for low, high in self.bounds if low in threads)
        return next((word for word in words if word and not word.isdigit()), "")


def bare(word: str) -> str:
    """A word without spaces and without brackets around all of it."""
    text = word.replace(" ", "")
    return text[1:-1] if re.fullmatch(r"\([^()]*\)", text) else text
