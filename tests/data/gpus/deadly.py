"""y = 2 x; its reference ends the actor that measures it: at 3000 always, at 2000 once."""

import os
import signal
from pathlib import Path

import numpy as np

from cudalab import Budget, Kernel, Launch, blocks


def actor():
    """The Ray actor that this process belongs to; 0 for none."""
    pid = os.getpid()
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"ray::"):
            return pid
    return 0


def reference(x):
    once = Path(__file__).with_name("once")
    first = x.size == 2000 and not once.exists()
    if actor() and (x.size == 3000 or first):
        if first:
            once.touch()
        os.kill(actor(), signal.SIGKILL)
    return 2 * x


def launch(x, y):
    return Launch((blocks(x.size, 128),), (128,), (x, y, np.int32(x.size)))


deadly = Kernel(
    file=__file__,
    summary="y = 2 x",
    edges=((1,), (31,)),
    dtypes=("float32",),
    sizes={"fine": (1000,), "once": (2000,), "always": (3000,), "last": (4000,)},
    entries={"deadly": launch},
    reference=reference,
    budgets={"float32": Budget(1)},
)
