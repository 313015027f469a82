from kepler import solver

skip_if_prefix_right = solver(__file__)
