from kepler import solver

skip_if_right = solver(__file__)
