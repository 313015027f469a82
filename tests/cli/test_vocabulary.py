"""One vocabulary: an option of several commands has one spelling, one meaning and one text, and says its default."""

from __future__ import annotations

import re

import click
import pytest
from click.testing import CliRunner
from commands import invoke, ran

from cudalab.cli import main
from cudalab.cli.options import OF_STUDY, VOCABULARY

COMMANDS = {name: main.get_command(None, name) for name in main.list_commands(None)}
ALIASES = {"--kernel": "--kernels", "--size": "--sizes", "--dtype": "--dtypes", "--output": "-o"}
# Which commands have which options: one that can take an option and lacks it is a gap.
MEASURE = {"bench", "check", "crossover", "inspect", "profile", "tune"}
READ = {"show", "compare", "report", "convert", "history"}
TAKE = {
    "--kernel": MEASURE | READ | {"list"},
    "--size": (MEASURE - {"crossover"}) | READ | {"study"},  # crossover has --from and --to
    "--dtype": MEASURE | READ,
    "--only": {"bench", "check", "study", "profile", "inspect"} | READ,
    "--skip": {"bench", "check", "study", "profile", "inspect"} | READ,
    "--device": {"bench", "check", "study", "crossover", "profile", "tune", "selftest"},
    "--output": {"bench", "check", "study", "crossover", "profile", "tune", "report", "show", "convert", "history"},
}


def options(name):
    return {param.opts[-1 if param.opts[0] == "-o" else 0]: param for param in COMMANDS[name].params
            if isinstance(param, click.Option)}  # fmt: skip


@pytest.mark.parametrize("columns", [50, 64, 80])
def test_the_list_of_commands_has_whole_sentences(columns):
    said = CliRunner().invoke(main, ["--help"], terminal_width=columns).stdout.partition("Commands:")[2]
    lines = said.strip("\n").splitlines()
    for name, command in COMMANDS.items():
        first = re.split(r"(?<=\.)\s", command.help, maxsplit=1)[0]
        assert f"{name} {' '.join(first.split())}" in " ".join(said.split())
    assert max(map(len, lines)) <= columns
    assert (len(lines) == len(COMMANDS)) == (columns == 80)  # each fits a usual terminal


@pytest.mark.parametrize("option", VOCABULARY)
def test_an_option_is_the_same_in_every_command(option):
    found = {name: options(name)[option] for name in COMMANDS if option in options(name)}
    assert set(found) >= TAKE[option]
    first = next(iter(found.values()))
    for name, param in found.items():
        assert param.opts == first.opts, name
        assert (type(param.type), param.metavar, param.multiple) == (type(first.type), first.metavar, first.multiple)
        words = OF_STUDY.get(option) if name == "study" else None
        assert param.help.startswith(words or VOCABULARY[option]), name
        assert "Default: " in param.help or param.required, name
        assert param._custom_shell_complete, name
    assert ALIASES.get(option, option) in first.opts


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_says_its_default(name):
    """In the words of its help, or where click prints it; flags are off."""
    for option, param in options(name).items():
        record = param.get_help_record(click.Context(COMMANDS[name]))
        if not param.is_flag or param.secondary_opts:
            assert re.search(r"Default: |\[.*(default: |required)", record[1]), (option, record[1])


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_no_type_of_click_and_no_doubled_parentheses(name):
    said = CliRunner().invoke(main, [name, "--help"], terminal_width=200).stdout
    assert not re.search(r" (INTEGER|FLOAT|TEXT)\b|RANGE|default: \(", said)


@pytest.mark.parametrize("columns", [50, 60, 80])
@pytest.mark.parametrize("name", COMMANDS)
def test_help_cuts_no_example(name, columns):
    """What the help quotes stands whole at any width, so that it can be copied."""
    wide, narrow = (CliRunner().invoke(main, [name, "--help"], terminal_width=n).stdout for n in (200, columns))
    assert re.findall(r"'[^'\s]+'", narrow) == re.findall(r"'[^'\s]+'", wide)


def test_one_spelling_of_set_and_a_quiet_option_beside_each_file_that_is_written():
    found = {param.metavar for name in COMMANDS for option, param in options(name).items() if option == "--set"}
    assert found == {"NAME=VALUE"}
    for name in COMMANDS:
        if "--output" in options(name) | {opt: 0 for param in options(name).values() for opt in param.opts}:
            assert "-q" in {opt for param in COMMANDS[name].params for opt in param.opts}, name


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_has_a_spelling_of_its_own(name):
    """An option that is not of the vocabulary is not one of its words either."""
    words = {word for option in VOCABULARY for word in (option, ALIASES.get(option, option))}
    for option, param in options(name).items():
        assert option in VOCABULARY or not words & {*param.opts}, option
        assert not re.fullmatch("--(kind|mode|arch)s?es", option)


@pytest.mark.process
@pytest.mark.parametrize("words", [["--sizes", "8,9"], ["--size", "8", "--size", "9"], ["--size", "8,9"]])
def test_a_list_is_given_by_commas_or_by_repeating_the_option(words, tmp_path):
    quick = ("--only", "numpy", "--device", "cpu", "-q", "-o", str(tmp_path / "r.json"))
    ran("check", "plus_one", "--dtypes", "float32", *words, *quick)
    shown = invoke("show", tmp_path / "r.json", "--size", "9", "--format", "csv")
    assert [line.split(",")[1] for line in shown.stdout.splitlines()[1:]] == ["9"]
