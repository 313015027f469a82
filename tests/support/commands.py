"""The command line in this process, as tests type it."""

from __future__ import annotations

from click.testing import CliRunner, Result

from cudalab.cli import main


def invoke(*words: object, **env: str) -> Result:
    """What a command printed and how it ended, with these variables in its environment."""
    return CliRunner().invoke(main, [str(word) for word in words], env=env)


def ran(*words: object, **env: str) -> Result:
    """The same of a command that ends with 0."""
    done = invoke(*words, **env)
    assert done.exit_code == 0, done.output
    return done


def refused(*words: object, code: int = 2, **env: str) -> str:
    """What a command said that ends with this code, and without a traceback."""
    done = invoke(*words, **env)
    assert done.exit_code == code, done.output
    assert "Traceback" not in done.output
    return done.output
