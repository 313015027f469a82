"""Cross-entropy of each row of logits with its target class, and the row's log-sum-exp."""

import numpy as np

from cudalab import Budget, Kernel, Launch, Out, Scalar, blocks, counted, draw
from cudalab.kernels._rows import WARP, clustered, power_of_two, shared, threads_of

THREADS = 256  # of a block of cross_entropy_plain
TURN_BYTES = 64  # that a thread loads at a time
TURN = 32  # the most elements in them
SHARE = 128  # elements of a thread of cross_entropy_vec, if a row has no more threads than this
WIDEST = 256  # threads of a row up to which a thread has no more than SHARE elements
NO_CLASS = -(2**62)  # the target of a row without a gradient


def reference(logits, targets, ignore_index):
    from scipy.special import logsumexp

    lse = logsumexp(logits, axis=1)
    kept = targets != ignore_index
    picked = np.take_along_axis(logits, np.where(kept, targets, 0)[:, None], axis=1)[:, 0]
    return np.where(kept, lse - picked, 0), lse


def logits_and_targets(shape, dtype, rng):
    """Standard normal logits, but for four rows; of every five targets one is ignored.

    Their exponentials overflow, the target has nearly all of the probability, a third is masked, the target is masked.
    """
    rows, cols = shape
    logits, targets = draw(shape, dtype, rng), rng.integers(0, cols, rows)
    logits[:1] += 100
    logits[2:3, targets[2:3]] = 12
    logits[3:4, 1::3] = -np.inf
    targets[3:4] = 0
    logits[4:5, targets[4:5]] = -np.inf if cols > 1 else 0
    targets[1::5] = -100
    return {"logits": logits, "targets": targets}


def plain(logits, targets, loss, lse, ignore_index):
    rows, cols = logits.shape
    return Launch((rows,), (THREADS,), (logits, targets, loss, lse, np.int64(cols), ignore_index))


def arguments(logits, targets, loss, lse, ignore_index):
    rows, cols = logits.shape
    return logits, targets, loss, lse, np.int64(rows), counted(cols, np.int32), ignore_index


def vec(logits, targets, loss, lse, ignore_index):
    """SHARE elements a thread; fewer for few rows, more for rows that WIDEST threads can process in turns.

    A row has a warp if each of its threads can load a turn, so that neighbouring threads load neighbouring packs.
    """
    rows, cols = logits.shape
    itemsize = logits.dtype.itemsize
    turn = TURN_BYTES // itemsize
    threads = threads_of(rows, cols, itemsize, max(SHARE, cols // WIDEST))
    threads = max(threads, min(power_of_two(blocks(cols, turn)), WARP))
    return Launch(*shared(rows, threads), arguments(logits, targets, loss, lse, ignore_index))


def cluster(logits, targets, loss, lse, ignore_index):
    return clustered(*logits.shape, TURN, arguments(logits, targets, loss, lse, ignore_index))


def composite(logits, targets, ignore_index: int):
    wide = logits.float()
    lse = wide.logsumexp(1)
    ignored = targets == ignore_index
    picked = wide.gather(1, targets.masked_fill(ignored, 0)[:, None])[:, 0]
    return (lse - picked).masked_fill(ignored, 0.0), lse


def native(logits, targets, ignore_index):
    from torch.nn.functional import cross_entropy

    wide = logits.float()
    return cross_entropy(wide, targets, ignore_index=ignore_index, reduction="none"), wide.logsumexp(1)


def backward(dloss, dlse, logits, targets, lse, ignore_index):
    """The gradient of lse is dlse times the softmax p, so the row's is (p - [target]) (dloss + dlse) + [target] dlse.

    The loss of an ignored row has no gradient. If its lse has none either, the row is 0 whatever it holds.
    """
    from cudalab.kernels.cross_entropy_backward import cross_entropy_backward as kernel

    ignored = targets == ignore_index
    at, both = targets.masked_fill(ignored, 0), dloss.masked_fill(ignored, 0.0) + dlse
    # The kernel writes over the logits. On the CPU such a call would need the host's compiler.
    form = kernel if logits.is_cuda else kernel.torch_native
    classes = at.masked_fill(ignored & (dlse == 0), NO_CLASS)
    gradient = form(logits.clone(), lse, classes, both, ignore_index=NO_CLASS)
    inside = at.clamp(0, logits.shape[1] - 1)  # a target that is no class makes its row NaN
    return gradient.scatter_add_(1, inside[:, None], dlse[:, None].to(gradient.dtype)), None


EDGES = (  # rows that begin off a 16-byte boundary; several turns of a thread; a part of a block of the cluster
    (1, 1), (5, 3), (3, 31), (6, 33), (9, 128), (2, 257), (7, 1000), (5, 1023), (2, 1032), (5, 4099), (1, 33008),
    (1, 40001), (0, 8),
)  # fmt: skip
LOGARITHM = "the rounding errors of the sum and its exponentials; of a sum near 1 they are those of the logarithm"
OFFSET = "they take lse - x[target] of two numbers near 105, each of which is rounded to 4e-6"

cross_entropy = Kernel(
    file=__file__,
    summary="cross-entropy of each row of logits with its target class, and the row's log-sum-exp",
    dtypes=("float32", "float16", "bfloat16"),
    sizes={
        "small": (256, 1000),
        "large": (4096, 32000),
        "xlarge": (2048, 128256),
        "short": (262144, 128),
        "odd": (4096, 50257),
        "longest": (1024, 262144),
        "few": (16, 128256),
    },
    edges=EDGES,
    reference=reference,
    outputs={"loss": Out(dtype="float32"), "lse": Out(dtype="float32")},
    scalars={"ignore_index": Scalar(-100, "int64", others=())},  # with another one, targets of -100 are no classes
    entries={
        "cross_entropy_plain": plain,
        "cross_entropy_vec": vec,
        "cross_entropy_cluster": cluster,
    },
    called=lambda logits, targets: "cross_entropy_vec",
    budgets=Budget(2, 1e-6, LOGARITHM),
    peers=Budget(2, 8e-6, OFFSET),
    inputs=logits_and_targets,
    shapes={"logits": "rows cols", "targets": "rows", "loss": "rows", "lse": "rows"},
    independent="rows",
    backward=backward,
    torch=composite,
    torch_native=native,
    triton="triton/cross_entropy.py",
)
