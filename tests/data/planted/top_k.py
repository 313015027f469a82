"""The k largest values of each row, and where they are."""

import numpy as np
from rows import MOVED, planted

from cudalab import Launch, Out, Scalar


def reference(x, k):
    order = np.argsort(-x, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(x, order, axis=1), order


def launch(x, values, indices, k):
    rows, cols = x.shape
    return Launch((rows,), (128,), (x, values, indices, np.int32(cols), k), shared=4 * cols)


top_k = planted(
    __file__, __doc__, launch, reference, MOVED, small=(17, 200), edges=((1, 5), (3, 31), (2, 129), (3, 1000)),
    shapes={"x": "rows cols", "values": "rows k", "indices": "rows k"}, nans="ignored",
    outputs={"values": Out(), "indices": Out(dtype="int32")}, scalars={"k": Scalar(5, "int32")},
    dims={"k": "at least 1, at most cols"},
    characters=("zeros", "negative", "large", "ties", "ends", "rising", "falling"),
)  # fmt: skip
