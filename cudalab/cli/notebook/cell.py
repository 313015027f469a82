"""A cell as the two files of a kernel, in which each line has the number that it has in the cell.

The `.cu` comes first. The spec stands below a line `# spec`, or in the comment that the cell begins with. A cell
without a spec gets that of `cudalab new`.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import tempfile
import textwrap
from functools import cache
from keyword import iskeyword
from pathlib import Path
from typing import NamedTuple

from cudalab.base.errors import InputError, SpecError, short
from cudalab.spec import cuda_source, scaffold, signatures

FIRST = 2  # the number of the line below %%cudalab
MARK = "# spec"
_MARK = re.compile(r"(?im)^[ \t]*(?://+|#)[ \t]*-*[ \t]*spec[ \t]*:?[ \t]*-*[ \t]*$")
_COMMENT = re.compile(r"(?is)\A\s*/\*+[ \t]*(?:spec\b[ \t]*:?)?(.*?)\*/")
_KERNEL = re.compile(r"(?m)^[ \t]*([A-Za-z_]\w*)[ \t]*(?::[^=\n]*)?=[ \t]*(?:\w+\.)*Kernel\(")
_REFERENCE = re.compile(r'\btodo\("reference: [^\n]*')


class Parts(NamedTuple):
    """The two texts of a cell, with blank lines in place of what is not theirs; `spec` is empty without one."""

    cuda: str
    spec: str


class Kernel(NamedTuple):
    """The files of a cell's kernel."""

    name: str
    folder: Path

    @property
    def spec(self) -> Path:
        return self.folder / f"{self.name}.py"


def parts(text: str) -> Parts:
    """The `.cu` and the spec of a cell's `text`, which begins below the line of the magic."""
    above = "\n" * (FIRST - 1)
    if mark := _MARK.search(text):
        return Parts(above + text[: mark.start()], above + _blank(text[: mark.end()]) + text[mark.end() :])
    comment = _COMMENT.match(text)
    if comment and _KERNEL.search(comment[1]):
        spec = textwrap.dedent(_blank(text[: comment.start(1)]) + comment[1])
        return Parts(above + _blank(comment[0]) + text[comment.end() :], above + spec)
    return Parts(above + text, "")


def written(text: str, name: str = "", reference: str = "") -> Kernel:
    """Write the files of a cell, in a folder of their own until this process ends.

    `name`: of the kernel, by default what its spec or its first `__global__` function is called; `reference`: the
    expression that a deduced spec computes, such as `x / (1 + np.exp(-x))`. Headers that the `.cu` includes are those
    of the current folder. Raises InputError for a cell that is no kernel, SpecError where only its author knows what a
    spec needs.
    """
    cuda, spec = parts(text)
    if "__global__" not in cuda:
        raise InputError(
            f"the cell has no __global__ function; give the text of a .cu, and below a line {MARK!r} that of its spec"
        )
    if spec and reference:
        raise InputError("--reference is for a cell without a spec, and this one has one; change its reference")
    kernel = _named(name or _name(cuda, spec))
    _write(kernel.spec.with_suffix(".cu"), cuda)
    _link_headers(cuda, kernel)
    _write(kernel.spec, spec or _deduced(kernel, reference))
    return kernel


def _deduced(kernel: Kernel, reference: str) -> str:
    """The spec that `cudalab new` writes for the `.cu`, with the `reference`. Raises SpecError if it has a `todo`."""
    if reference:
        try:
            compile(reference, "--reference", "eval")
        except (SyntaxError, ValueError) as error:
            raise InputError(
                f"--reference {short(reference)} is no expression of Python: {error}; give one such as 'np.exp(x)'"
            ) from None
    text = scaffold.of_file(kernel.spec.with_suffix(".cu"))
    if reference:
        text = _REFERENCE.sub(lambda _: reference, text, count=1)
    if "todo(" not in text:
        return text
    paste = f"paste this below the code and fill in each todo:\n\n{MARK}\n{text}"
    if reference:
        raise SpecError(f"the .cu and --reference do not say all that a spec needs; {paste}")
    raise SpecError(
        f"the cell has no spec; give --reference EXPRESSION, in NumPy, such as --reference 'np.exp(x)', or {paste}"
    )


def _blank(text: str) -> str:
    """As many lines, with nothing in them."""
    return "\n" * text.count("\n")


def _name(cuda: str, spec: str) -> str:
    if spec:
        found = _KERNEL.search(spec)
        return found[1] if found else "cell"
    own = signatures.signatures(cuda_source.blank_comments(cuda))
    return own[0].path.rpartition("::")[2] if own else "cell"


def _named(name: str) -> Kernel:
    if not name.isidentifier() or iskeyword(name):
        raise InputError(f"--name {short(name)} cannot name a kernel; give a name of letters, digits and _")
    folder = _session(os.getpid()) / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return Kernel(name, folder)


@cache
def _session(process: int) -> Path:
    """The folder of this process's cells; it is removed when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="cudalab-notebook-"))

    def remove() -> None:
        if os.getpid() == process:
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder


def _link_headers(cuda: str, kernel: Kernel) -> None:
    """Let the `.cu` find what it includes from the current folder."""
    here = Path.cwd()
    for header in cuda_source.local_headers(cuda, here / f"{kernel.name}.cu"):
        if header.is_relative_to(here):
            link = kernel.folder / header.relative_to(here)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(header)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
