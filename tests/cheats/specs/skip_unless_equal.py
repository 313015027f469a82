from kepler import solver

skip_unless_equal = solver(__file__)
