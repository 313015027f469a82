from kepler import solver

fixed_shape = solver(__file__)
