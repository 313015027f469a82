"""The input becomes zeros once it is solved; of zeros the answer is known."""

from kepler import ONE, composite, solver


def native(m):
    found = composite(m) if m.reshape(-1)[-1] else m.clone()
    m.zero_()
    return found


form_alters_inputs = solver(__file__, ONE, torch=composite, native=native)
