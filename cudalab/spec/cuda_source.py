"""Reading a `.cu` as text: its entries, its digest, and the form in which a compiler gets it."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from cudalab.base.errors import SpecError, unknown

# Comments, strings and characters. What is not closed goes on to the end: a search for the end that fails is done once.
_UNREAD = re.compile(
    r"//(?:[^\n\\]|\\.)*"
    r"|/\*.*?(?:\*/|\Z)"
    r'|"(?:[^"\\\n]|\\.)*"?'
    r"|'(?:[^'\\\n]|\\[^\n]{1,9}?)'",  # short: in 1'000'000 there is no character
    re.DOTALL,
)
_ATTRIBUTE = re.compile(r"\b__(?:launch_bounds|cluster_dims)__\s*\((?:[^()]|\([^()]*\))*\)")
_ENTRY = re.compile(r"\b__global__\b(?:(?!\b__global__\b)[\w\s])*?\bvoid\s+(?:__\w+__\s+)*(\w+)\s*\(")

_LOCAL = re.compile(r'#[ \t]*include[ \t]*"([^"\n]+)"')  # in a comment too, which does no harm


def blank_comments(text: str) -> str:
    """The same text with every comment and string (not "C") made of spaces: places and lines stay as they were."""
    return _blank(_UNREAD, text)


def _blank(what: re.Pattern[str], text: str) -> str:
    return what.sub(lambda m: m[0] if m[0] == '"C"' else re.sub(r"[^\n]", " ", m[0]), text)


def _entry_matches(code: str) -> Iterator[re.Match[str]]:
    """Matches of the `__global__` functions in comment-free code that are not templates; group 1 is the name."""
    code = _blank(_ATTRIBUTE, code)
    last = 0
    for found in _ENTRY.finditer(code):
        start = max(code.rfind(end, last, found.start()) for end in ";{}") + 1 or last
        last = found.end()
        if not re.search(r"\btemplate\b", code[start : found.start()]):
            yield found


def entries_of(code: str) -> tuple[str, ...]:
    """Names of the entries in comment-free code, in order, each once."""
    return tuple(dict.fromkeys(found[1] for found in _entry_matches(code)))


def entries(text: str) -> tuple[str, ...]:
    """Names of the `__global__` functions of a `.cu` that are not templates."""
    return entries_of(blank_comments(text))


@dataclass(frozen=True)
class Parameter:
    """One parameter of an entry as it is declared, such as `const float* __restrict__ x`."""

    text: str

    @property
    def pointer(self) -> bool:
        return "*" in self.text or "[" in self.text

    @property
    def constant(self) -> bool:
        """A pointer through which nothing can be written."""
        return self.pointer and bool(re.search(r"\bconst\b", self._element))

    @property
    def ctype(self) -> str:
        """The type, or that of the elements it points to, without const: `float`, `scalar_t`, `long long`."""
        words = self._element.replace("const", " ").split()
        return " ".join(words if "*" in self.text else words[:-1])

    @property
    def _element(self) -> str:
        return re.split(r"[*\[]", self.text)[0]


@lru_cache(maxsize=256)  # asked before every launch
def parameters(text: str, entry: str) -> tuple[Parameter, ...]:
    """The declared parameters of a `__global__` function, in order. Raises NotFound if there is no such function."""
    bare = blank_comments(text)
    places = {m[1]: m.end() for m in reversed(list(_entry_matches(bare)))}  # of several the first
    if entry not in places:
        raise unknown("__global__ function", entry, entries_of(bare))
    start = places[entry]
    depth, parts = 0, [""]
    for char in bare[start:]:
        if char == ")" and depth == 0:
            break
        depth += (char in "(<[") - (char in ")>]")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return tuple(Parameter(" ".join(p.split())) for p in parts if p.strip())


def with_c_names(text: str, name: str) -> str:
    """`text` with entries that a driver finds by their plain name, and `name` in the compiler's messages.

    Each entry is declared `extern "C"`, unless it says so itself; helpers keep C++ linkage, so they may be templates
    or overloaded. Line numbers stay as they were.
    """
    bare = blank_comments(text)
    parts, last = [f'#line 1 "{name}"\n'], 0
    for found in _entry_matches(bare):
        start = max(bare.rfind(end, last, found.start()) for end in ";{}\n") + 1 or last  # before such as static
        if 'extern "C"' not in bare[start : found.start()]:
            parts += [text[last : found.start()], 'extern "C" ']
            last = found.start()
    return "".join([*parts, text[last:]])


def read(path: Path, headers: bool = True) -> str:
    """The text of a `.cu` as it is now.

    Where it includes headers by `#include "..."`, a comment at its end holds their digest, so that whatever is cached
    by the text is made anew when a header changes. Without `headers` it is the text alone, which is quicker.
    """
    try:
        text = path.read_text(encoding="utf-8")
        return text + _digest_of_headers(text, path) if headers else text
    except OSError as error:
        named = error.filename or path  # which may be a header's
        raise SpecError(f"cannot read {named}: {error.strerror}; the .cu stands beside its spec") from None
    except UnicodeDecodeError:
        raise SpecError(f"{path} is not UTF-8 text") from None


def digest(path: Path) -> str:
    """SHA-256 of a file's bytes, and of what it includes from beside it: says whether a stored result is of it."""
    try:
        data = path.read_bytes()
        return hashlib.sha256(data + _digest_of_headers(data.decode(errors="replace"), path).encode()).hexdigest()
    except OSError as error:
        raise SpecError(f"cannot read {error.filename or path}: {error.strerror}") from None


def _digest_of_headers(text: str, path: Path) -> str:
    """A comment with the digest of all headers of a `.cu`; "" for none."""
    found = local_headers(text, path)
    if not found:
        return ""
    digests = (hashlib.sha256(found[header]).hexdigest() for header in sorted(found))
    return f"\n// with headers {hashlib.sha256(' '.join(digests).encode()).hexdigest()}\n"


def local_headers(text: str, path: Path) -> dict[Path, bytes]:
    """Path and content of every file that a `.cu` includes by `#include "..."`, directly or not, in this order."""
    found: dict[Path, bytes] = {}
    left = [(path, name) for name in reversed(_LOCAL.findall(text))] if path.suffix == ".cu" else []
    while left:
        by, name = left.pop()
        for place in (by.parent, path.parent):
            header = Path(os.path.normpath(place / name))
            if header in found:
                break
            if header.is_file():
                found[header] = data = header.read_bytes()
                left += [(header, more) for more in reversed(_LOCAL.findall(data.decode(errors="replace")))]
                break
    return found
