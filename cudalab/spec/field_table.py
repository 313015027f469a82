"""The table of the fields of a spec in docs/kernel.md, from what `cudalab.spec.kernel` says of each.

    python -m cudalab.spec.field_table docs/kernel.md

writes it between `<!-- spec fields -->` and `<!-- /spec fields -->`; a test says when it is stale.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from cudalab.spec.kernel import Kernel
from cudalab.spec.validate import described

BEGIN, END = "<!-- spec fields -->", "<!-- /spec fields -->"


def table() -> str:
    rows = [f"| `{name}` | {said.what} | {said.without} |" for name, said in described(Kernel).items()]
    return "\n".join(["| field of `Kernel` | what it is | default |", "| --- | --- | --- |", *rows])


def filled(text: str) -> str:
    """Return `text` with the table in its place."""
    return re.sub(f"(?<={BEGIN}\n).*?(?={END})", lambda _: table() + "\n", text, flags=re.DOTALL)


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
