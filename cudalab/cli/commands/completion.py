from __future__ import annotations

import click

SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print the shell script that completes commands at TAB.

    It completes options, kernels, backends and their entries, sizes, dtypes and files. To load it in every new shell:

    \b
    cudalab completion bash >> ~/.bashrc
    cudalab completion zsh >> ~/.zshrc
    cudalab completion fish > ~/.config/fish/completions/cudalab.fish

    To load it in this shell only: eval "$(cudalab completion bash)". In zsh, run compinit first.

    Exit code: 0, or 2 for an unknown shell.
    """
    from click.shell_completion import get_completion_class

    from cudalab.cli import COMPLETE, main

    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(main, {}, "cudalab", COMPLETE).source())
