"""The kernels: `name.cu` is the device code, `name.py` its spec; common/ is device code that several share."""
