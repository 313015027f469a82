"""Gradient of the cross-entropy of each row of logits, in their place."""

import numpy as np

from cudalab import Budget, Kernel, Launch, Scalar, blocks, counted, deep_grid, draw
from cudalab.kernels._rows import power_of_two

THREADS = 256  # of a block
PACKS = 2  # of a thread of cross_entropy_backward_vec


def reference(logits, lse, targets, dloss, ignore_index):
    kept = targets != ignore_index
    gradient = np.exp(logits - lse[:, None])
    rows = np.flatnonzero(kept)
    at = rows, targets[rows]
    gradient[at] = np.expm1(logits[at] - lse[rows])
    return np.where(kept[:, None], gradient * dloss[:, None], 0)


def logits_and_rows(shape, dtype, rng):
    """Standard normal logits and gradients; of every five targets one is ignored. In one row the target has nearly all
    of the probability, and in another some classes are masked."""
    rows, cols = shape
    logits, targets = draw(shape, dtype, rng), rng.integers(0, cols, rows)
    logits[2:3, targets[2:3]] = 12
    logits[3:4, 1::3] = -np.inf
    targets[1::5] = -100
    lse = log_sum_exp(logits).astype(np.float32) if cols else np.zeros(rows, np.float32)
    return {"logits": logits, "lse": lse, "targets": targets, "dloss": draw((rows,), np.dtype(np.float32), rng)}


def log_sum_exp(logits):
    """The logarithm of the sum of exp(x) of each row. A few rows at a time, which stay in the cache: SciPy's, of all at
    once, takes ten times as long."""

    def of_few(x):
        largest = x.max(axis=1, keepdims=True)
        return np.log(np.exp(x - largest).sum(axis=1)) + largest[:, 0]

    return np.concatenate([of_few(few.astype(np.float32)) for few in np.array_split(logits, (logits.size >> 18) + 1)])


def plain(logits, lse, targets, dloss, ignore_index):
    rows, cols = logits.shape
    return Launch((rows,), (THREADS,), (logits, lse, targets, dloss, np.int64(cols), ignore_index))


def vec(logits, lse, targets, dloss, ignore_index):
    """A block covers a part of a row, or several short rows."""
    rows, cols = logits.shape
    threads = blocks(blocks(cols, 16 // logits.dtype.itemsize), PACKS)
    along = min(power_of_two(max(threads, 1)), THREADS)
    down = THREADS // along
    grid = deep_grid(max(blocks(threads, along), 1), blocks(rows, down))
    arguments = logits, lse, targets, dloss, np.int64(rows), counted(cols, np.int32), ignore_index
    return Launch(grid, (along, down), arguments)


def composite(logits, lse, targets, dloss, ignore_index: int):
    ignored = targets == ignore_index
    at = targets.masked_fill(ignored, 0)[:, None]
    gradient = (logits.float() - lse[:, None]).exp()
    gradient = gradient.scatter_add(1, at, ignored[:, None].float() - 1.0)
    return (gradient * dloss.masked_fill(ignored, 0.0)[:, None]).to(logits.dtype)


def native(logits, lse, targets, dloss, ignore_index):
    import torch

    classes = torch.arange(logits.shape[1], device=logits.device)
    gradient = (logits.float() - lse[:, None]).exp() - (classes == targets[:, None]).float()
    return (gradient * dloss.masked_fill(targets == ignore_index, 0.0)[:, None]).to(logits.dtype)


EDGES = (  # rows that begin off a 16-byte boundary; parts of a row; few rows of a block that covers several
    (1, 1), (5, 3), (3, 31), (6, 33), (9, 128), (2, 257), (7, 1000), (5, 1023), (2, 1032), (5, 4099), (3, 8208), (0, 8),
)  # fmt: skip
EXPONENT = "x - lse goes to -10 and is rounded: 8 ULP of the exponential; then the exponential and the product"
INSIDE = "float32 inside, one rounding at the end"
CANCELS = "of the peers: exp(x - lse) - 1 cancels at the target, where a rounding is 6e-8 of a gradient of up to 5"

cross_entropy_backward = Kernel(
    file=__file__,
    summary="gradient of the cross-entropy of each row of logits, in their place, from log-sum-exp and target",
    dtypes=("float32", "float16", "bfloat16"),
    sizes={
        "small": (256, 1000),
        "large": (4096, 32000),
        "xlarge": (2048, 128256),
        "short": (262144, 128),
        "odd": (4096, 50257),
    },
    edges=EDGES,
    reference=reference,
    output="logits",
    scalars={"ignore_index": Scalar(-100, "int64", others=())},  # with another one, targets of -100 are no classes
    entries={"cross_entropy_backward_plain": plain, "cross_entropy_backward_vec": vec},
    budgets={
        "float32": Budget(16, why=EXPONENT),
        "float16": Budget(1, why=INSIDE),
        "bfloat16": Budget(1, why=INSIDE),
    },
    peers={
        "float32": Budget(16, 2e-6, CANCELS),
        "float16": Budget(1, 2e-6, CANCELS),
        "bfloat16": Budget(1, 2e-6, CANCELS),
    },
    inputs=logits_and_rows,
    shapes={"logits": "rows cols", "lse": "rows", "targets": "rows", "dloss": "rows"},
    independent="rows",
    torch=composite,
    torch_native=native,
    triton="triton/cross_entropy_backward.py",
)
