from __future__ import annotations

import click

SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print a script that lets TAB complete commands.

    It completes options, kernels, backends and their entries, sizes, dtypes and files. To have it in every new shell:

    \b
    cudalab completion bash >> ~/.bashrc
    cudalab completion zsh >> ~/.zshrc
    cudalab completion fish > ~/.config/fish/completions/cudalab.fish

    In this shell only: eval "$(cudalab completion bash)". Under zsh, compinit must have run before.

    Exit code: 0, or 2 for another shell.
    """
    from click.shell_completion import get_completion_class

    from cudalab.cli import COMPLETE, main

    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(main, {}, "cudalab", COMPLETE).source())
