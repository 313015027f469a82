"""One bench on several GPUs, of one host or of a Ray cluster: each group of variants stays on one GPU."""

from cudalab.tools.gpus.several import over

__all__ = ["over"]
