"""GELU without erff: gelu.cu beside this file is to be measured on a GPU before it takes the place of the lab's."""

from dataclasses import replace

from cudalab.kernels import gelu as lab

# The lab's budgets hold for peers, which are judged by them too; tests/test_candidates.py asserts tighter ones of ours.
gelu = replace(lab.gelu, file=__file__)
