"""`%load_ext cudalab`: the commands in a notebook, with the `.cu` and its spec in a cell.

`cell` makes the files of a cell, `magic` runs a command on them and shows its results as HTML.
"""
