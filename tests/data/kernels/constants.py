"""A filter whose weights are a __constant__ array, set by the spec."""

import numpy as np

from cudalab import Budget, Kernel, Launch, blocks

WEIGHTS = np.array([1, 2, 3, -4, 5, -6, 7, 8, -9], np.float32) / 8  # not symmetric: a flip shows


def reference(image):
    padded = np.pad(image, 1, mode="edge")
    height, width = image.shape
    return sum(w * padded[i // 3 :, i % 3 :][:height, :width] for i, w in enumerate(WEIGHTS.astype(float)))


def launch(out, image):
    height, width = image.shape
    args = out, image, np.int32(height), np.int32(width)
    return Launch(grid=(blocks(width, 32), blocks(height, 8)), block=(32, 8), args=args)


constants = Kernel(
    file=__file__,
    summary="3 x 3 filter of an image",
    dtypes=("float32",),
    sizes={"small": (60, 100), "large": (8192, 8192)},
    edges=((1, 1), (3, 31), (9, 33), (2, 65)),
    shapes={"image": "height width"},
    reference=reference,
    output="out",
    constants={"filter": WEIGHTS},
    entries={"filter3x3": launch},
    budgets=Budget(4, atol=4e-6, why="9 terms that cancel"),
)
