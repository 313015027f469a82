"""The first calls take 20 ms longer, so that fewer samples are taken."""

import time

from kepler import ONE, composite, solver

CALLS = []


def native(m):
    CALLS.append(1)
    if len(CALLS) < 30:
        time.sleep(0.02)
    return composite(m)


form_slow_warm_up = solver(__file__, ONE, torch=composite, native=native)
