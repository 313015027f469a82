"""What the generated parts of the pages are made from; `bench/readme_tables.py` writes them.

`committed` (the results, pieces of Markdown), `peers` (ours beside the fastest peer of each row), `h200` (README.md,
docs/h200.md), `method` (bench/METHOD.md).
"""
