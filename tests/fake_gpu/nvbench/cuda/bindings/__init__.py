"""Stands for cuda-bindings, which NVBench asks for CUDA's version."""

__version__ = "13.0.0"
