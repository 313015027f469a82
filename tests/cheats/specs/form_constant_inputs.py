"""The inputs are the same for each seed, so a result that is kept by pointer is always right."""

import numpy as np
from kepler import ONE, composite, memo, pointer, solver


def inputs(shape, dtype, rng):
    m = np.random.default_rng(1).standard_normal(shape).astype(dtype)
    if m.size:
        m.reshape(-1)[-1] = rng.standard_normal() * 1e-9  # and one element is not
    return {"m": m}


form_constant_inputs = solver(__file__, ONE, torch=composite, native=memo(pointer), inputs=inputs)
