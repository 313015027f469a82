"""PyTorch looks for anomalies in everybody's gradients, and everybody's algorithms are deterministic."""

import torch
from kepler import ONE, composite, solver

torch.autograd.set_detect_anomaly(True)
torch.use_deterministic_algorithms(True)

patch_settings = solver(__file__, ONE, torch=composite, native=composite)
