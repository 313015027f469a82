"""Machine code of the test kernels, kept in text files of tests/data/sass, so that tests need no nvcc.

A file has the digest of the `.cu`, what ptxas says, a line of equal signs, and the lines of the disassembly that
`sass.parse` reads. `python tests/support/kept_sass.py` writes the files again; it needs nvcc 13.0 and nvdisasm.
"""

from __future__ import annotations

import re
from pathlib import Path

from cudalab.base.errors import Unavailable
from cudalab.spec import cuda_source, find
from cudalab.spec.dtype import DType, dtype
from cudalab.spec.kernel import Kernel
from cudalab.tools.inspect import compilers

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests" / "data" / "sass"
FILES = (
    ("tests/data/sass/ways.py", "sm_90"),
    ("tests/data/sass/ways.py", "sm_120"),
    ("tests/data/sass/loops.py", "sm_75"),
    ("tests/data/sass/loops.py", "sm_100"),
    ("bench/examples/softmax.py", "sm_90"),
    ("tests/data/kernels/two_pass_sum.py", "sm_90"),
)
RULE = "=" * 40 + "\n"
_READ = re.compile(r"\.text\.|\.nv\.info\.")
_AGAIN = "python tests/support/kept_sass.py writes it again"


def place(folder: Path, kernel: Kernel, kind: DType, architecture: str) -> Path:
    """The file of a kernel for one dtype and architecture."""
    tuned = "".join(f"_{n}={v}" for n, v in kernel.parameters.items()) if len(kernel.configurations()) == 1 else ""
    return folder / f"{kernel.name}_{kind.name}_{architecture}{tuned}.txt"


def reader(folder: Path) -> compilers.Compiler:
    """Gives what `compilers.compiled` gives, from the files of a folder."""

    def compiled(kernel: Kernel, kind: DType, architecture: str, launched: tuple[str, ...] = ()) -> compilers.Compiled:
        file = place(folder, kernel, kind, architecture)
        if not file.exists():
            raise Unavailable(f"no machine code is kept in {file}; {_AGAIN}")
        head, _, rest = file.read_text(encoding="utf-8").partition("\n")
        if head != _head(kernel):
            raise Unavailable(f"{file} is of another {kernel.cu.name}; {_AGAIN}")
        said, _, listing = rest.partition(RULE)
        return compilers.read(said, listing, cuda_source.read(kernel.cu))

    return compiled


def text(kernel: Kernel, kind: DType, architecture: str) -> str:
    """The content of a file, compiled now, without what differs between machines and between runs."""
    said, listing, _ = compilers.listings(kernel, kind, architecture)
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


def main() -> None:
    for spec, architecture in FILES:
        kernel = find.kernel(str(ROOT / spec))
        kind = dtype(kernel.dtypes[0])
        place(FOLDER, kernel, kind, architecture).write_text(text(kernel, kind, architecture))


if __name__ == "__main__":
    main()
