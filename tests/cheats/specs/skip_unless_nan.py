from kepler import solver

skip_unless_nan = solver(__file__)
