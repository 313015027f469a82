import numpy as np
from kepler import THREADS, solver

from cudalab import Launch, Work, blocks


def working(m, e, own):
    return Launch((blocks(m.size, THREADS),), (THREADS,), (m, e, own, np.int64(m.size)))


memo_workspace = solver(
    __file__,
    {"honest": working, "cheat": working},
    workspace={"own": Work()},
    shapes={"m": "n", "own": "n"},
    edges=((1,), (31,), (257,)),
)
