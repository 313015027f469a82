"""Machine code kept in text files, so that it can be inspected where there is no nvcc.

A file has the digest of the `.cu`, what ptxas said, a line of equal signs, and of the disassembly what `sass.parse`
reads.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from cudalab.base.errors import Unavailable
from cudalab.spec import cuda_source
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Kernel
from cudalab.tools.inspect import tools

RULE = "=" * 40 + "\n"
_READ = re.compile(r"\.text\.|\.nv\.info\.")


def place(folder: Path, kernel: Kernel, dtype: DType, architecture: str) -> Path:
    """The file of a kernel for one dtype and architecture."""
    tuned = "".join(f"_{n}={v}" for n, v in kernel.parameters.items()) if len(kernel.configurations()) == 1 else ""
    return folder / f"{kernel.name}_{dtype.name}_{architecture}{tuned}.txt"


def reader(*folders: Path) -> Callable[[Kernel, DType, str], tools.Compiled]:
    """What gives the same as `tools.compiled`, but from files in these folders."""

    def compiled(kernel: Kernel, dtype: DType, architecture: str) -> tools.Compiled:
        places = [place(folder, kernel, dtype, architecture) for folder in folders]
        kept = {path: path.read_text(encoding="utf-8").partition("\n") for path in places if path.exists()}
        if not kept:
            raise Unavailable(
                f"no machine code is kept in {', '.join(map(str, places))}; python bench/sass.py makes it"
            )
        rest = next((rest for head, _, rest in kept.values() if head == _head(kernel)), None)
        if rest is None:
            raise Unavailable(f"{next(iter(kept))} is of another {kernel.cu.name}; python bench/sass.py makes it anew")
        said, _, listing = rest.partition(RULE)
        return tools.read(said, listing, cuda_source.read(kernel.cu))

    return compiled


def text(kernel: Kernel, dtype: DType, architecture: str) -> str:
    """What a file is to hold, compiled now; without what differs from machine to machine and from run to run."""
    said, listing, _ = tools.listings(kernel, dtype, architecture)
    said = "".join(f"{line}\n" for line in said.splitlines() if "Compile time" not in line)
    return f"{_head(kernel)}\n{said}{RULE}" + "".join(f"{line}\n" for line in _shortened(listing))


def _head(kernel: Kernel) -> str:
    return f"{kernel.cu.name} {cuda_source.digest(kernel.cu)}"


def _shortened(listing: str) -> list[str]:
    found, reading = [], False
    for line in listing.splitlines():
        if "\t.section\t" in line:
            reading = bool(_READ.search(line))
        if reading and line.strip() and not line.startswith("//-"):
            line = re.sub(r'(//## File ")[^"]*/', r"\1", line)
            found.append(" ".join(line.split()) if "/*" in line else line)
    return found
