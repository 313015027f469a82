"""The function stays, its code is replaced: torch.nn.functional.softmax is another."""

import torch
from kepler import ONE, composite, solver


def slow(*args, **kwargs):
    return None


torch.nn.functional.softmax.__code__ = slow.__code__

patch_code = solver(__file__, ONE, torch=composite, native=composite)
