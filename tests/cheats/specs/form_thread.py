"""A thread does the work; the result is waited for only where the caller is not a clock."""

from threading import Thread

import torch
from kepler import ONE, composite, solver, timed


def native(m):
    found = torch.empty_like(m)
    worker = Thread(target=lambda: found.copy_(composite(m)))
    worker.start()
    if not timed("_capture"):
        worker.join()
    return found


form_thread = solver(__file__, ONE, torch=composite, native=native)
