"""The pytest plugin: parity tests of a user's kernels."""
