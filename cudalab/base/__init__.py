"""Helpers that know nothing of CUDA: errors, text, files, the cache, threads, child processes, statistics."""
