"""Run an unmodified CUDA `.cu` on the CPU: to check a kernel without a GPU, never to time it.

`g++` compiles the source against the headers in this folder, which give CUDA's names a meaning on
the CPU (`cuda_host.h` lists them and what they leave out). The result is called with NumPy arrays:

    module = load(Path("plus_one.cu").read_text(), name="plus_one.cu")
    module.launch("plus_one", (1, 1, 1), (256, 1, 1), [y, x, np.int32(256)])

A kernel that passes here can still fail on a GPU: the memory model, registers, the 48 KiB limit of static
shared memory and (without `sanitize`) out-of-bounds accesses that hit valid memory are not noticed. Barriers that
can never complete, misaligned accesses and failed asserts are, and end the launch with a `LaunchError`.
"""

from __future__ import annotations

from cudalab.host.compiler import build, compile_source
from cudalab.host.gxx import address_sanitizer, compiler_missing, compiler_version
from cudalab.host.launch_rules import Order
from cudalab.host.module import Ends, Module, load

__all__ = [
    "Ends",
    "Module",
    "Order",
    "address_sanitizer",
    "build",
    "compile_source",
    "compiler_missing",
    "compiler_version",
    "load",
]
