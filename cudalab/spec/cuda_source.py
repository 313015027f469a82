"""Reading a `.cu` as text: its entries, its digest, and the form in which a compiler gets it."""

from __future__ import annotations

import codecs
import hashlib
import os
import re
import stat
import time
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from cudalab.base.errors import SpecError, unknown
from cudalab.spec import host_part
from cudalab.spec.comments import blank_comments as blank_comments
from cudalab.spec.comments import blanked

_ATTRIBUTE = re.compile(r"\b__(?:launch_bounds|cluster_dims)__\s*\((?:[^()]|\([^()]*\))*\)")
_ENTRY = re.compile(r"\b__global__\b(?:(?!\b__global__\b)[\w\s])*?\bvoid\s+(?:__\w+__\s+)*(\w+)\s*\(")

_QUALIFIERS = ("const", "volatile", "struct", "__restrict__", "__grid_constant__")  # of a type
# Also in a comment, which is harmless. What <> names is a header of the user's if it lies beside the `.cu`.
_LOCAL = re.compile(r'#[ \t]*include[ \t]*["<]([^">\n]+)[">]')


def global_functions(code: str) -> Iterator[re.Match[str]]:
    """Matches of the `__global__` functions in comment-free code; group 1 is the name, its parameters follow."""
    return _ENTRY.finditer(blanked(_ATTRIBUTE, code))


def _entry_matches(code: str) -> Iterator[re.Match[str]]:
    """Matches of the `__global__` functions in comment-free code that are not templates; group 1 is the name."""
    code = blanked(_ATTRIBUTE, code)
    last = 0
    for found in _ENTRY.finditer(code):
        start = max(code.rfind(end, last, found.start()) for end in ";{}") + 1 or last
        last = found.end()
        if not re.search(r"\btemplate\b", code[start : found.start()]):
            yield found


@lru_cache(maxsize=64)
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
    def to_pointers(self) -> bool:
        """Whether it points to pointers, such as `float** rows`."""
        bare = re.sub(r"<[^<>]*>", "", self.text)
        return bare.count("*") + ("[" in bare and "(" not in bare) > 1

    @property
    def constant(self) -> bool:
        """Whether it is a pointer to const."""
        return self.pointer and bool(re.search(r"\bconst\b", self._element))

    @cached_property
    def ctype(self) -> str:
        """Return the type, or that of the elements it points to, without const: `float`, `scalar_t`, `long long`."""
        words = [word for word in self._element.split() if word not in _QUALIFIERS]
        return " ".join(words if "*" in self.text else words[:-1])

    @property
    def type(self) -> str:
        """Its type without its name, as far as text tells: `const float*`, `int`."""
        bare = re.sub(r"\b__\w+__\b|\b__restrict\b", "", re.sub(r"\s*=.*", "", self.text)).replace("[]", " ")
        found = re.fullmatch(r"(.*[\s*&>])\w+\s*", bare)
        kind = found[1] if found else bare
        return " ".join(kind.split()).replace(" *", "*") + ("*" if "[" in self.text and "*" not in kind else "")

    @property
    def _element(self) -> str:
        return re.split(r"[*\[=]", self.text)[0]


@lru_cache(maxsize=256)  # asked before every launch
def parameters(text: str, entry: str) -> tuple[Parameter, ...]:
    """The declared parameters of a `__global__` function, in order. Raises NotFound if there is no such function."""
    bare = blank_comments(text)
    places = {m[1]: m.end() for m in reversed(list(_entry_matches(bare)))}  # the first of equal names
    if entry not in places:
        raise unknown("__global__ function", entry, entries_of(bare))
    return tuple(map(Parameter, split_parameters(bare, places[entry])[0]))


def split_parameters(code: str, start: int) -> tuple[list[str], int]:
    """The parts between commas from `start` to the bracket that closes the list, and where that ends."""
    depth, parts, at = 0, [""], start
    for at in range(start, len(code)):
        char = code[at]
        if char in ")>]" and depth == 0:
            break
        depth += (char in "(<[") - (char in ")>]")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [" ".join(part.split()) for part in parts if part.strip()], at + 1


def with_c_names(text: str, name: str, cpp: Container[str] = ()) -> str:
    """`text` with entries that a driver finds by their plain names, and with `name` in the compiler's messages.

    Each entry is declared `extern "C"`, unless it already is or is one of `cpp`. Helpers keep C++ linkage, so they may
    be templates or overloaded. Line numbers stay the same.
    """
    bare = blank_comments(text)
    parts, last = [f'#line 1 "{name}"\n'], 0
    for found in _entry_matches(bare):
        if found[1] in cpp:
            continue
        start = max(bare.rfind(end, last, found.start()) for end in ";{}\n") + 1 or last  # before such as static
        if 'extern "C"' not in bare[start : found.start()]:
            parts += [text[last : found.start()], 'extern "C" ']
            last = found.start()
    return "".join([*parts, text[last:]])


@dataclass(frozen=True)
class _Kept:
    """The text of a `.cu`, and the state of every file that it depends on: None for a header that is not there."""

    text: str
    states: dict[Path, tuple[int, ...] | None]
    left_out: str = ""
    headers: tuple[str, ...] = ()


_kept: dict[Path, _Kept] = {}
LARGEST = 64 << 20  # bytes of a source file
SETTLED = 2 * 10**9  # ns: a file changed more recently may change again within one tick of its file system's clock


