"""Where a case runs: `cpu.py` is NumPy memory, `gpu.py` one GPU's memory and stream; `open.py` opens either.

`protocol.py` says what every device offers. `driver.py` is the only module that binds the CUDA driver. Devices know
no clocks: `cudalab.timing` measures what runs on them.
"""
