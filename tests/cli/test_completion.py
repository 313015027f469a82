"""What TAB offers, asked as the shells ask; and every command's help."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest
from click.shell_completion import FishComplete, ZshComplete
from click.testing import CliRunner
from commands import invoke, ran
from example import example
from tables import table

from cudalab.cli import COMPLETE, main
from cudalab.cli.complete import Bash

SPEC = """
raise SystemExit("a spec is never run by TAB")
mine = Kernel(sizes={"tall": (9, 1), "wide": (1, 9), **more}, dtypes=("float64", *others), entries={"one": f, "two": f})
"""


@pytest.fixture
def offered(monkeypatch, tmp_path):
    """What is offered for a line, by the class of one shell."""
    (tmp_path / "mine.py").write_text(SPEC)
    (tmp_path / "broken.py").write_text("def (")
    monkeypatch.chdir(tmp_path)

    def ask(line, shell=ZshComplete):
        words = line.split(" ")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", words[-1] if shell is FishComplete else str(len(words) - 1))
        asked = shell(main, {}, "cudalab", COMPLETE)
        return [
            item.value if item.type == "plain" else item.type
            for item in asked.get_completions(*asked.get_completion_args())
        ]

    return ask


@pytest.mark.parametrize("shell", [ZshComplete, FishComplete, Bash])
@pytest.mark.parametrize(("line", "found"), table("completion", "offers", str, str.split))
def test_offers(offered, line, found, shell):
    assert offered(line, shell) == found


@pytest.mark.parametrize(("line", "found"), table("completion", "entries after a colon", str, str.split))
def test_entries_after_a_colon(offered, line, found):
    assert offered(line) == found


@pytest.mark.parametrize(("words", "cut", "last"), table("completion", "words that bash has cut", str.split, str, str))
def test_words_that_bash_has_cut(monkeypatch, words, cut, last):
    monkeypatch.setenv("COMP_WORDS", "\n".join(["cudalab", "bench", *words]))
    monkeypatch.setenv("COMP_CWORD", str(1 + len(words)))
    asked = Bash(main, {}, "cudalab", COMPLETE)
    assert asked.get_completion_args() == (["bench", "--only"], last)
    assert asked.cut == cut


@pytest.mark.process
@pytest.mark.skipif(not shutil.which("bash"), reason="no bash")
def test_in_a_real_bash(tmp_path):
    command = tmp_path / "cudalab"
    boot = "from cudalab.cli import main; main(prog_name='cudalab')"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{boot}" "$@"\n')
    command.chmod(0o755)
    script = """
    eval "$(cudalab completion bash)"
    COMP_WORDS=(cudalab bench gelu --only numpy,host : gelu_) COMP_CWORD=6
    _cudalab_completion cudalab
    echo "${COMPREPLY[*]}"
    complete -p cudalab
    """
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True, env=env, check=True)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "gelu_scalar gelu_full gelu_vec",
        "complete -o nosort -F _cudalab_completion cudalab",
    ]


@pytest.mark.process
@pytest.mark.parametrize(
    ("shell", "text"), [("bash", "complete -o nosort"), ("zsh", "#compdef"), ("fish", "complete --no")]
)
def test_a_script_for_each_shell(shell, text):
    done = ran("completion", shell)
    assert text in done.stdout
    assert COMPLETE in done.stdout


@pytest.mark.parametrize("name", main.list_commands(None))
def test_every_help_has_an_example_and_exit_codes(name):
    text = CliRunner().invoke(main, [name, "--help"], terminal_width=80).stdout
    assert f"\n  cudalab {name}" in text
    assert "Exit code" in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_spec_beside_a_folder_of_its_name_is_meant(tmp_path):
    example(tmp_path)
    (tmp_path / "softmax").mkdir()
    done = invoke("check", f"{tmp_path}/softmax", "--only", "none")
    assert "no backend or entry named 'none'" in done.output