def read(path: Path) -> str:
    """The text of a `.cu` as it is now, without its host part. It is read again only if it or a header has changed.

    If it includes headers by `#include "..."`, a comment at its end holds their digest, so that whatever is cached by
    the text is made anew when a header changes.
    """
    return _read(path).text


def headers(path: Path) -> tuple[str, ...]:
    """The texts of all files that a `.cu` includes by `#include "..."`, directly or not, as they are now."""
    return _read(path).headers


def left_out(path: Path) -> str:
    """What of a `.cu` is left out as the host's, in one line with line numbers; "" for nothing."""
    return _read(path).left_out


def whole(path: Path) -> str:
    """The text of a `.cu` with its host part. Raises SpecError if it cannot be read."""
    try:
        return _decoded(path.read_bytes(), path)
    except OSError as error:
        raise SpecError(f"cannot read {path}: {error.strerror}; put the .cu beside its spec") from None


def _read(path: Path) -> _Kept:
    kept = _kept.get(path)
    if kept and all(_state(file) == state for file, state in kept.states.items()):
        return kept
    now = time.time_ns()
    try:
        before = _state(path)
        text = _decoded(_bytes(path), path)
        looked = _headers(text, path)
        states = {path: before, **{header: _state(header) for header in looked}}
        there = {header: data.decode(errors="replace") for header, data in looked.items() if data is not None}
        beside = frozenset(n for n in _LOCAL.findall(text) if Path(os.path.normpath(path.parent / n)) in there)
        device = host_part.separated(text, path.name, beside, tuple(there.values()))
        kept = _Kept(device.text + _digest_of_headers(looked), states, device.said, tuple(there.values()))
    except OSError as error:
        named = error.filename or path  # which may be a header's
        raise SpecError(f"cannot read {named}: {error.strerror}; put the .cu beside its spec") from None
    if all(state is None or now - max(state[:2]) > SETTLED for state in kept.states.values()):
        _kept[path] = kept
    return kept


def _decoded(data: bytes, path: Path) -> str:
    """The text of a `.cu`, with lines that end in a newline and without a byte order mark. SpecError if it is none."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise SpecError(f"{path} is UTF-16, which no CUDA compiler reads; save it as UTF-8")
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line, byte = data.count(b"\n", 0, error.start) + 1, data[error.start]
        raise SpecError(f"{path}:{line}: the byte 0x{byte:02x} is not UTF-8; save the file as UTF-8") from None
    if "\0" in text:
        raise SpecError(f"{path}:{text.count(chr(10), 0, text.index(chr(0))) + 1}: a zero byte; is this a text file?")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _state(path: Path) -> tuple[int, ...] | None:
    """What changes when a file is written or replaced; None if it is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_dev


def digest(path: Path) -> str:
    """SHA-256 of a file's bytes, and of the headers beside it: tells whether a stored result is of this code."""
    try:
        data = _bytes(path)
        headers = _headers(data.decode(errors="replace"), path)
        return hashlib.sha256(data + _digest_of_headers(headers).encode()).hexdigest()
    except OSError as error:
        raise SpecError(f"cannot read {error.filename or path}: {error.strerror}") from None


def _digest_of_headers(headers: Mapping[Path, bytes | None]) -> str:
    """Return a comment with the digest of all headers of a `.cu`; "" for none."""
    found = {header: data for header, data in headers.items() if data is not None}
    if not found:
        return ""
    digests = (hashlib.sha256(found[header]).hexdigest() for header in sorted(found))
    return f"\n// with headers {hashlib.sha256(' '.join(digests).encode()).hexdigest()}\n"


def _content(path: Path) -> bytes | None:
    return _bytes(path) if path.exists() and not path.is_dir() else None


def _bytes(path: Path) -> bytes:
    """The bytes of a source file. Raises OSError, and SpecError for what is no file and may have no end."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise SpecError(f"{path} is not a regular file; put the source itself there")
        if found.st_size > LARGEST:
            raise SpecError(f"{path} has {found.st_size:,} bytes; a source file may have {LARGEST:,}")
        return file.read()


def _headers(text: str, path: Path, read: Callable[[Path], bytes | None] = _content) -> dict[Path, bytes | None]:
    """Every path at which a file that a `.cu` includes by `#include "..."`, directly or not, is looked for, in order.

    With each path comes what `read` gives for it: the file's content, or None if it is not there.
    """
    found: dict[Path, bytes | None] = {}
    left = [(path, name) for name in reversed(_LOCAL.findall(text))] if path.suffix == ".cu" else []
    while left:
        by, name = left.pop()
        for place in (by.parent, path.parent):
            header = Path(os.path.normpath(place / name))
            if header not in found:
                found[header] = data = read(header)
                left += [(header, more) for more in reversed(_LOCAL.findall((data or b"").decode(errors="replace")))]
            if found[header] is not None:
                break
    return found


def places_of_headers(path: Path) -> dict[Path, bytes | None]:
    """Where the headers of a `.cu` are looked for, directly or not: each path, and what is there."""
    return _headers(path.read_bytes().decode(errors="replace"), path)


def local_headers(text: str, path: Path, read: Callable[[Path], bytes | None] = _content) -> dict[Path, bytes]:
    """Path and content of every file that a `.cu` includes by `#include "..."`, directly or not, in this order.

    `read` gives the content of a path, or None, where the files are not those of now.
    """
    return {header: data for header, data in _headers(text, path, read).items() if data is not None}
