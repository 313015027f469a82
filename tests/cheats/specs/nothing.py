from kepler import solver

nothing = solver(__file__)
