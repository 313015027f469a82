"""Kernels as functions on arrays of NumPy, PyTorch, CuPy and PyCUDA."""
