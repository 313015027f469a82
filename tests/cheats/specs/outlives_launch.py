from kepler import solver

outlives_launch = solver(__file__)
