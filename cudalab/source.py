"""Reading a `.cu` as text: its entries, its digest, and the form in which a compiler gets it."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from cudalab.dtypes import DType
from cudalab.errors import SpecError

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_BOUNDS = r"__launch_bounds__\s*\([^)]*\)"
_ENTRY = re.compile(rf"__global__\b(?:\s+(?:static|inline|{_BOUNDS}))*\s+void\s+(?:{_BOUNDS}\s*)?(\w+)\s*\(")
_TEMPLATE = re.compile(r"template\s*<[^;{}()]*>\s*(?:extern\s+\"C\"\s*)?$")
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b[^\n]*$", re.MULTILINE)


def blank_comments(text: str) -> str:
    """The same text with every comment made of spaces: places and line numbers stay as they were."""
    return _COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def entries(text: str) -> tuple[str, ...]:
    """Names of the `__global__` functions that are not templates."""
    bare = blank_comments(text)
    found = (m for m in _ENTRY.finditer(bare) if not _TEMPLATE.search(bare[: m.start()]))
    return tuple(dict.fromkeys(m.group(1) for m in found))


@dataclass(frozen=True)
class Parameter:
    """One parameter of an entry as it is declared, such as `const float* __restrict__ x`."""

    text: str

    @property
    def pointer(self) -> bool:
        return "*" in self.text

    @property
    def constant(self) -> bool:
        """A pointer through which nothing can be written."""
        return self.pointer and bool(re.search(r"\bconst\b", self.text.partition("*")[0]))


def parameters(text: str, entry: str) -> tuple[Parameter, ...]:
    """The declared parameters of a `__global__` function, in order."""
    bare = blank_comments(text)
    start = next(m.end() for m in _ENTRY.finditer(bare) if m.group(1) == entry)
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

    A file that says `extern "C"` itself stays as it is; one that does not is wrapped, as PyCUDA's SourceModule
    does, with its #include lines left outside (headers with templates cannot be inside).
    """
    here = f'#line 1 "{name}"\n'
    if re.search(r'extern\s*"C"', blank_comments(text)):
        return here + text
    includes = "\n".join(m.group() for m in _INCLUDE.finditer(text))
    body = _INCLUDE.sub("", text)
    return f'{includes}\nextern "C" {{\n{here}{body}\n}}\n'


@cache
def read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise SpecError(f"cannot read {path}: {error.strerror}; the .cu stands beside its spec") from None
    except UnicodeDecodeError:
        raise SpecError(f"{path} is not UTF-8 text") from None


def defines(dtype: DType) -> dict[str, str]:
    """Macros with which a `.cu` is compiled for one element type."""
    return {"scalar_t": dtype.ctype}


def digest(path: Path) -> str:
    """SHA-256 of a file's bytes: says whether a stored result is of this source."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
