"""What the generated parts of the pages are made from; `bench/readme_tables.py` writes them.

`committed` (the results of each card, pieces of Markdown), `peers` (ours beside the fastest peer of each row), `card`
(docs/CARD.md), `kernel` (docs/CARD/KERNEL.md), `h200` (README.md, docs/pytorch.md), `method` (bench/METHOD.md).
"""
