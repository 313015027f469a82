"""The body of a `__global__` function, as far as its text tells: where arrays are indexed, and what bounds an index."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cudalab.spec import c_expression as c
from cudalab.spec.body_text import closing, further, steps_of, vector_bytes, with_ranks
from cudalab.spec.cuda_source import split_parameters
from cudalab.spec.dtype import of_c

READ, WRITE, UPDATE, ATOMIC, PASSED = "read", "write", "update", "atomic", "passed"

_MARK = re.compile(r"[;{}()]")
_HEADER = re.compile(r"\s*(?:else\s+)?(for|if|while|switch)\s*(?:constexpr\s*)?$")
_DECLARATION = re.compile(
    r"\s*((?:else\b|do\b)\s*)?(?!(?:return|else|delete|throw|goto|case|using|typedef|do)\b)"
    r"((?:[A-Za-z_][\w:]*(?:\s*<[^;={}]*?>)?[\s*&]+)+)([A-Za-z_]\w*)\s*(=(?!=)|\{|\()",
)
_CHANGED = re.compile(r"\b([A-Za-z_]\w*)\s*(?:(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)|(?:\+\+|--)\s*([A-Za-z_]\w*)")
_MOVED = re.compile(r"\s*([A-Za-z_]\w*)\s*(\+?=)(?!=)(.*)", re.DOTALL)
_CAST_BEFORE = re.compile(
    r"(?:reinterpret_cast\s*<([^<>]*?)\*\s*(?:__restrict__\s*)?>\s*\(|\(\s*\(?\s*((?:const\s+)?[\w:]+)\s*\*\s*\)\s*\(?)"
    r"\s*(&?)\s*$"
)
_ASSIGNED = re.compile(r"(?:\.\w+\s*)?=(?!=)")
_UPDATED = re.compile(r"(?:\.\w+\s*)?(?:(?:[-+*/%&|^]|<<|>>)=|\+\+|--)")
_CLOSED = re.compile(r"^(?:\)\s*)+(?:\[\s*0\s*\]\s*)?(?=[-+*/]?=(?!=))")  # as in FLOAT4(y[i]) = ...
_CALL = re.compile(r"([A-Za-z_]\w*)\s*(?:<[^<>;]*>)?\s*$")
_CASTS = ("reinterpret_cast", "static_cast", "const_cast")


@dataclass(frozen=True)
class Local:
    """A variable of the body. `value`: what it always is; `start` and `step`: of the variable of a loop."""

    name: str
    at: int
    unique: str
    value: ast.expr | None = None
    start: ast.expr | None = None
    step: ast.expr | None = None
    array: str = ""  # of a pointer: the array that it points into, from `value` on
    lanes: int = 1  # elements of the array in one of the pointer's

    end: int = 1 << 60


@dataclass(frozen=True)
class Access:
    """A place where an array is named. `index`: of the element; None where it cannot be read."""

    array: str
    at: int
    kind: str
    index: ast.expr | None
    function: str = ""  # that gets the array
    argument: int = 0
    lanes: int = 1  # elements that are taken at once
    rest: tuple[str, ...] = ()  # the function's further arguments


class Body:
    """A body, read once.

    `arrays`: bytes of an element of each (0: not known). `wide`: elements in one of the pointer's, where it points to a
    vector type. `numbers`: constants by name.
    """

    def __init__(
        self, code: str, arrays: Mapping[str, int], wide: Mapping[str, int], numbers: Mapping[str, int]
    ) -> None:
        self.code, self._arrays, self._wide, self._numbers = with_ranks(code), arrays, wide, numbers
        self._locals = dict[str, list[Local]]()
        self.bounds = list[tuple[ast.expr, ast.expr]]()  # of which the first is below the second
        self.loops = list[Local]()
        self._changes = dict[str, list[int]]()
        for found in _CHANGED.finditer(self.code):
            self._changes.setdefault(found[1] or found[2], []).append(found.start())
        self._braces = [(m.start(), m[0] == "{") for m in re.finditer(r"[{}]", self.code)]
        self._own = set[int]()  # places of names that are declared
        self._scan()
        self.accesses = sorted(self._accesses(), key=lambda access: access.at)
        self.by_unique = {one.unique: one for some in self._locals.values() for one in some}

    def read(self, text: str, at: int) -> ast.expr | None:
        """Return an expression at a place, with the values of variables in their places."""
        node = c.parsed(text)
        return None if node is None else self._inlined(node, at)

    def _inlined(self, node: ast.expr, at: int) -> ast.expr | None:
        found = c.inlined(node, lambda name: self._value(name, at))
        return found if len(ast.unparse(found)) <= c.LONGEST else None

    def _value(self, name: str, at: int) -> ast.expr | None:
        local = self._visible(name, at)
        if local:
            return local.value or ast.Name(local.unique)
        return ast.Constant(self._numbers[name]) if name in self._numbers else None

    def _visible(self, name: str, at: int) -> Local | None:
        return next((one for one in reversed(self._locals.get(name, ())) if one.at <= at < one.end), None)

    def _scan(self) -> None:
        """Read declarations, headers and conditions, from the first to the last."""
        opened: list[list[Local]] = [[]]
        waiting = list[Local]()  # variables of a header, which live as long as what follows
        start = end = 0
        for mark in _MARK.finditer(self.code):
            if mark.start() < end:
                continue
            piece = self.code[start : mark.start()]
            if mark[0] == "(" and (header := _HEADER.match(piece)):
                end = closing(self.code, mark.end())
                waiting += self._header(header[1], mark.end(), end - 1)
                start = end
            elif mark[0] in "({" and not (mark[0] == "{" and not re.search(r"=\s*$", piece)):
                end = closing(self.code, mark.end())
            elif mark[0] in ";{}":
                made = self._statement(piece, start)
                start = end = mark.end()
                if mark[0] == "{":
                    opened[-1] += made
                    opened.append(waiting)
                    waiting = []
                    continue
                opened[-1] += made
                self._close(waiting, mark.end())
                waiting = []
                if mark[0] == "}":
                    self._close(opened.pop() if len(opened) > 1 else [], mark.end())

    def _close(self, some: list[Local], end: int) -> None:
        for one in some:
            of_name = self._locals[one.name]
            of_name[of_name.index(one)] = Local(**{**vars(one), "end": end})

    def _header(self, word: str, start: int, end: int) -> list[Local]:
        text = self.code[start:end]
        if word != "for":
            self._condition(text, start)
            return []
        parts = text.split(";")
        if len(parts) != 3:
            return []
        steps = steps_of(parts[2])
        made = self._statement(parts[0], start, steps)
        self._condition(parts[1], start + len(parts[0]), holds=True)
        return made

    def _condition(self, text: str, at: int, holds: bool = False) -> None:
        node = c.parsed(text)
        for left, right in c.less(node, holds) if node is not None else ():
            low, high = self._inlined(left, at), self._inlined(right, at)
            if low is not None and high is not None:
                least = isinstance(high, ast.Call) and isinstance(high.func, ast.Name) and high.func.id == "min"
                self.bounds += [(low, one) for one in (high.args if least else [high])]  # type: ignore[attr-defined]

    def _statement(self, text: str, at: int, steps: Mapping[str, str] | None = None) -> list[Local]:
        for chosen in re.finditer(r"\?", text):  # a condition before each ?
            self._condition(
                re.split(r"(?<![=<>!])=(?!=)|\breturn\b|[,;:]", text[: chosen.start()])[-1].lstrip("( "), at
            )
        declared = _DECLARATION.match(text)
        if (
            not declared
            and steps is None
            and _MOVED.match(text)
            and len(parts := split_parameters(text + ")", 0)[0]) > 1
        ):
            return [one for part in parts for one in self._statement(part, at + max(text.find(part), 0))]
        if not declared:
            moved = _MOVED.match(text)
            if moved and steps is None:
                place = at + moved.start(1)
                found = self._pointer(moved[1], moved[3], place, moved[2] == "+=")
                known = self._visible(moved[1], place)
                once = len(self._changes.get(moved[1], ())) == 1 and not known
                again = known and not known.array and moved[2] == "=" and self._always(place, known.at)
                return found or ([self._new(moved[1], place, self.read(moved[3], place))] if once or again else [])
            if moved and steps is not None:  # for (i = threadIdx.x; ...)
                return [self._new(moved[1], at, start=self.read(moved[3], at), step=steps.get(moved[1]))]
            return []
        found = list[Local]()
        place = declared.start(3)
        for part in split_parameters(text[place:] + ")", 0)[0]:
            name, _, value = part.partition("=")
            name = name.strip(" *&")
            if value and re.search(r"[<>!]|&&|\|\|", value) and "?" not in value:
                self._condition(value, at)
            if not name.isidentifier():
                name, value = (m[1], m[2]) if (m := re.fullmatch(r"(\w+)\s*[({](.*)[)}]", part)) else ("", "")
            if not name:
                continue
            named = re.compile(rf"(?<![\w.]){name}\b").search(text, place)
            own = named.start() if named else place
            place = named.end() if named else place
            self._own.add(at + own)
            found += self._pointer(name, value, at + own, False) or [
                self._new(
                    name, at + own, self.read(value, at + own) if value else None, step=(steps or {}).get(name, "")
                )
            ]
        return found

    def _new(self, name: str, at: int, value: ast.expr | None = None, *, start: ast.expr | None = None,
             step: str | None = None) -> Local:  # fmt: skip
        changes = [place for place in self._changes.get(name, ()) if place > at and place not in self._own]
        changed = not all(self._always(place, at) for place in changes)
        if step:
            local = Local(name, at, f"{name}__{at}", None, start or value, self.read(step, at))
            self.loops.append(local)
        else:
            local = Local(name, at, f"{name}__{at}", None if changed else value, start or value)
        self._locals.setdefault(name, []).append(local)
        return local

    def _always(self, place: int, declared: int) -> bool:
        """Whether an assignment always happens after a declaration: `x = ...;` on its own in the same block."""
        between = [opens for at, opens in self._braces if declared < at < place]
        depth = 0
        for opens in between:
            depth += 1 if opens else -1
            if depth < 0:
                return False
        alone = self.code[:place].rstrip()[-1:] in (";", "{", "}")
        return depth == 0 and alone and bool(re.match(r"\w+\s*=(?!=)", self.code[place:]))

    def _pointer(self, name: str, value: str, at: int, more: bool) -> list[Local]:
        """What a declaration or an assignment makes of a pointer into an array; [] if it is another variable."""
        base, offset, lanes = (name, value, 1) if more else self._into(value)
        visible = self._visible(base, at)
        array = visible.array if visible and visible.array else base if not visible else ""
        if array not in self._arrays or (more and name not in self._arrays and not (visible and visible.array)):
            return []
        moved = self.read(offset, at) if offset.strip() else ast.Constant(0)
        before: ast.expr | None = visible.value if visible else ast.Constant(0)
        old = visible.lanes if visible else self._wide.get(array, 1)
        whole = further(before, moved, old)
        local = Local(name, at, f"{name}__{at}", whole, array=array, lanes=lanes or old)
        self._locals.setdefault(name, []).append(local)
        return [] if name in self._arrays else [local]

    def _into(self, value: str) -> tuple[str, str, int]:
        """Return pointer, offset and lanes of `x + row * n`, `&x[i]`, `reinterpret_cast<float4*>(x)`."""
        text, lanes = value.strip(), 0
        if cast := re.match(r"(?:reinterpret_cast|static_cast|const_cast)\s*<([^<>]*?)\*[^<>]*>\s*\((.*)\)\s*$", text,
                            re.DOTALL) or re.match(r"\(([^()*]*)\*[^()]*\)\s*(.*)$", text, re.DOTALL):  # fmt: skip
            base, offset, _ = self._into(re.sub(r"^\((.*)\)$", r"\1", cast[2].strip(), flags=re.DOTALL))
            return base, offset, self._lanes(base, cast[1])
        if found := re.fullmatch(r"&\s*(\w+)\s*\[(.*)\]", text, re.DOTALL):
            return found[1], found[2], lanes
        found = re.fullmatch(r"(\w+)\s*(?:\+(.*))?", text, re.DOTALL)
        return (found[1], found[2] or "", lanes) if found else ("", "", lanes)

    def _lanes(self, name: str, ctype: str) -> int:
        """How many elements of an array are one of a vector type, such as float4."""
        item = self._arrays.get(name, 0)
        words = ctype.replace("const", "").split()
        kind = of_c(" ".join(words))
        size = vector_bytes(words[-1]) if words else 0
        size = size or (kind.itemsize if kind else 0)
        return size // item if size and item and size >= item else 1

    def _accesses(self) -> Iterator[Access]:
        names = {*self._arrays, *(name for name, some in self._locals.items() if any(one.array for one in some))}
        for found in re.finditer(r"(?<!\.)\b[A-Za-z_]\w*\b", self.code) if names else ():
            if found[0] in names and found.start() not in self._own:
                yield from self._access(found[0], found.start(), found.end())

    def _access(self, name: str, at: int, end: int) -> Iterator[Access]:
        local = self._visible(name, at)
        if local and not local.array:  # a local variable hides the array
            return
        array, lanes = (local.array, local.lanes) if local else (name, self._wide.get(name, 1))
        offset: ast.expr | None = local.value if local else ast.Constant(0)
        before, after = self.code[max(at - 120, 0) : at], self.code[end : end + 2000]
        cast = _CAST_BEFORE.search(before)
        wide = self._lanes(array, cast[1] or cast[2]) if cast else 1
        text = after.lstrip()
        if closed := re.match(r"\)+\s*(?=\[)", text) if cast else None:  # reinterpret_cast<float4*>(x)[i]
            text, lanes = text[closed.end() :], wide
        function, argument, rest = self._call(at)
        if function in _CASTS:
            function, argument, rest = self._call(self.code.rfind(function, 0, at))
            cast_alone = not function
        else:
            cast_alone = False
        if text.startswith("["):
            stop = closing(text, 1)
            index, tail = text[1 : stop - 1], text[stop:].lstrip()
            if not index.strip():  # extern __shared__ float tile[]
                return
            address = before.rstrip().endswith("&") and not before.rstrip().endswith("&&")
            kind = self._kind(tail, address, function, argument)
        elif before.rstrip().endswith("*") or re.search(r"\*\s*\(\s*$", before):
            index = text[1 : closing(text, 1) - 1] if text.startswith("+") else "0"
            tail = text[closing(text, 1) :] if text.startswith("+") else text
            kind = self._kind(tail.lstrip(" )"), False, "", 0)
        elif re.search(r"[(,]\s*(?:\([^()]*\*\s*\)\s*)?$", before) and re.match(r"[+,)]", text):
            if cast_alone:  # the value of another pointer
                return
            parts, _ = split_parameters(text, 1) if text[0] == "+" else ([""], 0)
            kind = self._kind("", True, function, argument)
            index = "".join(parts[:1]) if text[0] == "+" else "0" if kind == ATOMIC else ""
        else:
            return
        node = self.read(index, at) if index else None
        whole = further(offset, node, lanes)
        yield Access(array, at, kind, whole, function, argument, max(lanes, wide), rest)

    def _kind(self, tail: str, address: bool, function: str, argument: int) -> str:
        if address:
            if function.startswith("atomic") and not argument:
                return ATOMIC
            if function.startswith("__ld") or "load" in function or (argument and "memcpy" in function):
                return READ
            return WRITE if re.search(r"__st|store|memcpy", function) and not argument else PASSED
        tail = _CLOSED.sub("", tail)
        return WRITE if _ASSIGNED.match(tail) else UPDATE if _UPDATED.match(tail) else READ

    def _call(self, at: int) -> tuple[str, int, tuple[str, ...]]:
        """The function among whose arguments a place is, which argument that is, and the text of those after it."""
        depth, argument = 0, 0
        for place in range(at - 1, max(at - 400, -1), -1):
            sign = self.code[place]
            if sign in ";{}":
                break
            depth += (sign in ")]") - (sign in "([")
            argument += sign == "," and depth == 0
            if depth < 0:
                if sign == "[":
                    return "", 0, ()
                named = _CALL.search(self.code[max(place - 100, 0) : place])
                parts = split_parameters(self.code, place + 1)[0] if named else []
                return (named[1] if named else ""), argument, tuple(parts[argument + 1 :])
        return "", 0, ()
