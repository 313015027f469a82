"""Dropout: a random mask, which is checked by its share and by its pattern; y follows from the mask."""

import numpy as np

from cudalab import Budget, Kernel, Launch, Out, Scalar


def fair(mask, p):
    """Each element is kept with probability 1 - p, whatever its neighbours do."""
    n, keep = mask.size, 1 - p
    sigma = np.sqrt(p * keep / n)
    if abs(mask.mean() - keep) > 6 * sigma + 1 / n:
        return f"{mask.mean():.4f} of the elements are kept; {keep:.4f} should be"
    for lag in (1, 2, 3, 4, 512):
        if n > 8 * lag + 100:
            both = (mask[lag:] & mask[:-lag]).mean()
            if abs(both - keep**2) > 12 * sigma:
                return f"{both:.4f} of all pairs {lag} apart are kept; {keep**2:.4f} should be"
    return True


def launch(y, mask, x, p, seed):
    return Launch((4,), (128,), (y, mask, x, p, seed, np.int32(x.size)))


dropout = Kernel(
    file=__file__,
    summary="dropout, and its mask",
    dtypes=("float32",),
    sizes={"small": (20_000,), "large": (2**24,)},
    edges=((1,), (5,), (2047,), (4099,)),
    shapes={"x": "n"},
    outputs={
        "mask": Out(check=fair, dtype="bool"),
        "y": Out(lambda x, mask, p: np.where(mask, x / (1 - p), 0)),
    },
    scalars={"p": Scalar(0.25), "seed": Scalar(7, "uint64")},
    entries={"dropout_forward": launch},
    budgets=Budget(2, why="a division and a product"),
)
