"""Inductor vectorises and fuses nothing for anybody, and torch.compile compiles nothing."""

import os

os.environ["TORCHINDUCTOR_CPP_SIMDLEN"] = "1"

import torch
import torch._inductor.config
from kepler import ONE, composite, solver

torch._inductor.config.max_fusion_size = 1
torch.compiler.set_stance("force_eager")

patch_compilers = solver(__file__, ONE, torch=composite, native=composite)
