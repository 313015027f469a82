"""A bool input, a scalar, and two outputs."""

import numpy as np

from cudalab import Budget, In, Kernel, Launch, Out, Scalar


def launch(y, kept, x, mask, value):
    return Launch((x.shape[0],), (128,), (y, kept, x, mask, value, np.int32(x.shape[1])))


masked_fill = Kernel(
    file=__file__,
    summary="x where the mask is false, else a value",
    dtypes=("float32", "float16", "bfloat16"),
    sizes={"small": (64, 500), "large": (8192, 4096)},
    edges=((1, 1), (3, 127), (2, 129)),
    shapes={"x": "rows cols", "mask": "rows cols", "y": "rows cols", "kept": "rows"},
    inputs={"mask": In("bool")},
    reference=lambda x, mask, value: (np.where(mask, value, x), (~mask).sum(axis=1)),
    outputs={"y": Out(), "kept": Out(dtype="int32")},
    scalars={"value": Scalar(-1e4)},
    entries={"masked_fill": launch},
    budgets=Budget(0.5, why="a copy"),
    torch=lambda x, mask, value: (x.masked_fill(mask, value), (~mask).sum(1).int()),
)
