from __future__ import annotations

import click


@click.command("list")
def command() -> None:
    """List the lab's kernels, their sizes, and the backends.

    For each kernel: its entries (the __global__ functions), the dtypes and named sizes that `bench` and `check` accept,
    and the launch parameters that `tune` may change.

    \b
    cudalab list

    Exit code: 0.
    """
    from cudalab import backends
    from cudalab.spec import find

    for kernel in find.kernels().values():
        sizes = ", ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in kernel.sizes.items())
        click.echo(f"{kernel.name}: {kernel.summary}")
        click.echo(f"    entries  {', '.join(kernel.entries)}")
        click.echo(f"    dtypes   {', '.join(kernel.dtypes)}")
        click.echo(f"    sizes    {sizes}")
        for name, values in kernel.tunables.items():
            click.echo(f"    tunable  {name}: {', '.join(map(str, values))}")
    click.echo(f"backends: {', '.join(backends.by_name())}")
