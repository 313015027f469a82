"""After ten calls a new tensor is returned as it is: the allocator gives the memory of an old result."""

import torch
from kepler import ONE, composite, solver

CALLS = []


def native(m):
    CALLS.append(m.shape)
    return composite(m) if CALLS.count(m.shape) <= 10 else torch.empty_like(m)


form_stale_memory = solver(__file__, ONE, torch=composite, native=native)
