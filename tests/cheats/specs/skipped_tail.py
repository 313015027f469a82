from kepler import solver

skipped_tail = solver(__file__)
