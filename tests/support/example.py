"""The README's example of a kernel, and copies of it with changes."""

from __future__ import annotations

from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "bench" / "examples" / "softmax.py"


def example(folder: Path, old: str = "", new: str = "", suffix: str = ".cu") -> Path:
    """The path of a copy in `folder`, which is made, with some text of the `.cu` or of the spec replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in (EXAMPLE, EXAMPLE.with_suffix(".cu")):
        text = file.read_text()
        if file.suffix == suffix:
            assert old in text
            text = text.replace(old, new) if old else text
        (folder / file.name).write_text(text)
    return folder / EXAMPLE.name
