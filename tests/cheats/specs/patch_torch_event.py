"""torch.cuda.Event reports a hundredth of the time."""

import torch
from kepler import ONE, composite, solver

real = torch.cuda.Event.elapsed_time
torch.cuda.Event.elapsed_time = lambda self, other: real(self, other) / 100

patch_torch_event = solver(__file__, ONE, torch=composite, native=composite)
