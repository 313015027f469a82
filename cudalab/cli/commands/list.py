from __future__ import annotations

import click


@click.command("list")
def command() -> None:
    """Kernels of the lab with their entries, dtypes and sizes; then the backends."""
    from cudalab import registry

    for kernel in registry.kernels().values():
        sizes = ", ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in kernel.sizes.items())
        click.echo(f"{kernel.name}: {kernel.summary}")
        click.echo(f"    entries  {', '.join(kernel.entries)}")
        click.echo(f"    dtypes   {', '.join(kernel.dtypes)}")
        click.echo(f"    sizes    {sizes}")
    click.echo(f"backends: {', '.join(registry.backends())}")
