"""On a GPU the work goes to a stream that nobody waits for."""

import torch
from kepler import ONE, composite, solver

SIDE = []


def native(m):
    if not m.is_cuda:
        return composite(m)
    if not SIDE:
        SIDE.append(torch.cuda.Stream())
    with torch.cuda.stream(SIDE[0]):
        return composite(m)


form_other_stream = solver(__file__, ONE, torch=composite, native=native)
