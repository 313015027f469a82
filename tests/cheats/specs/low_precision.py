from kepler import solver

low_precision = solver(__file__)
