"""The tutorial works: its files are written and its commands run, in one shell, as a reader does.

A block with a file's name as its title is that file; a diff changes it. In a console block a line of `$ ` is a command,
and what follows is its output, where `...` stands for anything. Under the title of DIFFER a number stands for any
number, and a verdict for any verdict.
"""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from documents import ROOT, Block, blocks

DIFFER = "Your times will differ"
MARK = "=-=-= end of a command:"


@dataclass(frozen=True)
class Step:
    """A command of the page, and what it shows below it."""

    command: str
    output: str
    same: bool = True  # false: numbers and verdicts differ from run to run


def steps(block: Block) -> list[Step]:
    parts = re.split(r"^\$ (.*)\n", block.text, flags=re.MULTILINE)
    return [Step(command, output, same=block.title != DIFFER) for command, output in zip(parts[1::2], parts[2::2])]


def changed(text: str, diff: str) -> str:
    """`text` with a diff of one hunk, without line numbers, applied."""
    old, new = ("".join(line[1:] + "\n" for line in diff.splitlines() if line[0] in marks) for marks in (" -", " +"))
    assert text.count(old) == 1, f"the diff does not fit:\n{old}"
    return text.replace(old, new)


def script(page: list[Block]) -> tuple[str, list[Step]]:
    """The page as a shell script, and its commands; MARK and the exit code follow the output of each."""
    lines, commands, files = [], [], {}
    for block in page:
        if block.language == "console":
            commands += steps(block)
            lines += [f'{s.command}\ns=$?; echo; echo "{MARK}$s"; (exit $s)' for s in steps(block)]
        elif block.title:
            files[block.title] = changed(files[block.title], block.text) if block.language == "diff" else block.text
            lines.append(f"cat > {block.title} <<'END OF FILE'\n{files[block.title]}END OF FILE")
    return "\n".join(lines), commands


PAGE = blocks(ROOT / "docs" / "tutorial.md")
SCRIPT, STEPS = script(PAGE)
# One worker follows the page, for all tests.
pytestmark = [pytest.mark.process, pytest.mark.tutorial, pytest.mark.xdist_group("tutorial")]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory) -> list[tuple[str, int]]:
    """(output, exit code) of every command."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_") and k != "CUDALAB_REQUIRE"}
    run = subprocess.run(
        ["bash", "-c", SCRIPT], cwd=tmp_path_factory.mktemp("tutorial"), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        env={**inherited, "PATH": path, "COLUMNS": "80", "CUDA_VISIBLE_DEVICES": ""},
    )  # fmt: skip
    parts = re.split(rf"\n{MARK}(\d+)\n", run.stdout)
    return [(output, int(code)) for output, code in zip(parts[::2], parts[1::2])]


def test_every_command_was_run(outcomes):
    assert len(outcomes) == len(STEPS) > 10


@pytest.mark.parametrize("index", range(len(STEPS)), ids=[s.command for s in STEPS])
def test_a_command_does_what_the_page_shows(index, outcomes):
    step, (output, code) = STEPS[index], outcomes[index]
    asked_for = STEPS[index + 1 : index + 2] and STEPS[index + 1].command == "echo $?"
    assert matches(step, output), f"{step.output}\n--- but it is ---\n{output}"
    assert code == 0 or asked_for, output


def matches(step: Step, output: str) -> bool:
    want, got = (text if step.same else any_run(text) for text in (step.output, output))
    want = want.replace("\n...\n", "...")  # lines that may be there: what differs between two runs, say
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    return doctest.OutputChecker().check_output(want, got, flags)


def any_run(text: str) -> str:
    """`text` without what differs from run to run. A ratio or interval that says nothing is a question mark alone."""
    numbers = re.sub(r"\d[\d.,]*\??|(?<!\S)\?(?!\S)", "0", text).replace("0 to 0", "0")
    return re.sub("FASTER|SAME|SLOWER|UNCLEAR", "VERDICT", numbers)


def test_a_page_that_shows_something_else_fails():
    step = Step("x", "right ...\n2.5 s SAME\n", same=False)
    assert matches(step, "right 12\n3.25? s SLOWER\n")
    assert matches(step, "right 12\n? s UNCLEAR\n")
    assert matches(replace(step, output="a 1.02 0.99 to 1.03 SAME"), "a ? ? UNCLEAR")
    assert matches(replace(step, output="a\n...\nb\n"), "a\n\nb\n")
    assert not matches(replace(step, same=True), "right 12\n3.25 s SAME\n")
    assert not matches(step, "WRONG 12\n2.5 s SAME\n")
    with pytest.raises(AssertionError, match="does not fit"):
        changed("a\nb\n", " b\n+c\n d\n")
    assert changed("a\nb\nd\n", " b\n+c\n-d\n") == "a\nb\nc\n"
