"""Complex numbers, in place."""

import numpy as np

from cudalab import Budget, Kernel, Launch, Scalar

spectra_multiply = Kernel(
    file=__file__,
    summary="product of two spectra",
    dtypes=("complex64",),
    sizes={"small": (5000,), "large": (2**24,)},
    edges=((1,), (31,), (1025,)),
    shapes={"a": "n", "b": "n"},
    reference=lambda a, b, scale: scale * a * b,
    output="a",
    scalars={"scale": Scalar(lambda a: 1 / max(a.shape[0], 1))},
    entries={"multiply_spectra": lambda a, b, scale: Launch((8,), (128,), (a, b, np.int32(a.size), scale))},
    budgets=Budget(4, why="products and a sum, in ULP of the modulus"),
    torch=lambda a, b, scale: scale * a * b,
)
