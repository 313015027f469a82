from __future__ import annotations

import click


@click.command("list")
def command() -> None:
    """The lab's kernels, sizes and backends.

    Of each kernel its entries (the __global__ functions), dtypes and named sizes, as `bench` and `check` take them, and
    the launch parameters that `tune` may choose.

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
