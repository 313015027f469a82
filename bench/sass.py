"""Compiles anew the machine code that documents and tests read: python bench/sass.py. Needs nvcc and nvdisasm."""

from __future__ import annotations

from pathlib import Path

from cudalab.spec import find
from cudalab.spec.dtype import dtype
from cudalab.tools.inspect import kept
from cudalab.tools.inspect.forms import form

ROOT = Path(__file__).parent.parent
H200, TESTS = ROOT / "bench" / "results" / "h200" / "sass", ROOT / "tests" / "data" / "sass"


def main() -> None:
    for name, kernel in find.kernels().items():
        if (H200.parent / f"{name}.json").exists():
            for kind in map(dtype, kernel.dtypes):
                forms = [form(kernel, entry, kind, "sm_90")[0] for entry in kernel.entries]  # default, and as tuned
                for path, chosen in {kept.place(H200, each, kind, "sm_90"): each for each in forms}.items():
                    path.write_text(kept.text(chosen, kind, "sm_90"))
    for path, architecture in (("tests/data/sass/ways.py", "sm_90"), ("tests/data/sass/ways.py", "sm_120"),
                               ("bench/examples/softmax.py", "sm_90")):  # fmt: skip
        kernel, kind = find.kernel(str(ROOT / path)), dtype("float32")
        kept.place(TESTS, kernel, kind, architecture).write_text(kept.text(kernel, kind, architecture))


if __name__ == "__main__":
    main()
