from kepler import solver

restless_half = solver(__file__)
