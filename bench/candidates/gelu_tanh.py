"""gelu_tanh without the guard of exp2 in 16 bits: bench/NOTES.md says what it promises; not measured yet."""

from dataclasses import replace

from cudalab.kernels import gelu_tanh as lab

gelu_tanh = replace(lab.gelu_tanh, file=__file__)
