"""What a piece of work makes the machine do: kernels, launches, operators, and how long the GPU is busy.

`events.py` records and counts, for studies and for `cudalab profile`; `kernel.py` is what that command does, in the
process of `child.py`; `ncu.py` reads the hardware's counters where NVIDIA's ncu is installed and allowed to.
"""
