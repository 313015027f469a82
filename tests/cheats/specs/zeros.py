from kepler import solver

zeros = solver(__file__)
