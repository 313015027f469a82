"""Keeps the medians of runs in a store, and finds where they changed.

`record` adds results files to a `store`, `series` reads it back, `steps` finds changes of level, `export` writes it for
other programs.
"""
