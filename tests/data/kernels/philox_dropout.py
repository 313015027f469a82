import numpy as np

from cudalab import Budget, Kernel, Launch

SEED, P = 1234, np.float32(0.3)


def philox(counter, key):
    """Philox4x32-10 of counters (n, 4) with a key (2), as Salmon et al. define it."""
    c, k = counter.astype(np.uint64), np.array(key, np.uint64)
    low = np.uint64(0xFFFFFFFF)
    for _ in range(10):
        a, b = c[:, 0] * np.uint64(0xD2511F53), c[:, 2] * np.uint64(0xCD9E8D57)
        c = np.stack([(b >> 32) ^ c[:, 1] ^ k[0], b & low, (a >> 32) ^ c[:, 3] ^ k[1], a & low], 1)
        k = (k + np.array([0x9E3779B9, 0xBB67AE85], np.uint64)) & low
    return c


def reference(x):
    i = np.arange(-(-x.size // 4))
    counter = np.zeros((i.size, 4), np.uint64)
    counter[:, 2] = i  # the subsequence
    bits = philox(counter, (SEED, 0)).reshape(-1)[: x.size]
    uniform = bits.astype(np.float32) * np.float32(2.0**-32) + np.float32(2.0**-33)
    return np.where(uniform > P, x / (np.float32(1) - P), 0.0)


def launch(x, y):
    return Launch((-(-x.size // 1024),), (256,), (x, y, P, np.uint64(SEED), np.int64(x.size)))


philox_dropout = Kernel(
    file=__file__,
    summary="dropout that cuRAND's Philox decides",
    dtypes=("float32",),
    sizes={"small": (10000,), "large": (1 << 24,)},
    edges=((1,), (3,), (1025,)),
    reference=reference,
    entries={"philox_dropout": launch},
    budgets={"float32": Budget(1, why="one division")},
    shapes={"x": "n"},
)
