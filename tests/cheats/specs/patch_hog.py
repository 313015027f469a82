"""Threads of its own use the processors while others are called."""

import threading
from time import sleep

import numpy as np
from kepler import ONE, composite, solver

OWN = threading.Event()
STARTED = []


def burn():
    numbers = np.ones(200_000)
    while True:
        if OWN.is_set():
            sleep(0.0005)
        else:
            np.sin(numbers, out=numbers)


def native(m):
    OWN.set()
    if not STARTED:
        STARTED.extend(threading.Thread(target=burn, daemon=True) for _ in range(2))
        for thread in STARTED:
            thread.start()
    try:
        return composite(m)
    finally:
        OWN.clear()


patch_hog = solver(__file__, ONE, torch=composite, native=native)
