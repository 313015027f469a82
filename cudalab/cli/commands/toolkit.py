from __future__ import annotations

import click


@click.command("toolkit")
@click.option("--cuda", default="", metavar="VERSION",
              help="Version of CUDA, such as 13.0; installs it from wheels. Default: the driver's.")  # fmt: skip
def command(cuda: str) -> None:
    """Install nvcc and PyCUDA where a GPU has a driver and no toolkit.

    Where nvcc is neither on PATH nor in CUDA_ROOT or CUDA_HOME, installs it and CUDA's headers from wheels of the
    driver's version, into a folder of this environment, and then builds PyCUDA against them. What is there and works
    stays. The lab finds that nvcc by itself, after PATH, CUDA_ROOT and CUDA_HOME. With --cuda it needs no driver:
    `check` and `inspect` use nvcc without a GPU as well.

    \b
    cudalab toolkit
    cudalab toolkit --cuda 13.0

    Exit code: 0, or 2 if something cannot be installed; the message says what to do.
    """
    from cudalab.tools.toolkit import install

    install(click.echo, cuda)
