"""Small readers of the text of a body: brackets, steps of a loop, vector types, ranks of cooperative groups."""

from __future__ import annotations

import ast
import re

_RANKS = {"this_grid": "(blockIdx.x * blockDim.x + threadIdx.x)", "this_thread_block": "threadIdx.x"}
_SIZES = {"this_grid": "(gridDim.x * blockDim.x)", "this_thread_block": "blockDim.x"}


def further(start: ast.expr | None, by: ast.expr | None, each: int) -> ast.expr | None:
    """`start + by * each`; None where one of them is not known."""
    if start is None or by is None:
        return None
    return ast.parse(f"({ast.unparse(start)}) + ({ast.unparse(by)}) * {each}", mode="eval").body


def vector_bytes(ctype: str) -> int:
    """The size of a vector type, such as float4 or half2; 0 for other types."""
    found = re.fullmatch(
        r"(?:__)?(?:nv_)?u?(char|short|half|bfloat16|bfloat|int|float|longlong|long|double)_?([234])", ctype
    )
    sizes = {"char": 1, "short": 2, "half": 2, "bfloat16": 2, "bfloat": 2, "int": 4, "float": 4}
    return sizes.get(found[1], 8) * int(found[2]) if found else 0


def steps_of(text: str) -> dict[str, str]:
    """What the end of a loop's header adds to its variables."""
    found = dict[str, str]()
    for part in text.split(","):
        if up := re.fullmatch(r"\s*(?:\+\+\s*(\w+)|(\w+)\s*\+\+)\s*", part):
            found[up[1] or up[2]] = "1"
        elif (more := re.fullmatch(r"\s*(\w+)\s*\+=(.*)", part, re.DOTALL)) or (
            more := re.fullmatch(r"\s*(\w+)\s*=\s*\1\s*\+(.*)", part, re.DOTALL)
        ):
            found[more[1]] = more[2]
        elif other := re.match(r"\s*(?:--\s*)?(\w+)", part):
            found[other[1]] = "0"
    return found


def closing(code: str, start: int) -> int:
    """Where the bracket that is open at `start` ends."""
    depth = 1
    for found in re.compile(r"[()\[\]{}]").finditer(code, start):
        depth += 1 if found[0] in "([{" else -1
        if not depth:
            return found.end()
    return len(code)


def with_ranks(code: str) -> str:
    """Return the code with the ranks of cooperative groups as expressions of threadIdx and blockIdx."""
    if "this_grid" not in code and "this_thread_block" not in code:
        return code
    for kind in _RANKS:
        named = re.findall(rf"\b(\w+)\s*(?:=\s*|\(\s*)(?:\w+\s*::\s*)*{kind}\s*\(\s*\)", code)
        for who in (*map(re.escape, named), rf"(?:\w+\s*::\s*)*{kind}\s*\(\s*\)"):
            code = re.sub(rf"(?<!\w){who}\s*\.\s*thread_rank\s*\(\s*\)", _RANKS[kind], code)
            code = re.sub(rf"(?<!\w){who}\s*\.\s*(?:size|num_threads)\s*\(\s*\)", _SIZES[kind], code)
    return code
