"""What a call makes the machine do: kernels, launches, operators, and the time that the GPU is busy.

`events.py` records and counts, for studies and for `cudalab profile`. `kernel.py` is that command; it profiles in a
child process (`child.py`). `ncu.py` reads the hardware's counters where NVIDIA's ncu is installed and has permission.
"""
