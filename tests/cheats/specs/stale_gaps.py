from kepler import solver

stale_gaps = solver(__file__)
