from __future__ import annotations

import click

from cudalab.cli import complete


@click.command("new")
@click.argument("path", metavar="FILE.cu", shell_complete=complete.files)
@click.option("--like", default="", metavar="KERNEL", shell_complete=complete.kernels,
              help="Copy this kernel of the lab as FILE.cu, with its spec and headers. Default: write a spec "
              "for the FILE.cu that is there.")  # fmt: skip
def command(path: str, like: str) -> None:
    """Write a spec for a `.cu` file, to fill in.

    Reads the __global__ functions in FILE.cu and writes FILE.py beside it: inputs, outputs, shapes, scalars, launches,
    sizes. What only you know is marked TODO: the reference in NumPy, the error budget, and what the code does not
    tell. Host code in FILE.cu is left out; grid and block are read from a launch in it where that is simple. Of a .py
    with CUDA code in strings (load_inline, RawKernel, SourceModule) it writes each string to a .cu first; it never
    runs the .py. With --like it copies one of the lab's kernels as a whole example. Files that exist are not replaced.

    \b
    cudalab new mine/rmsnorm.cu
    cudalab new mine/model.py
    cudalab new mine/softmax.cu --like softmax

    Exit code: 0, or 2 if the file cannot be read or has no entry, or a file exists already.
    """
    from cudalab.cli import scaffold

    scaffold.write(path, like)
