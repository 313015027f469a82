"""Compiles the machine code in tests/data/sass anew: python bench/sass.py. Needs nvcc 13.0 and nvdisasm."""

from __future__ import annotations

from pathlib import Path

from cudalab.spec import find
from cudalab.spec.dtype import dtype
from cudalab.tools.inspect import kept

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "tests" / "data" / "sass"
KEPT = (
    ("tests/data/sass/ways.py", "sm_90"),
    ("tests/data/sass/ways.py", "sm_120"),
    ("bench/examples/softmax.py", "sm_90"),
)


def main() -> None:
    kind = dtype("float32")
    for path, architecture in KEPT:
        kernel = find.kernel(str(ROOT / path))
        kept.place(FOLDER, kernel, kind, architecture).write_text(kept.text(kernel, kind, architecture))


if __name__ == "__main__":
    main()
