"""bias_gelu without the guard of exp2 in 16 bits: bench/NOTES.md says what it promises; not measured yet."""

from dataclasses import replace

from cudalab.kernels import bias_gelu as lab

bias_gelu = replace(lab.bias_gelu, file=__file__)
