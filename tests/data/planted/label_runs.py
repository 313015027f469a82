"""Labels of connected runs."""

import numpy as np
from rows import planted

from cudalab import Launch, Work


def reference(link):
    nodes = np.arange(link.size)
    begins = np.concatenate([[True], link[:-1] == 0])
    return np.maximum.accumulate(np.where(begins, nodes, 0)).astype(np.int32)


def launch(link, y, changed):
    return Launch((4,), (64,), (link, y, changed, np.int32(link.size)), cooperative=True)


label_runs = planted(
    __file__, __doc__, launch, reference, dtypes=("int32",), small=(700,), edges=((1,), (3,), (255,), (257,)),
    shapes={"link": "n", "y": "n", "changed": "1"}, workspace={"changed": Work("int32")},
    inputs=lambda shape, dtype, rng: {"link": rng.integers(0, 4, shape).astype(np.int32)},
)  # fmt: skip
