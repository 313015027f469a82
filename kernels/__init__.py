"""The kernels: `name.cu` is the device code, `name.py` says how to feed, launch and check it."""
