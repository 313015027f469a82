import numpy as np
from kepler import THREADS, solver

from cudalab import Launch, Scalar, blocks


def launch(m, e, eps):
    return Launch((blocks(m.size, THREADS),), (THREADS,), (m, e, eps, np.int64(m.size)))


fixed_scalar = solver(
    __file__,
    {"honest": launch, "cheat": launch},
    reference=lambda m, eps: m / np.sqrt(m * m + eps),
    scalars={"eps": Scalar(1e-5)},
)
